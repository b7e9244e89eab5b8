//! Puts the TCP sockets of unchanged programs on rsockets, the sockets over RDMA of librdmacm.
//!
//! Programs preload this library. A socket that connects does so over RDMA, and over TCP if the peer
//! has no rsockets; one that listens does both at the same port. The program's descriptor is always
//! one of the kernel's: that of a TCP socket, which the kernel does not connect as long as RDMA does.
//! A table leads from it to the rsocket. Calls about other descriptors go to the C library after one
//! load.
//!
//! - `librdmacm.so.1` is whichever the loader finds; its threads and its descriptors are hidden from
//!   the program.
//! - A forked child gets its parent's connections as Unix-domain sockets, between which and the
//!   rsockets the parent relays; so does a program that the child executes. It listens over RDMA
//!   instead of its parent, unless that accepts connections itself.
//! - `ROCE_SOCKETS` holds settings: see `settings.rs`.
//! - Not covered are static programs, programs that make system calls directly (Go), `io_uring`, and
//!   streams of the C library (`fdopen`).

// They panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(
    test,
    expect(dead_code, reason = "what is exported is left out of tests")
)]

mod accept;
mod address;
mod atfork;
mod cancel;
mod carried;
mod children;
mod claim;
mod clock;
mod connect;
mod descriptors;
mod epoll;
mod errno;
mod exec;
mod exit;
// Unit tests use the original functions of the C library.
#[cfg(not(test))]
mod exports;
mod fork;
mod forked;
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
mod options;
mod parent;
mod poll;
mod rdmacm;
mod ready;
mod real;
mod relay;
mod say;
mod select;
mod sendfile;
mod settings;
mod signals;
mod socket;
#[cfg(not(test))]
mod start;
mod table;
mod threads;
