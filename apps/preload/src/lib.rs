//! Shows the files of RDMA devices to a program where no mount is allowed, as in a container
//! with Docker's default profile.
//!
//! Programs preload this library. It replaces the C library's functions that open, examine or list
//! a file by its path. A path below `/sys/class/infiniband`, the other RDMA classes, or
//! `/dev/infiniband` is looked up in the folder named by `ROCE_FILES`. Every other path goes to the
//! C library unchanged, after a comparison that for most paths ends at the second byte.
//!
//! If the variable is not set, the `roce` command in `../../bin` makes the folder when a program first asks
//! for such a path: a container engine preloads this library, but cannot know the devices of a container that
//! does not run yet.
//!
//! - Nothing is allocated, no lock is taken, and no thread is started, except while the command makes the
//!   folder. All functions of the C library are found when this library is loaded, so that a call is as
//!   safe in a signal handler or in a forked child as the original is.
//! - `errno` changes only as the original function changes it.
//! - Not covered are static programs, programs that make system calls directly (Go), and files
//!   that the C library opens internally (`glob`, `nftw`).

// They panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(
    test,
    expect(dead_code, reason = "what is exported is left out of tests")
)]

mod errno;
mod exports;
#[cfg(not(test))]
mod init;
mod maker;
mod place;
mod root;

/// The variable that names the folder.
const VARIABLE: &std::ffi::CStr = c"ROCE_FILES";

/// The limit for its path, which leaves room for the paths in it.
const MAX_BYTES: usize = 1024;
