//! Carries the TCP sockets of unchanged programs over rsockets, librdmacm's sockets over RDMA.
//!
//! Programs preload this library. A socket connects over RDMA, and falls back to TCP if the peer has
//! no rsockets; a listener accepts both at the same port. The program always holds a kernel
//! descriptor: a TCP socket that stays unconnected while RDMA carries the connection. A table maps
//! it to the rsocket. The fast path for all other descriptors is one load, then the C library.
//!
//! - The loader decides which `librdmacm.so.1` is used. Its threads and descriptors are hidden from
//!   the program.
//! - A forked child, and a program that the child executes, gets its parent's connections as
//!   Unix-domain sockets; the parent relays between them and the rsockets. The child takes over the
//!   RDMA listener unless the parent accepts connections itself.
//! - `ROCE_SOCKETS` holds settings: see `settings.rs`.
//! - Not covered: static programs, programs that make system calls directly (Go; a warning says so),
//!   `io_uring`, and streams of the C library (`fdopen`).

// The print macros panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(
    test,
    expect(dead_code, reason = "tests leave out the exported functions")
)]

mod accept;
mod address;
mod atfork;
mod cancel;
mod children;
mod claim;
mod clock;
mod connect;
mod descriptors;
mod epoll;
mod errno;
mod eventfd;
mod exec;
mod exit;
// Unit tests use the original functions of the C library.
#[cfg(not(test))]
mod exports;
mod fork;
mod go;
mod hidden;
mod inside;
mod interest;
mod io;
mod kinds;
mod link;
mod listen;
#[cfg(not(test))]
mod lists;
mod names;
mod option_copy;
mod options;
mod poll;
mod poll_set;
mod rdmacm;
mod ready;
mod real;
mod relay;
mod say;
mod select;
mod settings;
mod signals;
mod socket;
#[cfg(not(test))]
mod start;
mod table;
