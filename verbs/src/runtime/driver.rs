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

mod standby;

use super::Monitor;
use super::wait::{packet_poll_fds, wake_ups_and_timeout};
use crate::datapath::WakeUps;
use crate::runtime::DeviceState;
use crate::signals;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use standby::Standby;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// An application counts as driving the NIC for this time after its last call.
const APPLICATION_IDLE_AFTER: Duration = Duration::from_micros(500);

/// The time that the thread keeps polling after its last work before it sleeps.
const LINGER: Duration = Duration::from_micros(50);

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
    let mut last_busy = std::time::Instant::now();
    while !shared.stop.load(Ordering::Acquire) {
        if let Some(changes) = monitor.changes() {
            shared.note_changes(changes);
        }
        if shared.application_called_within(APPLICATION_IDLE_AFTER) {
            standby.take_turn(shared);
            continue;
        }
        let busy = {
            let mut engine = shared.engine.lock();
            let busy = engine.progress(shared.now()) | engine.has_work();
            // The lock is held until the acknowledgements of the packets just received have left.
            // An application thread that a completion wakes up can't post before that. Some
            // programs that wait for events (ib_send_lat -e, for one) expect their answer to leave
            // after the acknowledgement, as with an RNIC.
            engine.send(shared.now());
            busy
        };
        if busy {
            last_busy = std::time::Instant::now();
        } else if last_busy.elapsed() > LINGER {
            sleep(shared, monitor);
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Sleeps until a packet arrives, a timer expires, the interface changes, or an application thread
/// calls.
fn sleep(shared: &DeviceState, monitor: &Monitor) {
    // From now on, the first thread that posts or polls wakes this one up.
    shared.driver_sleeps.store(true, Ordering::SeqCst);
    let Some((wake_ups, timeout)) = wake_ups_unless_busy(shared) else {
        shared.driver_sleeps.store(false, Ordering::SeqCst);
        return;
    };
    let mut polled = packet_poll_fds(&wake_ups);
    let others = [Some(shared.wake.as_fd()), monitor.fd()];
    let network = wake_ups.network.as_ref().map(AsFd::as_fd);
    let others = others.into_iter().chain([network]).flatten();
    polled.extend(others.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    let woken = ppoll(&mut polled, timeout.map(TimeSpec::from_duration), None);
    shared.driver_sleeps.store(false, Ordering::SeqCst);
    shared.clear_wake();
    // The descriptor for network changes is the last.
    let network_changed = || polled.last().and_then(PollFd::any).unwrap_or(true);
    if wake_ups.network.is_some() && (woken == Ok(0) || network_changed()) {
        shared.lock().follow_network();
    }
}

/// The descriptors and the timeout to wait for; `None` if there is work.
fn wake_ups_unless_busy(shared: &DeviceState) -> Option<(WakeUps, Option<Duration>)> {
    let engine = shared.engine.lock();
    if engine.has_work() {
        return None;
    }
    Some(wake_ups_and_timeout(&engine, shared.now()))
}
