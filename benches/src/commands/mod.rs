//! The commands, a file for each.

pub(crate) mod builds;
pub(crate) mod connections;
pub(crate) mod curves;
pub(crate) mod destinations;
pub(crate) mod fabric;
pub(crate) mod figures;
pub(crate) mod flames;
pub(crate) mod guest;
pub(crate) mod local;
pub(crate) mod lossy;
pub(crate) mod marks;
pub(crate) mod ordinary;
pub(crate) mod pacer;
pub(crate) mod programs;
pub(crate) mod recovery;
pub(crate) mod scale;
pub(crate) mod sockets;
pub(crate) mod storage;
pub(crate) mod xdp;
