//! Unreliable connection: messages from one peer, without acknowledgement (IBTA 1.7, 9.8.2).
//!
//! The [`Receiver`] places packets that arrive in order. If a packet is missing, its message is
//! dropped; the first packet of the next message is accepted whatever its PSN. The sending half is
//! [`Sender`](super::sender::Sender).

mod receiver;

pub(crate) use receiver::Receiver;
