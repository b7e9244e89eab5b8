//! Congestion: marks and what they lead to (RoCEv2 Annex A17.9).

mod notification;
mod reaction;
mod start;
