//! The events that an idle thread waits for in the kernel.

use super::Engine;
use libc::pollfd;
use nix::errno::Errno;
use roce_stack::Instant;
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;

/// The descriptors that a thread polls to wait for packets.
///
/// These are numbers, not duplicates, which would cost two system calls for each descriptor and sleep.
/// The port may close one while a thread polls it, and the number may become another file's. Polling
/// takes nothing from that file. Whoever changes the port's descriptors wakes up the background thread
/// or has just made a call, so that thread soon polls the new ones.
#[derive(Default)]
pub(super) struct PacketFds(pub(super) Vec<pollfd>);

impl PacketFds {
    /// The descriptors and the timeout that an idle thread waits for.
    pub(super) fn of(engine: &Engine, now: Instant) -> (Self, Option<Duration>) {
        let timeout = engine.next_timeout(now);
        let timeout = timeout.map(|at| at.saturating_duration_since(now));
        // A device that has stopped receives nothing. A packet that waits would end each sleep at once.
        let packets = match engine.has_stopped() {
            true => Vec::new(),
            false => engine.port.packet_fds(),
        };
        let packets = packets.iter().map(|of| pollfd {
            fd: of.fd.as_raw_fd(),
            events: match of.wants_write {
                true => libc::POLLIN | libc::POLLOUT,
                false => libc::POLLIN,
            },
            revents: 0,
        });
        (Self(packets.collect()), timeout)
    }

    /// Adds a descriptor, to wait until it is readable.
    pub(super) fn add(&mut self, fd: RawFd) {
        self.0.push(pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
    }

    /// Whether the descriptor that was added last is ready.
    pub(super) fn last_is_ready(&self) -> bool {
        self.0.last().is_some_and(|last| last.revents != 0)
    }
}

/// Polls for at most `timeout`; `None` means for ever. Returns whether a descriptor is ready.
///
/// # Errors
/// `EINTR` after a signal.
#[expect(unsafe_code)]
pub(super) fn poll_packets(fds: &mut [pollfd], timeout: Option<Duration>) -> nix::Result<bool> {
    let timeout = timeout.map(|left| libc::timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the slice has this number of elements, the timeout is NULL or valid, and NULL leaves the
    // signal mask as it is.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), count, timeout, std::ptr::null()) };
    Errno::result(ready).map(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::{ConnectOptions, QpOptions};
    use std::net::Ipv4Addr;

    /// Nobody would receive the packet that ends each wait at once, and the thread would use a whole
    /// processor.
    #[test]
    fn nobody_waits_for_packets_to_a_device_that_has_stopped() {
        let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        let context = device.open().expect("opened");
        let shared = &context.inner.shared;
        let cq = context.create_cq(1);
        let qp = context
            .alloc_pd()
            .create_qp(&cq, &cq, &QpOptions::default());
        let qp = qp.expect("a QP");
        let peer = qp.endpoint(0).expect("a GID");
        let connected = qp.connect(0, &peer, &ConnectOptions::default());
        connected.expect("connected");
        let mut engine = shared.lock();
        let polled = |engine: &Engine| PacketFds::of(engine, shared.now()).0.0.len();
        assert!(polled(&engine) > 0);
        engine.stop();
        assert_eq!(polled(&engine), 0);
    }
}
