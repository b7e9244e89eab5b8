//! `<rdma/rsocket.h>`: sockets over RDMA. This module translates; `roce-rsockets` does the work.

pub(crate) mod endpoints;
pub(crate) mod options;
mod route;
pub(crate) mod select;
pub(crate) mod transfer;

use crate::log::with_reason;
use nix::errno::Errno;
use roce_rsockets::Error;

/// Converts an error to an errno value, and keeps its cause for `ROCE_LOG`.
trait OrErrno<T> {
    fn or_errno(self) -> Result<T, Errno>;
}

impl<T> OrErrno<T> for Result<T, Error> {
    fn or_errno(self) -> Result<T, Errno> {
        self.map_err(|error| match error.cause() {
            Some(cause) => with_reason(error.errno(), || cause),
            None => error.errno(),
        })
    }
}

/// A number of bytes as the C functions return it.
fn length(len: usize) -> isize {
    isize::try_from(len).unwrap_or(isize::MAX)
}
