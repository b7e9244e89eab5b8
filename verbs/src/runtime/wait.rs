//! The events that an idle thread waits for in the kernel.

use super::Engine;
use crate::datapath::WakeUps;
use nix::poll::PollFd;
use roce_stack::Instant;
use std::os::fd::AsFd;
use std::time::Duration;

/// The descriptors and the timeout that an idle thread waits for.
pub(super) fn wake_ups_and_timeout(engine: &Engine, now: Instant) -> (WakeUps, Option<Duration>) {
    let timeout = engine.next_timeout(now);
    let timeout = timeout.map(|at| at.saturating_duration_since(now));
    (engine.port.wake_ups(), timeout)
}

pub(super) fn packet_poll_fds(wake_ups: &WakeUps) -> Vec<PollFd<'_>> {
    let packets = wake_ups.packets.iter();
    packets
        .map(|(fd, flags)| PollFd::new(fd.as_fd(), *flags))
        .collect()
}
