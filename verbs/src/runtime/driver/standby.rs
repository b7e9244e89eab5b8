//! The background thread while the application makes calls.
//!
//! An application that polls drives the NIC better than this thread could: if packets woke this
//! thread up, it would only take the processor away from the application. An application that calls
//! only now and then, and otherwise watches its memory for a peer's writes, does not drive the NIC
//! between its calls. Two observations tell them apart: how often the application calls while this
//! thread waits, and whether it is in a call at the end of the wait. (An application that keeps a
//! link busy makes few calls, but spends its time in them.) The time of its last call does not tell
//! them apart: an application that polls makes no calls while this thread has its processor. While
//! the application mostly drives, this thread backs off.
//!
//! An application thread that waits in the kernel may drive the NIC as well, without a call in between:
//! see [`Driving`](crate::runtime::Driving). While one does, this thread waits for no packet.

use super::APPLICATION_IDLE_AFTER;
use crate::runtime::DeviceState;
use crate::runtime::Engine;
use crate::runtime::device_state::WakeUpCounts;
use crate::runtime::wait::{PacketFds, poll_packets};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

/// The maximum average time between two calls for an application to count as polling.
const MAX_POLL_INTERVAL: Duration = Duration::from_micros(5);

/// The delay of an acknowledgement, so that it can leave together with the application's answer. If
/// it left at once, it would wake up a thread of the peer. A peer that polls only until the
/// acknowledgement arrives, and then watches its memory, would also not drive its NIC when the
/// answer arrives.
const ACK_DELAY: Duration = Duration::from_micros(100);

/// The time that this thread waits before it sends posted requests. Most of the time, the call that
/// posted them is still in progress, holds the NIC, and sends them itself.
const SEND_DELAY: Duration = Duration::from_micros(100);

/// The first back-off. An application that was driving may watch its memory by now, so the thread
/// checks again after this time. It doubles with each check that finds the application driving.
const SHORTEST_BACKOFF: Duration = Duration::from_micros(50);

/// The longest back-off. If an application has driven the NIC for at least this long and then stops
/// without [`DeviceState::hand_over`], peers and timers wait until a check finds no call within
/// [`APPLICATION_IDLE_AFTER`]: at most 2.5 ms. A check costs the application's processor 27 us,
/// including the timer, context switches and cold caches.
const LONGEST_BACKOFF: Duration = Duration::from_millis(2);

/// The results of the last checks of an application that makes calls.
#[derive(Debug)]
pub(super) struct Standby {
    /// The confidence that the application drives the NIC: 0 to [`Standby::MAX_CONFIDENCE`].
    confidence: u8,
    /// The next back-off.
    backoff: Duration,
}

impl Default for Standby {
    fn default() -> Self {
        Self {
            confidence: 0,
            backoff: SHORTEST_BACKOFF,
        }
    }
}

impl Standby {
    /// Waits for work, for at most [`LONGEST_BACKOFF`], and does the work unless the application
    /// polls, or drives the NIC while it waits.
    pub(super) fn take_turn(&mut self, shared: &DeviceState) {
        let (began, calls, waits) = (Instant::now(), shared.calls(), shared.waits());
        let stands_aside = self.backs_off() || shared.application_waits();
        let woken = if stands_aside {
            wait(shared, PacketFds::default(), self.backoff)
        } else {
            wait_for_packets(shared)
        };
        if shared.application_waits() || shared.waits() != waits {
            self.note_check(true);
            if woken && stands_aside {
                // Another thread has left work that the waiting thread does not look for.
                work(shared);
            } else {
                send_waiting(shared);
            }
            return;
        }
        // A packet that wakes up this thread may also wake up the application, which is then in a
        // call whether it polls or not.
        let in_call = shared.application_is_in_call();
        let calls = shared.calls().wrapping_sub(calls);
        if is_polling(calls, began.elapsed()) || in_call && !woken {
            self.note_check(true);
            send_waiting(shared);
        } else if !in_call {
            self.note_check(false);
            work(shared);
        }
    }

    /// The thread backs off from this confidence on.
    const BACK_OFF_AT: u8 = 4;
    /// The highest confidence. It is bounded because an application may change its behaviour.
    const MAX_CONFIDENCE: u8 = 8;

    fn backs_off(&self) -> bool {
        self.confidence >= Self::BACK_OFF_AT
    }

    /// Notes a check. One that finds the application not driving may have fallen between two calls,
    /// so it lowers the confidence by 2. If the result is below [`Standby::BACK_OFF_AT`], the
    /// confidence becomes 0.
    fn note_check(&mut self, application_drives: bool) {
        if application_drives && self.backs_off() {
            self.backoff = LONGEST_BACKOFF.min(self.backoff * 2);
        } else if !application_drives {
            self.backoff = SHORTEST_BACKOFF;
        }
        self.confidence = if application_drives {
            Self::MAX_CONFIDENCE.min(self.confidence + 1)
        } else {
            let lowered = self.confidence.saturating_sub(2);
            if lowered < Self::BACK_OFF_AT {
                0
            } else {
                lowered
            }
        };
    }
}

/// Does the work, unless another thread has the lock: that one does all of it.
fn work(shared: &DeviceState) {
    WakeUpCounts::add(&shared.wake_ups.background);
    if let Some(mut engine) = shared.engine.try_lock() {
        engine.progress(shared.now());
        if !may_delay_acknowledgements(&engine) {
            engine.send(shared.now());
        }
    }
}

/// Sends the posts that wait for others: the application may have stopped in the middle of a series. Does
/// nothing if another thread has the lock: the next look sends them.
fn send_waiting(shared: &DeviceState) {
    if let Some(mut engine) = shared.engine.try_lock() {
        engine.send_waiting(shared.now());
    }
}

/// Whether `calls` calls in `time` are those of an application that polls.
fn is_polling(calls: u64, time: Duration) -> bool {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    calls > 1 && time < MAX_POLL_INTERVAL.saturating_mul(calls)
}

/// Whether the only packets to send are acknowledgements, and the application has no completion
/// channel. An application that waits for events expects its peer's acknowledgement before the
/// peer's answer.
fn may_delay_acknowledgements(engine: &Engine) -> bool {
    engine.channels.is_empty() && engine.has_only_acknowledgements_to_send()
}

/// Waits for a packet or a timer, for at most half a millisecond, or [`ACK_DELAY`] or
/// [`SEND_DELAY`] if packets wait to be sent. Calls of the application do not end the wait. Returns
/// whether a packet, a timer or a wake-up ended the wait.
fn wait_for_packets(shared: &DeviceState) -> bool {
    let (packets, longest) = {
        let engine = shared.engine.lock();
        let longest = match (engine.has_work(), may_delay_acknowledgements(&engine)) {
            (false, _) => APPLICATION_IDLE_AFTER,
            (true, true) => ACK_DELAY,
            (true, false) => {
                drop(engine);
                return wait(shared, PacketFds::default(), SEND_DELAY);
            }
        };
        let (packets, timeout) = PacketFds::of(&engine, shared.now());
        (packets, timeout.map_or(longest, |left| left.min(longest)))
    };
    wait(shared, packets, longest)
}

/// Waits for one of `packets`, for a wake-up of this thread, or for `longest`. Returns whether it
/// was woken up before `longest` passed.
fn wait(shared: &DeviceState, mut packets: PacketFds, longest: Duration) -> bool {
    packets.add(shared.wake.as_fd().as_raw_fd());
    let woken = poll_packets(&mut packets.0, Some(longest));
    if packets.last_is_ready() {
        shared.clear_wake();
    }
    woken != Ok(false)
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_BACKOFF, Standby, is_polling};
    use crate::device::Device;
    use crate::runtime::Batch;
    use crate::{ConnectOptions, QpOptions, SendRequest};
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    /// The thread that waits may be in a signal handler of the program.
    #[test]
    fn posts_that_wait_are_sent_beside_a_thread_that_drives() {
        let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        let context = device.open().expect("opened");
        let cq = context.create_cq(1);
        let qp = context
            .alloc_pd()
            .create_qp(&cq, &cq, &QpOptions::default());
        let qp = qp.expect("a QP");
        let peer = qp.endpoint(0).expect("a GID");
        let connected = qp.connect(0, &peer, &ConnectOptions::default());
        connected.expect("connected");
        let shared = &context.inner.shared;
        shared.begin_wait(Duration::from_secs(60)).expect("a turn");
        let mut engine = shared.lock();
        let now = engine.nic_time(shared.now());
        let posted = engine.nic.post_send(now, qp.qpn(), &SendRequest::send(&[]));
        posted.expect("posted");
        engine.pacing.wait(Batch {
            requests: 1,
            bytes: 0,
        });
        drop(engine);
        let (mut standby, began) = (Standby::default(), Instant::now());
        while shared.lock().pacing.has_waiting() {
            assert!(began.elapsed() < Duration::from_secs(60), "they still wait");
            standby.take_turn(shared);
        }
    }

    /// On a busy machine, the thread's turn may be over before the check.
    #[test]
    fn a_thread_that_drives_while_it_waits_counts_as_driving() {
        let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        let context = device.open().expect("opened");
        let channel = context.create_channel().expect("a descriptor");
        let shared = &context.inner.shared;
        let lasts = (0..1000).any(|_| {
            let _turn = channel.drive_while_waiting().expect("a turn");
            let mut standby = Standby::default();
            standby.take_turn(shared);
            let lasts = shared.application_waits();
            assert!(!lasts || standby.confidence == 1);
            lasts
        });
        assert!(lasts, "each turn was over at once");
    }

    #[test]
    fn backs_off_from_an_application_that_mostly_drives() {
        let mut standby = Standby::default();
        (0..3).for_each(|_| standby.note_check(true));
        assert!(!standby.backs_off(), "three checks are too few");
        standby.note_check(false);
        (0..3).for_each(|_| standby.note_check(true));
        assert!(!standby.backs_off(), "three checks in a row are too few");
        (0..300).for_each(|_| standby.note_check(true));
        for _ in 0..300 {
            assert!(standby.backs_off(), "a check may fall between two calls");
            (0..2).for_each(|_| standby.note_check(false));
            (0..4).for_each(|_| standby.note_check(true));
        }
    }

    #[test]
    fn stops_backing_off_when_the_application_stops_driving() {
        let mut standby = Standby::default();
        (0..300).for_each(|_| standby.note_check(true));
        (0..3).for_each(|_| standby.note_check(false));
        assert!(!standby.backs_off());
        for _ in 0..300 {
            (0..3).for_each(|_| standby.note_check(true));
            standby.note_check(false);
            assert!(!standby.backs_off(), "in doubt, it does the work");
        }
    }

    #[test]
    fn checks_sooner_after_one_check_without_driving() {
        let mut standby = Standby::default();
        (0..4).for_each(|_| standby.note_check(true));
        let first = standby.backoff;
        let mut last = first;
        for _ in 0..20 {
            standby.note_check(true);
            assert!(last <= standby.backoff && standby.backoff <= last * 2);
            last = standby.backoff;
        }
        assert_eq!(last, LONGEST_BACKOFF);
        standby.note_check(false);
        assert!(standby.backs_off() && standby.backoff == first);
    }

    #[test]
    fn polling_is_many_calls_in_a_short_time() {
        let us = Duration::from_micros;
        assert!(is_polling(500, us(500)));
        assert!(is_polling(10, us(3)));
        assert!(is_polling(u64::MAX, us(500)));
        assert!(!is_polling(0, Duration::ZERO));
        assert!(
            !is_polling(1, Duration::ZERO),
            "the application posts once, then watches memory"
        );
        assert!(!is_polling(30, us(500)));
    }
}
