//! Reliable connections end to end, against the rules of the InfiniBand
//! Architecture Specification: two NICs over a faulty wire, or one against packets
//! written by hand, in virtual time and from a seed.

mod fence;
mod operations;
mod sim;
mod soak;
