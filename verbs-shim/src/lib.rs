//! `libibverbs.so.1` and `librdmacm.so.1`: the C ABI of verbs, and of the connection manager,
//! on this stack.
//!
//! A program linked to one or both of them loads this library instead, without being rebuilt. The
//! library is a translation layer: every function converts its C arguments to Rust, calls
//! [`roce_verbs`], and converts the result back to C. An unsupported operation returns
//! `EOPNOTSUPP`, never success.
//!
//! - [`abi`] has the structures of `verbs.h`, whose layout is the ABI.
//! - `pointer` has the types that represent C's pointers, and `guard` wraps the body of each
//!   entry point, so that a panic never unwinds into C.
//! - `symbols.txt` has the versioned symbols of each function, and `exports` defines them.

// They panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod abi;

mod ah;
mod buffer;
mod channel;
mod comp_cntr;
mod context;
mod convert;
mod cq;
mod device;
mod dm;
mod dmabuf;
mod domain;
mod drive;
mod errors;
mod events;
mod exit_message;
mod exports;
mod guard;
mod handlers;
mod handles;
mod import;
mod injected;
mod log;
mod mr;
mod mr_ex;
mod multicast;
mod mw;
mod no_op;
mod objects;
mod pd;
mod pointer;
mod prefetch;
mod prelude;
mod qp;
mod query;
mod rates;
mod rdmacm;
mod region;
mod rsocket;
mod srq;
mod state;
mod strings;
mod sysfs;
mod unsupported;
mod usage;
mod wait;
mod xrc;
