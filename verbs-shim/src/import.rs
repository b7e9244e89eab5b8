//! `ibv_import_device`: a second context for a device that the same process has open.
//!
//! A software NIC is part of its process, so a context of another process can't be imported.

use crate::context::{Context, State};
use crate::fork;
use crate::prelude::*;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
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

/// `ibv_import_device`: takes ownership of a duplicate of the descriptor of an open context of this
/// process, and closes it with the context.
pub(crate) extern "C" fn import_device(cmd_fd: c_int) -> *mut IbvContext {
    guard::pointer("ibv_import_device", || {
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
        let fd = unsafe { OwnedFd::from_raw_fd(cmd_fd) };
        Ok(Context::expose(state, fd))
    })
}
