//! The state of an open device, which its users and threads share.

use super::engine_lock::{EngineGuard, EngineLock};
use super::persister::PersistListener;
use super::spin::{self, Pause};
use super::wait::{PacketFds, poll_packets};
use super::{Batch, Changes, DeviceClock, Engine, Starter};
use crate::datapath::Datapath;
use crate::error::{OpenError, StartError};
use nix::sys::eventfd::{EfdFlags, EventFd};
use roce_stack::{CqId, Instant, Persisted, QpnRange};
use roce_wire::Qpn;
use std::hint::cold_path;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The state that an open device, its objects and its threads share.
pub(crate) struct DeviceState {
    pub(crate) engine: EngineLock,
    pub(crate) wake: EventFd,
    pub(crate) driver_sleeps: AtomicBool,
    pub(crate) stop: AtomicBool,
    /// Whether a listener or a QP wants every address that the interface has or gets.
    wants_all_addresses: AtomicBool,
    next_cq: AtomicU64,
    pub(crate) clock: DeviceClock,
    /// When an application thread last drove the NIC: the stack's time in nanoseconds plus one; 0
    /// if none has, or if the application has handed over.
    last_call: AtomicU64,
    calls: AtomicU64,
    /// The number of application threads that pause between two polls.
    pausing: AtomicUsize,
    /// How often a wait of an application thread that drives the NIC meanwhile has begun or ended. It
    /// is odd while one lasts.
    waits: AtomicU64,
    /// When such a wait ends at the latest: the stack's time in nanoseconds.
    wait_ends: AtomicU64,
    /// How often threads have woken up, for tests.
    pub(crate) wake_ups: WakeUpCounts,
    /// Posts may wait for those that follow. May be true although none waits any more.
    may_have_waiting: AtomicBool,
    /// The parts that have started. Dropped after the engine: other processes may get the QPN range
    /// only once the engine's port is closed.
    pub(crate) starter: Starter,
}

/// How often the threads of a device have woken up and driven the NIC.
#[derive(Debug, Default)]
pub(crate) struct WakeUpCounts {
    /// The background thread.
    pub(super) background: AtomicU64,
    /// Threads that drive the NIC while they wait.
    pub(super) waiting: AtomicU64,
}

impl WakeUpCounts {
    pub(super) fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl DeviceState {
    /// Creates the state of a device that is being opened. Nothing drives the NIC yet: see
    /// [`driver`](super::driver).
    ///
    /// # Errors
    /// If the operating system has no descriptor left, or no monotonic clock.
    pub(crate) fn new(engine: Engine, starter: Starter) -> Result<Self, OpenError> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = EventFd::from_value_and_flags(0, flags)
            .map_err(std::io::Error::from)
            .map_err(OpenError::system("making an eventfd"))?;
        let clock = DeviceClock::start().map_err(OpenError::system("reading the clock"))?;
        Ok(Self {
            engine: EngineLock::new(engine),
            wake,
            driver_sleeps: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wants_all_addresses: AtomicBool::new(false),
            next_cq: AtomicU64::new(1),
            clock,
            last_call: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            pausing: AtomicUsize::new(0),
            waits: AtomicU64::new(0),
            wait_ends: AtomicU64::new(0),
            wake_ups: WakeUpCounts::default(),
            may_have_waiting: AtomicBool::new(false),
            starter,
        })
    }

    /// An ID that no other CQ of the open device has.
    pub(crate) fn next_cq(&self) -> CqId {
        CqId(self.next_cq.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes that an application thread is about to drive the NIC. Returns the time, so that a call
    /// reads the clock only once.
    pub(crate) fn note_call(&self) -> Instant {
        let now = self.now();
        self.last_call.store(now.as_nanos() + 1, Ordering::Relaxed);
        // Not an atomic increment: a lost count does no harm, and an atomic increment would slow
        // down each call.
        self.calls.store(self.calls() + 1, Ordering::Relaxed);
        self.wake_sleeping_driver();
        now
    }

    /// For an application thread that posts: notes the call, and returns the time and the locked
    /// engine.
    pub(crate) fn lock_to_post(&self) -> (Instant, EngineGuard<'_>) {
        let now = self.note_call();
        let mut engine = self.engine.lock();
        self.wake_sleeping_driver();
        (engine.nic_time(now), engine)
    }

    /// Sends what the application has posted to the QP `qpn`, or leaves it waiting for posts that
    /// follow.
    pub(crate) fn send_posted(&self, engine: &mut Engine, now: Instant, qpn: Qpn, posted: Batch) {
        if engine.send_posted(now, qpn, posted) {
            self.may_have_waiting.store(true, Ordering::Relaxed);
        }
    }

    /// Sends the posts that wait for others. For calls after which the application may sleep.
    pub(crate) fn send_waiting(&self) {
        if self.may_have_waiting.load(Ordering::Relaxed) {
            cold_path();
            let mut engine = self.engine.lock();
            self.may_have_waiting.store(false, Ordering::Relaxed);
            let now = self.now();
            engine.pacing.note_drive(now);
            engine.send_waiting(now);
        }
    }

    /// Wakes the background thread if it sleeps.
    ///
    /// [`DeviceState::note_call`] does this once, without the lock. Its callers repeat it with the
    /// engine locked, because the background thread may have fallen asleep in between. Otherwise
    /// the background thread could sleep until a packet arrives that answers a request which no
    /// thread has sent.
    ///
    /// The background thread sets `driver_sleeps` before it takes the lock to look for work. So
    /// either it sees what is posted now, or this thread sees the flag and wakes it up.
    fn wake_sleeping_driver(&self) {
        if self.driver_sleeps.load(Ordering::Relaxed) {
            cold_path();
            if self.driver_sleeps.swap(false, Ordering::SeqCst) {
                self.wake_driver();
            }
        }
    }

    /// Notes that the application stops driving and waits. The background thread takes over, unless
    /// an application thread drives the NIC while it waits.
    pub(crate) fn hand_over(&self) {
        self.send_waiting();
        // If the background thread sleeps, no thread has called since it fell asleep.
        if self.application_waits() || self.driver_sleeps.load(Ordering::SeqCst) {
            return;
        }
        self.last_call.store(0, Ordering::Relaxed);
        self.wake_driver();
    }

    /// Begins a wait of at most `longest`, in which the calling thread drives the NIC: see
    /// [`Driving`](super::Driving). Returns the wait's number; `None` if another thread is in such a
    /// wait.
    pub(super) fn begin_wait(&self, longest: Duration) -> Option<u64> {
        let waits = self.waits();
        if self.application_waits() || self.is_stopping() {
            return None;
        }
        let now = self.note_call();
        let number = if waits.is_multiple_of(2) {
            waits + 1
        } else {
            waits + 2
        };
        self.replace_waits(waits, number).then(|| {
            let ends = (now + longest).as_nanos();
            self.wait_ends.store(ends, Ordering::Release);
            number
        })
    }

    /// Ends a wait, unless its time has passed and another one has begun.
    pub(super) fn end_wait(&self, number: u64) {
        let _ended = self.replace_waits(number, number + 1);
    }

    fn replace_waits(&self, known: u64, next: u64) -> bool {
        let replaced =
            self.waits
                .compare_exchange(known, next, Ordering::AcqRel, Ordering::Relaxed);
        replaced.is_ok()
    }

    /// How often such a wait has begun or ended.
    pub(super) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// Whether an application thread is in such a wait. One whose time has passed is over: a signal
    /// handler of the program may have the thread.
    pub(crate) fn application_waits(&self) -> bool {
        !self.waits().is_multiple_of(2)
            && self.now().as_nanos() < self.wait_ends.load(Ordering::Acquire)
    }

    /// Whether the device is being closed.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The approximate number of calls by application threads so far. Concurrent calls may be
    /// counted as one.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn application_called_within(&self, span: Duration) -> bool {
        let last = self.last_call.load(Ordering::Relaxed);
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        last != 0 && self.now().as_nanos().saturating_sub(last) < span
    }

    /// The time, as the stack counts it.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The open device's QPN range; `None` until something needs it.
    pub(crate) fn qpn_range(&self) -> Option<QpnRange> {
        self.starter.qpn_range()
    }

    pub(crate) fn wake_driver(&self) {
        // A full counter means that the thread is about to wake up already.
        let _ = self.wake.write(1);
    }

    pub(crate) fn clear_wake(&self) {
        let _ = self.wake.read();
    }

    /// Drives the NIC, unless another thread has the lock. Returns whether anything happened.
    pub(crate) fn drive(&self) -> bool {
        let now = self.note_call();
        let Some(mut engine) = self.engine.try_lock() else {
            return false;
        };
        self.wake_sleeping_driver();
        engine.pacing.note_drive(now);
        if engine.progress(now) {
            spin::note_successful_poll();
            return true;
        }
        let pause = spin::note_empty_poll(now);
        if pause != Pause::None {
            cold_path();
            self.pause(engine, pause);
        }
        false
    }

    /// Lets other threads run. Does nothing if packets are ready to be sent.
    fn pause(&self, engine: EngineGuard<'_>, pause: Pause) {
        if engine.has_work() {
            return;
        }
        self.pausing.fetch_add(1, Ordering::Relaxed);
        if pause == Pause::Wait {
            self.wait_for_packets(engine);
        } else {
            drop(engine);
            let began = self.now();
            std::thread::yield_now();
            let back = self.now();
            spin::note_yield(back, back.saturating_duration_since(began));
        }
        self.pausing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether an application thread is in a call that drives the NIC, or pauses in it.
    pub(crate) fn application_is_in_call(&self) -> bool {
        self.engine.is_locked() || self.pausing.load(Ordering::Relaxed) > 0
    }

    /// Gives the processor to other threads until a packet arrives or a timer expires, for at most
    /// [`spin::MAX_WAIT`].
    fn wait_for_packets(&self, engine: EngineGuard<'_>) {
        let (mut packets, timeout) = PacketFds::of(&engine, self.now());
        drop(engine);
        let timeout = timeout.map_or(spin::MAX_WAIT, |left| left.min(spin::MAX_WAIT));
        let _ = poll_packets(&mut packets.0, Some(timeout));
    }

    /// Locks the engine, waiting for other threads.
    pub(crate) fn lock(&self) -> EngineGuard<'_> {
        self.engine.lock()
    }

    /// # Errors
    /// If the device has stopped for good.
    fn check_works(&self, engine: &Engine) -> Result<(), StartError> {
        match engine.has_stopped() {
            false => Ok(()),
            true => Err(StartError::Stopped {
                device: self.starter.device_name(),
            }),
        }
    }

    /// Locks the engine, and ensures that its NIC has a QPN range.
    ///
    /// # Errors
    /// If no QPN range is free, or the device has stopped for good.
    pub(crate) fn lock_with_qpn_range(&self) -> Result<EngineGuard<'_>, StartError> {
        let mut engine = self.lock();
        self.check_works(&engine)?;
        self.starter.claim_qpn_range(&mut engine)?;
        Ok(engine)
    }

    /// Locks the engine, and starts its datapath unless it has started.
    ///
    /// # Errors
    /// If the datapath can't start.
    pub(crate) fn lock_and_start(&self) -> Result<EngineGuard<'_>, StartError> {
        let mut engine = self.lock();
        self.start(&mut engine)?;
        Ok(engine)
    }

    /// Starts the datapath unless it has started. `engine` is that of this open device.
    ///
    /// # Errors
    /// If the datapath can't start, or the device has stopped for good. The next call tries again.
    pub(crate) fn start(&self, engine: &mut Engine) -> Result<&Datapath, StartError> {
        self.check_works(engine)?;
        if let Some(started) = self.starter.datapath() {
            return Ok(started);
        }
        let started = self.starter.start(engine)?;
        // The background thread may sleep on the descriptors of the placeholder port that the start
        // has replaced.
        self.wake_driver();
        Ok(started)
    }

    /// Makes each address that the interface gets usable as soon as it has it.
    pub(crate) fn want_all_addresses(&self) {
        self.wants_all_addresses.store(true, Ordering::Relaxed);
    }

    /// Makes new addresses usable, if they are wanted, and then queues the events.
    pub(crate) fn note_changes(&self, changes: Changes) {
        let mut engine = self.lock();
        if self.wants_all_addresses.load(Ordering::Relaxed) {
            engine.port.set_addresses(changes.addresses.clone());
            for address in changes.addresses {
                // It may not be usable yet: an IPv6 address is first checked for duplicates. The
                // kernel reports again when it is.
                let _ = engine.port.activate(address);
            }
        }
        for event in changes.events {
            engine.events.push(event);
        }
    }

    /// If the datapath has not started, remembers to make `address` usable when it does, and
    /// returns true. Otherwise returns false.
    pub(crate) fn activate_when_started(&self, address: IpAddr) -> bool {
        let _engine = self.lock();
        self.starter.activate_when_started(address)
    }
}

impl PersistListener for DeviceState {
    fn finish_persist(&self, done: Persisted) {
        self.engine.lock().finish_persist(self.now(), done);
        // There may be more to send, and new timeouts.
        self.wake_driver();
    }
}
