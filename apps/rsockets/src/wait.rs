//! Waiting for socket events: polling, then sleeping.

use crate::error::Error;
use crate::options::configuration;
use nix::errno::Errno;
use roce_verbs::device::Driving;
use std::cell::Cell;
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// Until this time, or forever.
    Until(Option<Instant>),
}

impl Patience {
    /// For a call with a timeout; `None` waits forever.
    pub(crate) fn with_limit(limit: Option<Duration>) -> Self {
        Self::Until(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// The time left; `None` means forever.
    pub(crate) fn left(self) -> Option<Duration> {
        match self {
            Self::None => Some(Duration::ZERO),
            Self::Until(None) => None,
            Self::Until(Some(end)) => Some(end.saturating_duration_since(Instant::now())),
        }
    }

    pub(crate) fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Whether the call waits forever.
    pub(crate) fn is_endless(self) -> bool {
        self == Self::Until(None)
    }

    /// Shortens the wait to `at` if that is earlier.
    pub(crate) fn earlier_of(self, at: Option<Instant>) -> Self {
        match (self, at) {
            (Self::Until(None), Some(at)) => Self::Until(Some(at)),
            (Self::Until(Some(end)), Some(at)) => Self::Until(Some(end.min(at))),
            _ => self,
        }
    }
}

/// A yield that takes at least this long means that other threads compete for the processor.
const LONG_YIELD: Duration = Duration::from_micros(5);

/// After such a yield, the thread stops polling for this many times the duration of the yield. On a
/// busy processor a yield costs a time slice, several milliseconds, whereas a packet wakes up a
/// sleeping thread immediately. This bounds the share of time lost to yields to 1 / `REST`.
const REST: u32 = 32;

/// When a thread may poll again.
#[derive(Clone, Copy, Default)]
struct Rest {
    until: Option<Instant>,
}

impl Rest {
    fn lasts(self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Records a yield that took `took` and ended at `now`.
    fn note_yield(&mut self, now: Instant, took: Duration) {
        if took >= LONG_YIELD {
            self.until = Some(now + took * REST);
        }
    }
}

thread_local! {
    static REST_OF_THREAD: Cell<Rest> = Cell::default();
}

/// Polling before sleep, for at most `RS_POLLING_TIME` and only while no other thread needs the
/// processor.
#[derive(Default)]
pub(crate) struct Spinning {
    began: Option<Instant>,
}

impl Spinning {
    /// Whether the thread may poll again, after a [pause](Spinning::pause).
    pub(crate) fn may_spin(&mut self) -> bool {
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        !REST_OF_THREAD.get().lasts(now) && now.duration_since(began) < configuration().polling
    }

    /// Lets other threads run.
    pub(crate) fn pause(&self) {
        let began = Instant::now();
        std::thread::yield_now();
        let back = Instant::now();
        let mut rest = REST_OF_THREAD.get();
        rest.note_yield(back, back.duration_since(began));
        REST_OF_THREAD.set(rest);
    }
}

/// A waiting call's turn at driving the NIC. Each call has one turn, so that a long wait does not wake
/// up repeatedly.
#[derive(Default)]
pub(crate) struct Turn {
    driving: Option<Driving>,
    has_begun: bool,
}

impl Turn {
    /// Begins the turn unless it has begun already.
    pub(crate) fn begin(&mut self, driving: impl FnOnce() -> Option<Driving>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.driving = driving();
        }
    }

    /// Called after the thread has handled its sockets' events.
    pub(crate) fn note_progress(&self) {
        if let Some(driving) = &self.driving {
            driving.drop_events();
        }
    }

    /// Waits until a descriptor is ready or the NIC has made progress, and fills in `revents`.
    ///
    /// # Errors
    /// EINTR if a signal was handled.
    pub(crate) fn sleep(
        &mut self,
        descriptors: &mut [libc::pollfd],
        left: Option<Duration>,
    ) -> Result<(), Error> {
        if let Some(driving) = &mut self.driving {
            let own = descriptors.iter().map(|each| (each.fd, each.events));
            if let Some((polled, longest)) = driving.prepare(own) {
                let limit = left.map_or(longest, |left| left.min(longest));
                system_poll(polled, Some(limit))?;
                for (each, found) in descriptors.iter_mut().zip(polled) {
                    each.revents = found.revents;
                }
                driving.receive();
                return Ok(());
            }
            self.end();
        }
        system_poll(descriptors, left).map(drop)
    }

    fn end(&mut self) {
        if let Some(driving) = self.driving.take() {
            driving.hand_over();
        }
    }
}

/// A poll entry that waits until `fd` is readable.
pub(crate) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Calls the kernel's `poll` for at most `limit`; `None` waits forever.
pub(crate) fn system_poll(
    fds: &mut [libc::pollfd],
    limit: Option<Duration>,
) -> Result<usize, Error> {
    let limit = limit.map(|left| libc::timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the slice has this number of elements, the limit is NULL or valid, and NULL leaves the
    // signal mask as it is.
    let result = unsafe { libc::ppoll(fds.as_mut_ptr(), count, limit, ptr::null()) };
    usize::try_from(result).map_err(|_| Errno::last().into())
}

#[cfg(test)]
mod tests {
    use super::Rest;
    use crate::calls::{Domain, Time, close};
    use crate::calls::{accept, bind, connect, listen, local_name, set_time, socket};
    use crate::error::Error;
    use nix::errno::Errno;
    use std::mem::MaybeUninit;
    use std::net::Ipv4Addr;
    use std::os::fd::RawFd;
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{JoinHandle, spawn, yield_now};
    use std::time::{Duration, Instant};

    /// How many of its waits a thread begins by polling, if a message comes every 30 us and a yield
    /// takes this time.
    fn polls(waits: u32, a_yield_takes: Duration) -> u32 {
        let mut rest = Rest::default();
        let mut now = Instant::now();
        let mut polls = 0;
        for _ in 0..waits {
            now += Duration::from_micros(30);
            if !rest.lasts(now) {
                polls += 1;
                now += a_yield_takes;
                rest.note_yield(now, a_yield_takes);
            }
        }
        polls
    }

    #[test]
    fn a_thread_whose_processor_is_busy_seldom_polls() {
        let alone = Duration::from_nanos(500);
        assert_eq!(polls(10_000, alone), 10_000);
        // The others compute: 300 ms of waits, with a yield of a time slice every 100 ms.
        let slice = Duration::from_millis(3);
        assert_eq!(polls(10_000, slice), 4);
        // They poll, too, and yield as well.
        let short = Duration::from_micros(10);
        assert_eq!(polls(10_000, short), 910);
    }

    static SIGNALS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn count(_: libc::c_int) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }

    fn handle(flags: libc::c_int) {
        // SAFETY: zeros are a valid action, and the handler only counts.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = flags;
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        }
    }

    /// Interrupts the thread until something is so.
    fn interrupt<T>(thread: &JoinHandle<T>, until: impl Fn() -> bool) {
        while !until() {
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
            yield_now();
        }
    }

    fn accepting(listener: RawFd) -> JoinHandle<Result<RawFd, Error>> {
        spawn(move || accept(listener).map(|(fd, _)| fd))
    }

    /// As `accept` of the kernel.
    #[test]
    fn a_signal_interrupts_a_call_unless_the_program_restarts_it() {
        let listener = socket(Domain::V4).expect("a socket");
        bind(listener, (Ipv4Addr::LOCALHOST, 0).into()).expect("bound");
        listen(listener, 0).expect("listens");
        let interrupted = || {
            let thread = accepting(listener);
            interrupt(&thread, || thread.is_finished());
            let error = thread.join().expect("no panic").expect_err("nobody's");
            assert_eq!(error.errno(), Errno::EINTR);
        };
        handle(0);
        interrupted();
        handle(libc::SA_RESTART);
        set_time(listener, Time::Receive, Some(Duration::from_secs(60))).expect("set");
        interrupted();
        set_time(listener, Time::Receive, None).expect("set");
        let thread = accepting(listener);
        let before = SIGNALS.load(Ordering::Relaxed);
        interrupt(&thread, || {
            thread.is_finished() || SIGNALS.load(Ordering::Relaxed) > before + 1000
        });
        assert!(!thread.is_finished(), "it goes on");
        let client = socket(Domain::V4).expect("a socket");
        connect(client, local_name(listener).expect("a name")).expect("connected");
        let accepted = thread.join().expect("no panic").expect("accepted");
        for fd in [client, accepted, listener] {
            close(fd).expect("closed");
        }
    }
}
