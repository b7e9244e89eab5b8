//! A thread that drives the NIC while it waits for a completion event. Like the other waits, it is a
//! cancellation point, with nothing locked and no value to drop.

use crate::handlers;
use crate::prelude::*;
use libc::{nfds_t, pollfd, sigset_t, timespec};
use roce_trust::cancellation::Deferred;
use roce_verbs::completion::CqId;
use roce_verbs::device::{Driving, EventQueue};
use std::cell::RefCell;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

// The C libraries declare it as a cancellation point, so it may unwind.
unsafe extern "C-unwind" {
    fn ppoll(
        fds: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
}

/// A thread's turn, and the queue that it waits for. It has its own reference to the queue: another
/// thread may destroy the channel. The turn lasts until the call has taken its event.
struct Turn {
    driving: Driving,
    queue: Arc<EventQueue<CqId>>,
}

thread_local! {
    /// The turn of this thread. If the thread is cancelled, it ends with it.
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// How a wait has ended.
pub(crate) enum Ended {
    /// There is an event, unless another thread takes it first.
    Queued,
    /// The turn is over. The thread waits for the queue's descriptor.
    Over(Arc<EventQueue<CqId>>),
    /// It failed, and `errno` says why.
    Failed,
}

/// A thread's next step.
enum Step {
    Queued,
    Over,
    Poll(*mut pollfd, nfds_t, timespec),
}

/// Begins the calling thread's wait for an event, which goes on with [`wait`]. Returns whether it could.
pub(crate) fn begin(driving: Driving, queue: Arc<EventQueue<CqId>>) -> bool {
    let begins = TURN.try_with(|turn| turn.replace(Some(Turn { driving, queue })));
    begins.is_ok()
}

/// Whether the calling thread has a turn.
pub(crate) fn goes_on() -> bool {
    let has_one = |turn: &RefCell<Option<Turn>>| turn.try_borrow().is_ok_and(|turn| turn.is_some());
    TURN.try_with(has_one).unwrap_or(false)
}

/// Ends the calling thread's turn, if it has one, and leaves `errno` as it was.
pub(crate) fn end() {
    if !goes_on() {
        return;
    }
    let errno = Errno::last();
    let _deferred = Deferred::new();
    drop(take());
    errno.set();
}

fn take() -> Option<Turn> {
    TURN.try_with(RefCell::take).ok().flatten()
}

/// Waits for the event, and drives the NIC meanwhile.
pub(crate) fn wait() -> Ended {
    loop {
        match step(next) {
            Some(Step::Queued) => return Ended::Queued,
            Some(Step::Over) => return hand_over(),
            Some(Step::Poll(fds, count, timeout)) => {
                // SAFETY: the descriptors and their number are those of this thread's turn, which stays
                // as it is meanwhile. The mask stays as it is. If the thread is cancelled, the call
                // unwinds the stack; none of the values on it has to be dropped.
                let ready = unsafe { ppoll(fds, count, &raw const timeout, null()) };
                if ready >= 0 {
                    step(|turn| turn.driving.drive());
                } else if Errno::last() != Errno::EINTR || !handlers::restart() {
                    return Ended::Failed;
                }
            }
            None if goes_on() => {
                Errno::EIO.set();
                return Ended::Failed;
            }
            // A signal handler of the program has waited for an event, and ended the turn.
            None => return Ended::Queued,
        }
    }
}

fn next(turn: &mut Turn) -> Step {
    if !turn.queue.is_empty() {
        return Step::Queued;
    }
    let own = (turn.queue.as_fd().as_raw_fd(), libc::POLLIN);
    match turn.driving.prepare([own]) {
        None => Step::Over,
        Some((polled, timeout)) => Step::Poll(
            polled.as_mut_ptr(),
            polled.len() as nfds_t,
            timespec {
                tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                tv_nsec: timeout.subsec_nanos().into(),
            },
        ),
    }
}

/// Leaves the NIC to the background thread.
fn hand_over() -> Ended {
    let _deferred = Deferred::new();
    match take() {
        Some(Turn { driving, queue }) => {
            driving.hand_over();
            Ended::Over(queue)
        }
        None => Ended::Queued,
    }
}

/// Calls `work` with this thread's turn. Meanwhile, the thread can't be cancelled. Returns `None` if it
/// has no turn, or after a panic.
fn step<T>(work: impl FnOnce(&mut Turn) -> T) -> Option<T> {
    let _deferred = Deferred::new();
    let with = |turn: &RefCell<Option<Turn>>| turn.borrow_mut().as_mut().map(work);
    // Unwind safety: a panic in the NIC stops the device, and the turn has no state of its own.
    let done = catch_unwind(AssertUnwindSafe(|| TURN.try_with(with)));
    done.ok().and_then(Result::ok).flatten()
}
