//! Receives bundles and splits them into packets.

use std::io::{self, ErrorKind};

use roce_port::RxSink;
use roce_stack::{IpCovered, RxMeta};

use super::PortSocket;
use crate::counters::UdpCounters;
use crate::share::{Member, Recipient};
use crate::sys::receive::{Bundle, RECEIVE_BATCH, ReceiveRing};

/// The average size of bundles, in bytes, above which a receive requests only one bundle. The cost
/// of the system call is already spread over many packets, and several such bundles would overflow
/// the cache.
const LARGE_BUNDLE: usize = 8 << 10;

/// The maximum number of consecutive errors that one call ignores.
const MAX_IGNORED_ERRORS: usize = 8;

/// The number of consecutive empty polls after which a socket counts as quiet. They take about 20
/// µs.
const QUIET_AFTER: u32 = 64;

impl PortSocket {
    /// Whether the last polls of the socket found no packet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.empty_polls >= QUIET_AFTER
    }

    /// Receives with one system call, or with several while long bundles arrive. Such bundles are
    /// parts of a stream, and one acknowledgement for several of them saves as much as receiving a
    /// bundle costs. Stops once `budget` packets are received. The last bundle may exceed the
    /// budget. Returns the number of packets passed to `sink`.
    ///
    /// # Errors
    /// Errors that mean that the socket is unusable.
    pub(crate) fn receive(
        &mut self,
        budget: usize,
        ring: &mut ReceiveRing,
        counters: &mut UdpCounters,
        sink: &mut dyn RxSink,
    ) -> io::Result<usize> {
        let mut packets = 0;
        while packets < budget {
            let bytes = counters.rx_bytes;
            let (bundles, more) = self.receive_once(budget - packets, ring, counters, sink)?;
            packets += more;
            let bytes = counters.rx_bytes - bytes;
            if bytes <= (bundles * LARGE_BUNDLE) as u64 {
                break;
            }
        }
        Ok(packets)
    }

    /// Receives once. Returns the number of bundles and the number of packets.
    fn receive_once(
        &mut self,
        budget: usize,
        ring: &mut ReceiveRing,
        counters: &mut UdpCounters,
        sink: &mut dyn RxSink,
    ) -> io::Result<(usize, usize)> {
        let requested = self.receive_batch.min(budget);
        for _ in 0..MAX_IGNORED_ERRORS {
            match ring.receive(self.fd(), requested) {
                Ok(received) => {
                    return Ok((
                        received,
                        self.deliver(received, requested, ring, counters, sink),
                    ));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.receive_batch = 1;
                    self.empty_polls = self.empty_polls.saturating_add(1);
                    return Ok((0, 0));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_socket_error(&error) => return Err(error),
                // The error reports what happened to an earlier packet of this socket. The call has
                // cleared the error.
                Err(_) => counters.rx_errors += 1,
            }
        }
        Ok((0, 0))
    }

    fn deliver(
        &mut self,
        received: usize,
        requested: usize,
        ring: &ReceiveRing,
        counters: &mut UdpCounters,
        sink: &mut dyn RxSink,
    ) -> usize {
        self.empty_polls = 0;
        let (mut packets, mut bytes) = (0, 0);
        for bundle in (0..received).filter_map(|index| ring.bundle(index)) {
            packets += self.deliver_bundle(&bundle, counters, sink);
            bytes += bundle.bytes.len();
        }
        if let Some(member) = &mut self.member {
            member.note_received(packets);
        }
        counters.rx_bundles += received as u64;
        counters.rx_packets += packets as u64;
        counters.rx_bytes += bytes as u64;
        self.receive_batch = match () {
            () if bytes > received * LARGE_BUNDLE => 1,
            () if received == requested => (2 * requested).min(RECEIVE_BATCH),
            () => received.max(1),
        };
        packets
    }

    fn deliver_bundle(
        &mut self,
        bundle: &Bundle<'_>,
        counters: &mut UdpCounters,
        sink: &mut dyn RxSink,
    ) -> usize {
        if bundle.truncated {
            counters.rx_truncated += 1;
            return 0;
        }
        let Some((src, src_port)) = bundle.from else {
            counters.rx_no_source += 1;
            return 0;
        };
        let meta = RxMeta {
            src,
            dst: self.address,
            src_port,
            traffic_class: bundle.traffic_class,
            ip: if src.is_ipv4() {
                IpCovered::V4Hidden
            } else {
                IpCovered::V6
            },
        };
        let segment = bundle.segment.unwrap_or(bundle.bytes.len());
        if segment == 0 {
            sink.packet(&meta, &[]);
            return 1;
        }
        let packets = bundle.bytes.chunks(segment);
        let count = packets.len();
        match &mut self.member {
            // The filter in the kernel has checked the first packet.
            Some(member) if count > 1 => {
                count - deliver_own(member, packets, &meta, counters, sink)
            }
            _ => {
                for packet in packets {
                    sink.packet(&meta, packet);
                }
                count
            }
        }
    }
}

/// Delivers the packets of a bundle that are for this process. Counts the others and returns their
/// number. The kernel joins packets with the same addresses and ports, whatever their QPs. Senders
/// of this stack keep packets for different processes apart; other senders may not.
fn deliver_own<'a>(
    member: &mut Member,
    packets: impl Iterator<Item = &'a [u8]>,
    meta: &RxMeta,
    counters: &mut UdpCounters,
    sink: &mut dyn RxSink,
) -> usize {
    let mut foreign = 0;
    let mut another_member_lost_packets = false;
    for (index, packet) in packets.enumerate() {
        match member.recipient_of(packet, index == 0) {
            Recipient::ThisProcess => sink.packet(meta, packet),
            recipient => {
                foreign += 1;
                another_member_lost_packets |= recipient == Recipient::AnotherMember;
            }
        }
    }
    counters.rx_foreign += foreign as u64;
    if another_member_lost_packets {
        member.pause_coalescing();
        counters.rx_joining_paused += 1;
    }
    foreign
}

/// Whether an error means that the socket is unusable. Other errors report the fate of a packet.
fn is_socket_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL | libc::ENODEV | libc::ENXIO
        )
    )
}
