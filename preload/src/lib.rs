//! Shows the files of RDMA devices to a program where no mount is allowed, as in a container
//! with Docker's default profile.
//!
//! Programs preload this library. It takes the place of the C library's functions that open,
//! examine or list a file by its path. A path below `/sys/class/infiniband`, the other classes
//! of RDMA, or `/dev/infiniband` is looked up in the folder that `ROCE_FILES` names. Every other
//! path goes to the C library as it is, after a comparison that most paths leave at their
//! second byte.
//!
//! - Nothing is allocated, no lock is taken, and no thread is started. All functions of the C
//!   library are found when this library is loaded, so that a call is as safe in a signal
//!   handler or in a forked child as the original is.
//! - `errno` changes only as the original changes it.
//! - Out of reach are: static programs, programs that make system calls themselves (Go), and
//!   what the C library opens on its own (`glob`, `nftw`).

#![cfg_attr(
    test,
    expect(dead_code, reason = "what is exported is left out of tests")
)]

// Tests leave the C library's functions where they are.
#[cfg(not(test))]
mod exports;
mod place;
#[cfg(not(test))]
mod real;
mod root;
