//! What an open device consists of, as all who use it see it.

use super::{DeviceClock, Engine, Starter};
use crate::datapath::Datapath;
use crate::error::{OpenError, StartError};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::{Mutex, MutexGuard};
use roce_stack::{CqId, Instant, QpnPart};
use std::hint::cold_path;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a context, the objects made from it and its threads share.
pub(crate) struct DeviceState {
    pub(crate) engine: Mutex<Engine>,
    /// Wakes the background thread.
    pub(crate) wake: EventFd,
    pub(crate) driver_sleeps: AtomicBool,
    pub(crate) stop: AtomicBool,
    next_cq: AtomicU64,
    pub(crate) clock: DeviceClock,
    /// When an application thread last drove the NIC: nanoseconds as the stack counts
    /// them, plus one; 0 for never, or when it said that it will wait now.
    last_call: AtomicU64,
    calls: AtomicU64,
    /// What has been started. Its part of the QP numbers is free for others once the engine's
    /// port is closed, so it comes after the engine.
    pub(crate) starter: Starter,
}

impl DeviceState {
    /// Drives nothing yet: see [`driver`](super::driver).
    ///
    /// # Errors
    /// If the operating system has no descriptor left, or no monotonic clock.
    pub(crate) fn new(engine: Engine, starter: Starter) -> Result<Self, OpenError> {
        let system = |what| move |source| OpenError::System { what, source };
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = EventFd::from_value_and_flags(0, flags)
            .map_err(std::io::Error::from)
            .map_err(system("making an eventfd"))?;
        Ok(Self {
            engine: Mutex::new(engine),
            wake,
            driver_sleeps: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            next_cq: AtomicU64::new(1),
            clock: DeviceClock::start().map_err(system("reading the clock"))?,
            last_call: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            starter,
        })
    }

    /// An ID that no other CQ of the context has had.
    pub(crate) fn next_cq(&self) -> CqId {
        CqId(self.next_cq.fetch_add(1, Ordering::Relaxed))
    }

    /// An application thread is about to drive the NIC. What time it is: the clock
    /// is read once a call.
    pub(crate) fn note_call(&self) -> Instant {
        let now = self.now();
        self.last_call.store(now.as_nanos() + 1, Ordering::Relaxed);
        // Not one atomic step: that would cost each call more than the count is worth.
        self.calls.store(self.calls() + 1, Ordering::Relaxed);
        self.wake_sleeping_driver();
        now
    }

    /// For an application thread that posts: the time, and the engine.
    pub(crate) fn lock_to_post(&self) -> (Instant, MutexGuard<'_, Engine>) {
        let now = self.note_call();
        let mut engine = self.engine.lock();
        self.wake_sleeping_driver();
        (engine.at(now), engine)
    }

    /// To be called with the engine locked, too: since the call was noted, this thread may have
    /// lost its processor for so long that the background thread fell asleep. That says so
    /// before it takes the lock to look for work. So either it sees what is posted now, or it
    /// is seen here that it sleeps, perhaps until a packet comes that nothing sends.
    fn wake_sleeping_driver(&self) {
        if self.driver_sleeps.load(Ordering::Relaxed) {
            cold_path();
            if self.driver_sleeps.swap(false, Ordering::SeqCst) {
                self.wake_driver();
            }
        }
    }

    /// An application thread stops driving and waits: the background thread's turn.
    pub(crate) fn hand_over(&self) {
        self.last_call.store(0, Ordering::Relaxed);
        self.wake_driver();
    }

    /// How often application threads have called so far, about: of calls at the same
    /// time, some may not count.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn application_called_within(&self, span: Duration) -> bool {
        let last = self.last_call.load(Ordering::Relaxed);
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        last != 0 && self.now().as_nanos().saturating_sub(last) < span
    }

    /// The time as the stack counts it.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Which QP numbers are this context's, once something has needed some.
    pub(crate) fn part(&self) -> Option<QpnPart> {
        self.starter.part()
    }

    pub(crate) fn wake_driver(&self) {
        // Full means that it is about to wake already.
        let _ = self.wake.write(1);
    }

    pub(crate) fn clear_wake(&self) {
        let _ = self.wake.read();
    }

    /// Drives the NIC, unless another thread is at it. Returns whether anything
    /// happened.
    pub(crate) fn drive(&self) -> bool {
        let now = self.note_call();
        self.engine.try_lock().is_some_and(|mut engine| {
            self.wake_sleeping_driver();
            engine.progress(now)
        })
    }

    /// The engine, for a change that has to be made now.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock()
    }

    /// The engine, whose NIC has a part of the QP numbers to draw from.
    ///
    /// # Errors
    /// If none is free.
    pub(crate) fn lock_with_part(&self) -> Result<MutexGuard<'_, Engine>, StartError> {
        let mut engine = self.lock();
        self.starter.claim_part(&mut engine)?;
        Ok(engine)
    }

    /// The engine, with its datapath started.
    ///
    /// # Errors
    /// If the datapath can't be had.
    pub(crate) fn lock_started(&self) -> Result<MutexGuard<'_, Engine>, StartError> {
        let mut engine = self.lock();
        self.start(&mut engine)?;
        Ok(engine)
    }

    /// Starts the datapath of the engine, which is this context's, unless it has started.
    ///
    /// # Errors
    /// If the datapath can't be had. The next call tries again.
    pub(crate) fn start(&self, engine: &mut Engine) -> Result<&Datapath, StartError> {
        if let Some(started) = self.starter.datapath() {
            return Ok(started);
        }
        let started = self.starter.start(engine)?;
        // The background thread sleeps on the descriptors of the port that is gone now.
        self.wake_driver();
        Ok(started)
    }

    /// Has an address made usable when the datapath starts. Returns whether it is still to
    /// start.
    pub(crate) fn use_when_started(&self, address: IpAddr) -> bool {
        let _engine = self.lock();
        self.starter.use_when_started(address)
    }
}
