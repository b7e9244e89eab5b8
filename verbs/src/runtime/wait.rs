//! The events that an idle thread waits for in the kernel.

use super::Engine;
use crate::datapath::WakeUps;
use nix::poll::PollFd;
use roce_stack::Instant;
use std::os::fd::AsFd;
use std::time::Duration;

/// The longest sleep of a thread that lacks a descriptor to wait for, because the process has none
/// left.
const WITHOUT_WAKE_UPS: Duration = Duration::from_millis(1);

/// The descriptors and the timeout that an idle thread waits for.
pub(super) fn wake_ups_and_timeout(engine: &Engine, now: Instant) -> (WakeUps, Option<Duration>) {
    let timeout = engine.next_timeout(now);
    let timeout = timeout.map(|at| at.saturating_duration_since(now));
    let wake_ups = engine.port.wake_ups();
    match wake_ups.lacks_some {
        false => (wake_ups, timeout),
        true => {
            let soon = timeout.map_or(WITHOUT_WAKE_UPS, |left| left.min(WITHOUT_WAKE_UPS));
            (wake_ups, Some(soon))
        }
    }
}

pub(super) fn packet_poll_fds(wake_ups: &WakeUps) -> Vec<PollFd<'_>> {
    let packets = wake_ups.packets.iter();
    packets
        .map(|(fd, flags)| PollFd::new(fd.as_fd(), *flags))
        .collect()
}
