//! `libibverbs.so.1` and `librdmacm.so.1`: the C ABI of verbs, and of the connection manager,
//! on this stack.
//!
//! Programs that were linked to one of them, or both, load this library in its place, unchanged.
//! It translates: every function makes Rust of what C gives it, calls
//! [`roce_verbs`], and makes C of what comes back. What can't be done returns
//! `EOPNOTSUPP`, never success.
//!
//! - [`abi`] has the structures of `verbs.h`, whose layout is the ABI.
//! - `pointer` has the types that pointers of C have here, and `guard` the one way in:
//!   each entry point runs in it, so that a panic never unwinds into C.
//! - `exports` gives each function its versioned symbols.

pub mod abi;

mod ah;
mod buffer;
mod channel;
mod context;
mod convert;
mod cq;
mod device;
mod dm;
mod dmabuf;
mod domain;
mod errors;
mod events;
mod exports;
mod farewell;
mod fork;
mod guard;
mod handles;
mod import;
mod limits;
mod log;
mod mappings;
mod mr;
mod mr_ex;
mod multicast;
mod mw;
mod part;
mod pd;
mod pointer;
mod prefetch;
mod private;
mod qp;
mod query;
mod rates;
mod rdmacm;
mod srq;
mod strings;
mod sysfs;
mod unsupported;
mod usage;
mod xrc;
