//! The open contexts of this process, for `ibv_import_device`, which makes a second context for a
//! device.
//!
//! A software NIC is part of its process, so a context of another process can't be imported.

use crate::prelude::*;
use crate::state::State;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use roce_trust::fork;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Weak;

/// The device and inode number of a file, which all duplicates of its descriptor share.
type Identity = (u64, u64);

fn identity(fd: impl AsFd) -> Result<Identity, Errno> {
    let status = fstat(fd)?;
    Ok((status.st_dev, status.st_ino))
}

/// The open contexts that can be imported, and the processes that opened them.
static OPEN: Mutex<Vec<(Identity, Process, Weak<State>)>> = Mutex::new(Vec::new());

/// A value of [`fork::generation`].
type Process = u32;

/// Creates the descriptor that represents a context (`cmd_fd`): an empty memfd, whose inode is
/// unique.
pub(crate) fn new_descriptor() -> Result<OwnedFd, Errno> {
    memfd_create("roce context", MFdFlags::MFD_CLOEXEC)
}

/// Makes the context importable by its descriptor.
pub(crate) fn register(fd: &OwnedFd, state: &Arc<State>) -> Result<(), Errno> {
    let mut open = OPEN.lock();
    open.retain(|(.., state)| state.strong_count() > 0);
    open.push((identity(fd)?, fork::generation(), Arc::downgrade(state)));
    Ok(())
}

/// Removes a closed context, which can't be imported any more.
pub(crate) fn unregister(state: &Arc<State>) {
    let closed = Arc::downgrade(state);
    OPEN.lock().retain(|(.., state)| !state.ptr_eq(&closed));
}

/// The context of a descriptor, which the caller now owns.
///
/// # Errors
/// `EBADF` if it is none, `EOPNOTSUPP` if it is that of no context of this process.
pub(crate) fn take(cmd_fd: c_int) -> Result<(Arc<State>, OwnedFd), Errno> {
    if cmd_fd < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: the program keeps the descriptor open during the call. If it is not open, `fstat`
    // fails.
    let identity = identity(unsafe { BorrowedFd::borrow_raw(cmd_fd) })?;
    let wanted = (identity, fork::generation());
    let open = OPEN.lock();
    let known = open
        .iter()
        .find(|(identity, process, _)| (*identity, *process) == wanted);
    let state = known.and_then(|(.., state)| state.upgrade());
    // Another kind of descriptor, or one of another process.
    let state = state.ok_or(Errno::EOPNOTSUPP)?;
    // SAFETY: `fstat` has just succeeded, so it is open. The call transfers its ownership.
    Ok((state, unsafe { OwnedFd::from_raw_fd(cmd_fd) }))
}
