//! How the calling thread shares its processor.

use std::io;
use std::mem::size_of;

/// How long a turn the calling thread asks for.
const TURN_NANOSECONDS: u64 = 100_000;

/// Asks the kernel for short turns for the calling thread, which is woken often and does
/// little: 0.1 ms, the shortest that there are. It gets no more of the processor by that,
/// but when it is woken, it may go before a thread that is in the middle of a longer turn.
/// Needs no privilege. A thread in a class of its own (SCHED_FIFO, say) keeps that, and any
/// keeps its nice value.
///
/// # Errors
/// If the kernel refuses. Before Linux 6.12, it ignores the wish.
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
    // SAFETY: the kernel reads as many bytes as `size` in there says, which it wrote itself.
    done(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wish, 0) })
}

fn done(answer: libc::c_long) -> io::Result<()> {
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
