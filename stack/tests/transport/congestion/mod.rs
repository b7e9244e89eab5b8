//! Congestion: marks and their effects (RoCEv2 Annex A17.9.3).

mod hostile;
mod limit;
mod many;
mod notification;
mod pacer;
pub(crate) mod reaction;
mod start;
