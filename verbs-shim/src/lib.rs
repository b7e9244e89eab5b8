//! `libibverbs.so.1` and `librdmacm.so.1`: the C ABI of verbs, and of the connection manager,
//! on this stack.
//!
//! Programs linked to one or both of them load this library instead, unchanged. It is a translation
//! layer: every function converts its C arguments to Rust, calls [`roce_verbs`], and converts the
//! result back to C. An unsupported operation returns `EOPNOTSUPP`, never success.
//!
//! - [`abi`] has the structures of `verbs.h`, whose layout is the ABI.
//! - `pointer` has the types that represent C's pointers, and `guard` the only way in: each entry
//!   point runs in it, so that a panic never unwinds into C.
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
