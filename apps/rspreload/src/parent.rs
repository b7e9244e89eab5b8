//! Requests of a forked child to its parent.

use crate::errno::{Errno, Outcome};
use crate::hidden;
use crate::link::{self, Message, What};
use crate::socket::lock;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard};

/// The connection to the parent, if it had sockets at the fork and is still there.
static PARENT: Mutex<Option<c_int>> = Mutex::new(None);

/// The lock that a fork holds.
pub(crate) fn held() -> MutexGuard<'static, Option<c_int>> {
    lock(&PARENT)
}

/// Sends a request and waits for the answer. The parent answers at once, or has ended: `EPIPE`.
/// A connection comes as a descriptor.
pub(crate) fn ask(what: What, id: u64) -> Outcome<Option<c_int>> {
    let mut parent = held();
    let link = parent.ok_or(Errno(libc::EPIPE))?;
    let answer = link::send(link, Message { what, id }, None).and_then(|()| link::receive(link));
    match answer {
        Ok((answer, fd)) if answer.what == What::Granted => Ok(fd),
        Ok(_) => Err(Errno(libc::EADDRINUSE)),
        Err(_) => {
            *parent = None;
            hidden::close(link);
            Err(Errno(libc::EPIPE))
        }
    }
}

/// Sends what needs no answer.
pub(crate) fn tell(what: What, id: u64) {
    if let Some(link) = *held() {
        // A parent that has ended need not know.
        let _ = link::send(link, Message { what, id }, None);
    }
}
