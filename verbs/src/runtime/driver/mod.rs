//! The background thread: drives the NIC when no application thread does.
//!
//! ```text
//!            application calls                 nothing to do
//!  ┌─────────┐ ◄──────────── ┌─────────┐ ─────────────────────► ┌────────┐
//!  │ standby │               │ driving │                        │ asleep │
//!  └─────────┘ ────────────► └─────────┘ ◄───────────────────── └────────┘
//!            no call for a while             packet, timer, call
//! ```
//!
//! While the application makes calls, the thread does only the work that these calls leave undone
//! ([`standby`]). Asleep, it waits in `ppoll` for the port's sockets and the next timer, so an idle
//! process costs no CPU. In each turn, it also reports changes of the interface.

mod linger;
mod standby;

use super::Monitor;
use super::device_state::WakeUpCounts;
use super::wait::{PacketFds, poll_packets};
use crate::runtime::DeviceState;
use linger::Linger;
use roce_trust::signals;
use standby::Standby;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// An application counts as driving the NIC for this time after its last call.
const APPLICATION_IDLE_AFTER: Duration = Duration::from_micros(500);

/// Starts the thread. It ends when [`DeviceState::stop`] is set and it is woken up.
pub(crate) fn spawn(
    shared: Arc<DeviceState>,
    monitor: Monitor,
    name: &str,
) -> io::Result<JoinHandle<()>> {
    // Longer names do no harm: the kernel keeps the first 15 bytes.
    let thread = Builder::new().name(name.to_owned());
    signals::spawn(thread, move || run(&shared, monitor))
}

/// Drives the NIC. After a panic, the thread goes on: applications still wait for their events.
fn run(shared: &DeviceState, mut monitor: Monitor) {
    let mut drive = || catch_unwind(AssertUnwindSafe(|| drive(shared, &mut monitor)));
    if drive().is_err() {
        shared.lock().stop();
        // With the device stopped, little is left that could panic. If that does, nothing drives it.
        let _ = drive();
    }
}

fn drive(shared: &DeviceState, monitor: &mut Monitor) {
    // The thread's work takes microseconds, and an application that spins must not delay it by a
    // whole time slice. So the thread asks for short time slices. Linux before 6.12 ignores the
    // request, which does no harm.
    let _ = roce_udp::prefer_short_turns();
    let mut standby = Standby::default();
    let mut linger = Linger::default();
    while !shared.stop.load(Ordering::Acquire) {
        if let Some(changes) = monitor.changes() {
            shared.note_changes(changes);
        }
        let called = shared.application_called_within(APPLICATION_IDLE_AFTER);
        if called || shared.application_waits() {
            standby.take_turn(shared);
            continue;
        }
        WakeUpCounts::add(&shared.wake_ups.background);
        let (busy, has_raised) = {
            let mut engine = shared.engine.lock();
            let busy = engine.progress(shared.now()) | engine.has_work();
            // The lock is held until the acknowledgements of the packets just received have left.
            // An application thread that a completion wakes up can't post before that. Some
            // programs that wait for events (ib_send_lat -e, for one) expect their answer to leave
            // after the acknowledgement, as with an RNIC.
            engine.send(shared.now());
            (busy, std::mem::take(&mut engine.has_raised))
        };
        let now = Instant::now();
        if has_raised {
            // Another thread of the program waited for this work. It needs a processor now, and will
            // drive the NIC itself.
            linger.end();
        } else if busy {
            linger.note_work(now);
        }
        if !linger.polls_at(now) {
            sleep(shared, monitor);
        } else if !busy {
            // Other threads that wait for this processor run first.
            std::thread::yield_now();
            linger.note_yield(now, Instant::now());
        }
    }
}

/// Sleeps until a packet arrives, a timer expires, the interface changes, or an application thread
/// calls.
fn sleep(shared: &DeviceState, monitor: &Monitor) {
    // From now on, the first thread that posts or polls wakes this one up.
    shared.driver_sleeps.store(true, Ordering::SeqCst);
    let engine = shared.engine.lock();
    if engine.has_work() {
        shared.driver_sleeps.store(false, Ordering::SeqCst);
        return;
    }
    let (mut polled, timeout) = PacketFds::of(&engine, shared.now());
    let network = engine.port.network_fd().map(|fd| fd.as_raw_fd());
    drop(engine);
    polled.add(shared.wake.as_fd().as_raw_fd());
    let monitor = monitor.fd().map(|fd| fd.as_raw_fd());
    // The descriptor for network changes is the last.
    for fd in monitor.into_iter().chain(network) {
        polled.add(fd);
    }
    let woken = poll_packets(&mut polled.0, timeout);
    shared.driver_sleeps.store(false, Ordering::SeqCst);
    shared.clear_wake();
    if network.is_some() && (woken == Ok(false) || polled.last_is_ready()) {
        shared.lock().follow_network();
    }
}
