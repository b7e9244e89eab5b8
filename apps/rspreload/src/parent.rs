//! Requests from a forked child to its parent.

use crate::errno::{Errno, Outcome};
use crate::hidden;
use crate::link::{self, Message, Op};
use crate::socket::lock;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard};

/// The link to the parent, if it had sockets to hand over and still runs.
static PARENT: Mutex<Option<c_int>> = Mutex::new(None);

/// Takes the lock that a fork holds.
pub(crate) fn lock_link() -> MutexGuard<'static, Option<c_int>> {
    lock(&PARENT)
}

/// Sends a request and waits for the answer, with a descriptor if a connection is granted. The parent
/// answers without delay; if it has exited, the call fails with `EPIPE`.
pub(crate) fn ask(op: Op, id: u64) -> Outcome<Option<c_int>> {
    let mut parent = lock_link();
    let link = parent.ok_or(Errno(libc::EPIPE))?;
    let answer = link::send(link, Message { op, id }, None).and_then(|()| link::receive(link));
    match answer {
        Ok((answer, fd)) if answer.op == Op::Granted => Ok(fd),
        Ok(_) => Err(Errno(libc::EADDRINUSE)),
        Err(_) => {
            *parent = None;
            hidden::close(link);
            Err(Errno(libc::EPIPE))
        }
    }
}

/// Sends a request that needs no answer.
pub(crate) fn tell(op: Op, id: u64) {
    if let Some(link) = *lock_link() {
        // An error means that the parent has exited.
        let _ = link::send(link, Message { op, id }, None);
    }
}
