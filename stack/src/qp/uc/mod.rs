//! Unreliable connection: messages to one peer, without acknowledgement (IBTA 1.7,
//! 9.8.2).
//!
//! The [`Sender`] numbers packets and forgets them. The [`Receiver`] places what
//! comes in order; a gap costs the message that it lies in, and the next message's
//! first packet starts anew, whatever its PSN.

mod receiver;
mod sender;

pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;
