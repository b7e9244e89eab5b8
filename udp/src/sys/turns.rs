//! The time slices that the kernel gives the calling thread.

use std::io;
use std::mem::size_of;

/// The time slice that the calling thread asks for.
const TURN_NANOSECONDS: u64 = 100_000;

/// Asks the kernel for short time slices for the calling thread, which wakes up often and does
/// little. The slice is 0.1 ms, the shortest that Linux grants. The thread gets no larger share of
/// the processor, but when it wakes up, it may preempt a thread in the middle of a longer slice.
/// This needs no privilege. A thread in another scheduling class (SCHED_FIFO, say) is left
/// unchanged, and every thread keeps its nice value.
///
/// # Errors
/// If the kernel refuses. Linux before 6.12 ignores the request.
pub fn prefer_short_turns() -> io::Result<()> {
    // SAFETY: a structure of integers, of which all may be zero.
    let mut wish: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
    // SAFETY: the kernel writes at most `size` bytes. 0 is the calling thread.
    done(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut wish, size, 0) })?;
    if wish.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return Ok(());
    }
    wish.sched_runtime = TURN_NANOSECONDS;
    // SAFETY: the kernel reads as many bytes as the field `size` of `wish` says, which it wrote
    // itself.
    done(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wish, 0) })
}

fn done(answer: libc::c_long) -> io::Result<()> {
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
