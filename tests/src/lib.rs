//! Interop lab: the Linux kernel's Soft-RoCE as a peer on the wire, for tests.
//!
//! [`lab::Lab`] boots Debian's kernel with `rdma_rxe` under QEMU, connected by a
//! tap device to a network namespace of its own, runs commands on both sides,
//! captures both sides, drops packets on purpose, and cleans up after itself.
//!
//! [`veth::Pair`] consists of two namespaces and a cable between them, without a guest, and
//! [`lan::Lan`] of three at a switch.

pub mod bottleneck;
pub mod decode;
pub mod ends;
pub mod lab;
pub mod lan;
pub mod peer;
pub mod programs;
pub mod random;
pub mod scene;
pub mod wire;

pub use testkit::veth;
