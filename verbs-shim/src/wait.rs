//! Functions that wait for an event. The wait is a cancellation point, as with rdma-core: nothing is
//! locked meanwhile, and no value has to be dropped.
//!
//! A signal interrupts the wait with `EINTR`, unless its handler was installed with `SA_RESTART`: as
//! in rdma-core, the thread waits in a `read`, which the kernel then restarts. `poll` is never
//! restarted.

use crate::guard;
use nix::errno::Errno;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, RawFd};
use std::sync::Once;

// The C libraries declare these as cancellation points, so they may unwind.
unsafe extern "C-unwind" {
    fn read(fd: RawFd, to: *mut c_void, size: usize) -> isize;
    fn sem_wait(semaphore: *mut nix::libc::sem_t) -> c_int;
}

/// What a call that may wait has found.
pub(crate) enum Found<T> {
    /// What it waits for is there.
    Now(T),
    /// It will be there when this descriptor, that of an `EventQueue`, is readable.
    WhenReadable(RawFd),
}

/// A descriptor that is never readable, for a thread that waits at what is destroyed meanwhile. In
/// rdma-core, such a thread stays in the kernel. Programs rely on it: rping destroys its channel and
/// returns from `main`, while a thread to which every error is fatal waits at the channel.
pub(crate) const NEVER: RawFd = -1;

/// For functions that wait, and return 0, or -1 with `errno` set. Calls `attempt` until it finds
/// something. Between two attempts, the calling thread waits, and can be cancelled.
///
/// `attempt` must not have to be dropped.
pub(crate) fn until_found(mut attempt: impl FnMut() -> Result<Found<()>, Errno> + Copy) -> c_int {
    loop {
        let mut waits_for = None;
        let result = guard::minus_one(|| {
            if let Found::WhenReadable(fd) = attempt()? {
                waits_for = Some(fd);
            }
            Ok(())
        });
        let Some(fd) = waits_for else {
            return result;
        };
        if sleep(fd) < 0 && Errno::last() != Errno::EBADF {
            return -1;
        }
        // If the descriptor is closed, the next attempt says what became of its object.
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
