//! Two NICs over a faulty wire in virtual time, and one NIC against packets
//! written by hand.

pub(crate) mod hand;
pub(crate) mod link;
pub(crate) mod node;
pub(crate) mod pair;
pub(crate) mod port;

pub(crate) use hand::{Hand, Out, PEER_QPN, frame};
pub(crate) use link::{Fate, Faults, Sent};
pub(crate) use node::{Mem, Node, pattern};
pub(crate) use pair::{A, B, Pair, QKEY, Setup, to_state};
pub(crate) use port::{Frame, Ip, SRC_PORT};
