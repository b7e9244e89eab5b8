//! Memory that may vanish, or lose its rights, while it is registered: a program may unmap or protect
//! its pages, and any process that may write a file behind them can truncate it.
//!
//! An RNIC has pinned the pages and does not notice. Here, an access raises SIGSEGV or SIGBUS, and a
//! peer must not end the process that way. So such memory is accessed by closures that
//! `call_guarded` calls. It saves the state of the processor that a function has to keep, and a
//! signal handler goes back to that state if the access fails. Every other signal is passed on to
//! the handler that the program had before.
//!
//! The handlers are installed when such memory is first registered. If the program installs its own
//! handlers after that, or its threads block these signals, such an access still ends the process.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code))]

#[cfg(target_arch = "x86_64")]
mod access;
#[cfg(target_arch = "x86_64")]
mod accessor;
#[cfg(target_arch = "x86_64")]
mod handlers;
#[cfg(target_arch = "x86_64")]
mod lines;
#[cfg(all(test, target_arch = "x86_64"))]
mod mapped;

use roce_stack::FaultSafe;
use std::io;
use std::sync::Arc;

/// The accessor for mapped memory that may vanish or lose its rights, [`Memory::on_demand`]. An
/// access to pages that are gone or protected is an error, and raises no signal in the caller.
///
/// The first call in a process installs handlers of SIGSEGV and SIGBUS, which pass on the signals
/// that have other reasons.
///
/// [`Memory::on_demand`]: crate::memory::Memory::on_demand
///
/// # Errors
/// If a handler can't be installed.
#[cfg(target_arch = "x86_64")]
pub fn guarded_accessor() -> io::Result<Arc<dyn FaultSafe>> {
    Ok(Arc::new(accessor::GuardedMemory::new()?))
}

/// The accessor for mapped memory that may vanish or lose its rights: the kernel copies, which costs
/// a system call for each packet.
///
/// # Errors
/// As for [`ProcessMemory`](crate::memory::ProcessMemory).
#[cfg(not(target_arch = "x86_64"))]
pub fn guarded_accessor() -> io::Result<Arc<dyn FaultSafe>> {
    crate::memory::ProcessMemory::of_this_process()
}

#[cfg(target_arch = "x86_64")]
pub(super) use lines::write_back;

/// Nothing here is memory that this could write back.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn write_back(_addr: u64, _len: u64) -> Result<(), roce_stack::MemoryFault> {
    Err(roce_stack::MemoryFault)
}
