//! Functions that wait for an event. The wait is a cancellation point, as with rdma-core: nothing is
//! locked meanwhile, and no value has to be dropped.
//!
//! A signal interrupts the wait with `EINTR`, unless its handler was installed with `SA_RESTART`: as
//! in rdma-core, the thread waits in a `read`, which the kernel then restarts. `poll` is never
//! restarted. While a thread drives the NIC, it has to poll: see [`drive`] and
//! [`handlers`](crate::handlers).

use crate::drive::{self, Ended};
use crate::prelude::*;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::{nfds_t, pollfd};
use roce_trust::cancellation::Deferred;
use std::cell::{RefCell, UnsafeCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Once;

// The C libraries declare these as cancellation points, so they may unwind.
unsafe extern "C-unwind" {
    fn read(fd: RawFd, to: *mut c_void, size: usize) -> isize;
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn sem_wait(semaphore: *mut nix::libc::sem_t) -> c_int;
}

/// The result of a call that may wait.
pub(crate) enum Found<T> {
    /// The event or completion is there.
    Now(T),
    /// It will be there when this descriptor is readable: that of an `EventQueue`, or the one that
    /// [`when_readable`] made.
    WhenReadable(RawFd),
    /// It will be there when the thread has driven the NIC long enough ([`drive::begin`]).
    WhenDriven,
}

/// A descriptor that is never readable, for a thread that waits at what is destroyed meanwhile. In
/// rdma-core, such a thread stays in the kernel. Programs rely on it: rping destroys its channel and
/// returns from `main`, while a thread to which every error is fatal waits at the channel.
pub(crate) const NEVER: RawFd = -1;

/// Makes a descriptor blocking, which is the default according to the man pages. The program may
/// change that later, so [`blocks`] reads the descriptor's flags each time.
pub(crate) fn make_blocking(fd: &impl AsFd) -> Result<(), Errno> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK)).map(drop)
}

/// Whether a descriptor is in blocking mode.
pub(crate) fn blocks(fd: &impl AsFd) -> Result<bool, Errno> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    Ok(!flags.contains(OFlag::O_NONBLOCK))
}

thread_local! {
    /// The duplicate that this thread waits at. If the thread is cancelled, it is closed with it.
    static DUPLICATE: RefCell<Option<OwnedFd>> = const { RefCell::new(None) };
}

/// For a call that [`until_found`] makes: it waits until the descriptor of an `EventQueue` is readable.
///
/// The thread waits at a duplicate of its own. When it begins to wait, another thread may have
/// destroyed the queue, and its number may be another file's.
pub(crate) fn when_readable<T>(descriptor: &impl AsFd) -> Found<T> {
    Found::WhenReadable(duplicate(descriptor))
}

/// Makes this thread's duplicate. If it can't, returns the descriptor itself, of which [`sleep`] takes
/// nothing.
fn duplicate(descriptor: &impl AsFd) -> RawFd {
    let descriptor = descriptor.as_fd();
    let _deferred = Deferred::new();
    let duplicate = descriptor.try_clone_to_owned().ok();
    let fd = duplicate.as_ref().map(AsRawFd::as_raw_fd);
    match (DUPLICATE.try_with(|kept| kept.replace(duplicate)), fd) {
        (Ok(_before), Some(fd)) => fd,
        _ => descriptor.as_raw_fd(),
    }
}

fn is_duplicate(fd: RawFd) -> bool {
    let is_it = |kept: &RefCell<Option<OwnedFd>>| {
        kept.borrow().as_ref().map(AsRawFd::as_raw_fd) == Some(fd)
    };
    DUPLICATE.try_with(is_it).unwrap_or(false)
}

/// Closes this thread's duplicate, and leaves `errno` as it was.
fn close_duplicate() {
    let errno = Errno::last();
    let _deferred = Deferred::new();
    let _ = DUPLICATE.try_with(|kept| kept.replace(None));
    errno.set();
}

/// For functions that wait, and return 0, or -1 with `errno` set. Calls `attempt` until it finds
/// something. `call` is the C name of the function. Between two attempts, the calling thread waits, and can be cancelled.
///
/// `attempt` must not have to be dropped.
pub(crate) fn until_found(
    call: &'static str,
    mut attempt: impl FnMut() -> Result<Found<()>, Errno> + Copy,
) -> c_int {
    // A signal handler of the program may have left an earlier call by `longjmp`.
    drive::end();
    loop {
        let mut waits_for = None;
        let result = guard::minus_one(call, || {
            match attempt()? {
                Found::Now(()) => {}
                waits => waits_for = Some(waits),
            }
            Ok(())
        });
        let slept = match waits_for {
            Some(Found::WhenDriven) => drive_then_sleep(),
            Some(Found::WhenReadable(fd)) => {
                drive::end();
                sleep(fd)
            }
            _ => {
                // After the thread has taken its event, so that the channel's descriptor need not show
                // it.
                drive::end();
                return result;
            }
        };
        close_duplicate();
        if slept < 0 && Errno::last() != Errno::EBADF {
            drive::end();
            return -1;
        }
        // If the descriptor is closed, the next attempt says what became of its object.
    }
}

/// Drives the NIC until there is an event, or leaves it to the background thread after some time and
/// sleeps until there is one. Returns as [`sleep`].
fn drive_then_sleep() -> isize {
    match drive::wait() {
        Ended::Queued => 0,
        Ended::Failed => -1,
        Ended::Over(queue) => {
            let fd = duplicate(&queue);
            drop(queue);
            sleep(fd)
        }
    }
}

/// Sleeps until a descriptor is readable. Returns -1 and sets `errno` if it fails, for instance
/// because of a signal.
fn sleep(fd: RawFd) -> isize {
    if fd == NEVER {
        let never = FOREVER.get();
        // SAFETY: the semaphore is initialised. If the thread is cancelled, the call unwinds the stack;
        // none of the values on it has to be dropped.
        return unsafe { sem_wait(never) } as isize;
    }
    if !is_duplicate(fd) {
        // No descriptor is left for a duplicate, and a `read` might take a stranger's bytes. After a
        // signal, the call fails even if it should be restarted.
        let mut polled = pollfd {
            fd,
            events: nix::libc::POLLIN,
            revents: 0,
        };
        // SAFETY: there is one structure. As above if the thread is cancelled.
        return unsafe { poll(&raw mut polled, 1, -1) } as isize;
    }
    let mut ticks = 0_u64;
    // SAFETY: there is room for 8 bytes. As above if the thread is cancelled.
    unsafe { read(fd, (&raw mut ticks).cast(), size_of::<u64>()) }
}

/// For a call that is no cancellation point: sleeps until the descriptor of an `EventQueue` is
/// readable.
///
/// # Errors
/// `EINTR` after a signal whose handler has no `SA_RESTART`.
pub(crate) fn until_readable(descriptor: &impl AsFd) -> Result<(), Errno> {
    match nix::unistd::read(descriptor.as_fd(), &mut [0; size_of::<u64>()]) {
        // The program has just made it non-blocking.
        Ok(_) | Err(Errno::EAGAIN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// A semaphore that nobody posts. A thread sleeps at it until it is cancelled or interrupted.
struct Semaphore {
    semaphore: UnsafeCell<MaybeUninit<nix::libc::sem_t>>,
    initialised: Once,
}

// SAFETY: the C library's semaphores are for all threads, and only the C library uses it.
unsafe impl Sync for Semaphore {}

static FOREVER: Semaphore = Semaphore {
    semaphore: UnsafeCell::new(MaybeUninit::uninit()),
    initialised: Once::new(),
};

impl Semaphore {
    fn get(&'static self) -> *mut nix::libc::sem_t {
        let semaphore = self.semaphore.get().cast();
        // SAFETY: it is valid memory, never moves, and is initialised once. A value of 0 is valid, so this
        // does not fail.
        self.initialised.call_once(|| unsafe {
            nix::libc::sem_init(semaphore, 0, 0);
        });
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::device::EventQueue;
    use std::io::{Read as _, Write as _};

    /// Another thread has destroyed the object, and the program has a new file at the number.
    #[test]
    fn a_thread_that_waits_takes_no_byte_of_a_strangers_file() {
        let queue = EventQueue::new(1).expect("a descriptor");
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"12345678").expect("written");
        let waits = &std::cell::Cell::new(true);
        let (queue, stranger) = (&queue, &reader);
        let result = until_found("ibv_get_cq_event", || {
            if !waits.replace(false) {
                return Ok(Found::Now(()));
            }
            queue.push(());
            let found = when_readable(queue);
            // SAFETY: only numbers are passed.
            unsafe { nix::libc::dup2(stranger.as_raw_fd(), queue.as_fd().as_raw_fd()) };
            Ok(found)
        });
        assert_eq!(result, 0);
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "12345678");
        assert!(DUPLICATE.with(|kept| kept.borrow().is_none()));
    }

    /// Without a duplicate, the thread waits as well, and takes nothing.
    #[test]
    fn a_thread_without_a_duplicate_waits_and_takes_nothing() {
        let queue = EventQueue::new(1).expect("a descriptor");
        queue.push(());
        let fd = queue.as_fd().as_raw_fd();
        assert_eq!([sleep(fd), sleep(fd)], [1, 1]);
    }
}
