//! The system calls that the standard library and `socket2` don't offer, behind
//! safe functions. All of the crate's unsafe code is in here.

pub(crate) mod address;
pub(crate) mod identification;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod receive;
pub(crate) mod rights;
pub(crate) mod send;
pub(crate) mod splice;
pub(crate) mod turns;
