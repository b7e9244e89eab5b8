//! The time slices of the calling thread.

use std::io;
use std::mem::size_of;

/// The requested time slice, in nanoseconds.
const SLICE_NS: u64 = 100_000;

/// Asks the kernel for short time slices for the calling thread, which wakes up often and does
/// little. The slice is 0.1 ms, the shortest that Linux grants. The thread gets no larger share of
/// the processor, but when it wakes up, it may preempt a thread in the middle of a longer slice.
/// This needs no privilege. A thread in another scheduling class (SCHED_FIFO, say) is left
/// unchanged, and every thread keeps its nice value.
///
/// # Errors
/// If the kernel refuses. Linux before 6.12 ignores the request.
pub fn prefer_short_turns() -> io::Result<()> {
    // SAFETY: a structure of integers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
    // SAFETY: the kernel writes at most `size` bytes, the size of `attributes`. Thread 0 is the
    // calling thread.
    check(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) })?;
    if attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return Ok(());
    }
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the kernel reads `attributes.size` bytes, a number that it wrote itself.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
