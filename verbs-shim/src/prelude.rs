//! The names that most modules of C functions need: the structures and constants of the headers, the
//! types of C's pointers, and what checks arguments and returns errors.

pub(crate) use crate::abi::*;
pub(crate) use crate::convert::{check_bits, int};
pub(crate) use crate::errors::OrErrno;
pub(crate) use crate::guard;
pub(crate) use crate::log::with_reason;
pub(crate) use crate::pointer::{CPart, Handle, In, Out, Part, Text, Zero, first_part};
pub(crate) use crate::usage::{Use, Users};
pub(crate) use nix::errno::Errno;
pub(crate) use parking_lot::Mutex;
pub(crate) use std::ffi::{c_int, c_void};
pub(crate) use std::sync::Arc;
