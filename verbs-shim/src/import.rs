//! Contexts that several parts of a program open by one descriptor.
//!
//! A NIC in software is part of its process, so what is imported is a context of the same
//! process. To share memory, domains and QPs among processes, there would have to be a NIC
//! that all of them reach.

use crate::abi::IbvContext;
use crate::context::{Context, State};
use crate::{fork, guard};
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use parking_lot::Mutex;
use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Weak};

/// What every duplicate of a descriptor has in common: device and number of its inode.
type Identity = (u64, u64);

fn identity(fd: impl AsFd) -> Result<Identity, Errno> {
    let told = fstat(fd)?;
    Ok((told.st_dev, told.st_ino))
}

/// The open contexts that can be imported, and the processes that opened them.
static OPEN: Mutex<Vec<(Identity, Process, Weak<State>)>> = Mutex::new(Vec::new());

/// A number of [`fork::generation`].
type Process = u32;

/// The descriptor that stands for a context (`cmd_fd`): an empty file without a name, which
/// no other one is taken for.
pub(crate) fn descriptor() -> Result<OwnedFd, Errno> {
    memfd_create("roce context", MFdFlags::MFD_CLOEXEC)
}

/// From now on, the context can be imported by its descriptor.
pub(crate) fn announce(fd: &OwnedFd, state: &Arc<State>) -> Result<(), Errno> {
    let mut open = OPEN.lock();
    open.retain(|(.., state)| state.strong_count() > 0);
    open.push((identity(fd)?, fork::generation(), Arc::downgrade(state)));
    Ok(())
}

/// The context was closed: it is imported no more.
pub(crate) fn withdraw(state: &Arc<State>) {
    let closed = Arc::downgrade(state);
    OPEN.lock().retain(|(.., state)| !state.ptr_eq(&closed));
}

/// `ibv_import_device`: takes over a duplicate of the descriptor of an open context of this
/// process, and closes it with the context.
pub(crate) extern "C" fn import_device(cmd_fd: c_int) -> *mut IbvContext {
    guard::pointer(|| {
        if cmd_fd < 0 {
            return Err(Errno::EBADF);
        }
        // SAFETY: if it is not open, the system says so.
        let identity = identity(unsafe { BorrowedFd::borrow_raw(cmd_fd) })?;
        let wanted = (identity, fork::generation());
        let open = OPEN.lock();
        let known = open
            .iter()
            .find(|(identity, process, _)| (*identity, *process) == wanted);
        let state = known.and_then(|(.., state)| state.upgrade());
        // Not one of ours, or one of another process.
        let state = state.ok_or(Errno::EOPNOTSUPP)?;
        // SAFETY: open, as was just seen; the program gives it away with this call.
        let fd = unsafe { OwnedFd::from_raw_fd(cmd_fd) };
        Ok(Context::give(state, fd))
    })
}
