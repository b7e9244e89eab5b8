//! What a thread that has nothing to do waits for in the kernel.

use super::Engine;
use crate::datapath::WakeUps;
use nix::poll::PollFd;
use roce_stack::Instant;
use std::os::fd::AsFd;
use std::time::Duration;

/// The descriptors and the timeout to wait for.
pub(super) fn until_something_is_due(engine: &Engine, now: Instant) -> (WakeUps, Option<Duration>) {
    let timeout = engine.next_timeout(now);
    let timeout = timeout.map(|at| at.saturating_duration_since(now));
    (engine.port.wake_ups(), timeout)
}

pub(super) fn packets_of(wake_ups: &WakeUps) -> Vec<PollFd<'_>> {
    let packets = wake_ups.packets.iter();
    packets
        .map(|(fd, flags)| PollFd::new(fd.as_fd(), *flags))
        .collect()
}
