//! Unreliable datagrams: messages of one packet from any QP (IBTA 1.7, 9.8.3).
//!
//! The [`Receiver`] takes packets that carry the QP's Q_Key, and puts the network header (see
//! [`grh`]) in front of the message. The sending half is [`Sender`](super::sender::Sender).

mod grh;
mod receiver;

pub(crate) use receiver::Receiver;
