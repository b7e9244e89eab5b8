//! The thread that carries frames runs when it should, although hosts' programs keep the processors
//! busy.

use nix::errno::Errno;
use nix::sys::prctl;
use std::io;

/// Lets this thread run as soon as there is something to do: before all threads that have no
/// real-time priority, and without the time by which the kernel delays timers to save wake-ups.
/// Threads and processes that it starts later are ordinary ones.
///
/// # Errors
/// If the user has no privilege for real-time priority (`CAP_SYS_NICE`, or a limit `rtprio`). The
/// timers are exact even then.
pub(crate) fn become_urgent() -> io::Result<()> {
    prctl::set_timerslack(1)?;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `sched_param` is a structure of integers, for which zeros are values.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: the kernel reads a structure of this layout; 0 is the calling thread.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::become_urgent;
    use std::thread;

    fn policy() -> i32 {
        // SAFETY: the call has no conditions; 0 is the calling thread.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn threads_of_an_urgent_thread_are_ordinary() {
        let urgent = thread::spawn(|| {
            let done = become_urgent();
            let slack = nix::sys::prctl::get_timerslack();
            let child = thread::spawn(policy).join();
            (done.is_ok(), policy(), slack, child.expect("no panic"))
        });
        let (done, own, slack, child) = urgent.join().expect("no panic");
        assert_eq!(own == libc::SCHED_FIFO, done);
        // Threads with real-time priority have none.
        assert_eq!(slack, Ok(i32::from(!done)));
        assert_eq!(child, libc::SCHED_OTHER);
    }
}
