//! Unreliable datagrams: messages of one packet to anybody (IBTA 1.7, 9.8.3).
//!
//! The [`Sender`] sends each message along the path that its request names. The
//! [`Receiver`] takes packets that carry the QP's Q_Key, and puts the network header
//! (see [`grh`]) in front of the message.

mod grh;
mod receiver;
mod sender;

pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;
