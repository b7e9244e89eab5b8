//! Receiving, and splitting bundles into packets.

use std::io::{self, ErrorKind};

use roce_port::RxSink;
use roce_stack::{IpCovered, RxMeta};

use super::PortSocket;
use crate::counters::UdpCounters;
use crate::share::{Gets, Member};
use crate::sys::receive::{Bundle, RECEIVE_BATCH, ReceiveRing};

/// The average size of a bundle, in bytes, above which a receive asks for only one: the cost of the
/// system call is already spread over many packets, and several such bundles overflow the cache.
const LARGE_BUNDLE: usize = 8 << 10;

/// The maximum number of consecutive errors that one call ignores.
const PATIENCE: usize = 8;

/// Consecutive empty polls before a socket counts as quiet: some 20 us.
const QUIET_AFTER: u32 = 64;

impl PortSocket {
    /// Whether nothing has arrived lately.
    pub(crate) fn is_quiet(&self) -> bool {
        self.empty_polls >= QUIET_AFTER
    }

    /// Receives with one system call, or with several while long bundles arrive. Such bundles are
    /// pieces of a stream, and one acknowledgement for several of them saves as much as receiving a
    /// bundle costs. Stops once `budget` packets are received; the last bundle
    /// may exceed it. Returns the number of packets passed to `sink`.
    ///
    /// # Errors
    /// Errors that a working socket does not report.
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
        let asked = self.burst.min(budget);
        for _ in 0..PATIENCE {
            match ring.receive(self.fd(), asked) {
                Ok(got) => return Ok((got, self.hand_out(got, asked, ring, counters, sink))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.burst = 1;
                    self.empty_polls = self.empty_polls.saturating_add(1);
                    return Ok((0, 0));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_ours(&error) => return Err(error),
                // The error reports what happened to an earlier packet of ours. Reading it has
                // cleared it.
                Err(_) => counters.rx_errors += 1,
            }
        }
        Ok((0, 0))
    }

    fn hand_out(
        &mut self,
        got: usize,
        asked: usize,
        ring: &ReceiveRing,
        counters: &mut UdpCounters,
        sink: &mut dyn RxSink,
    ) -> usize {
        self.empty_polls = 0;
        let (mut packets, mut bytes) = (0, 0);
        for bundle in (0..got).filter_map(|index| ring.bundle(index)) {
            packets += self.split(&bundle, counters, sink);
            bytes += bundle.bytes.len();
        }
        counters.rx_bundles += got as u64;
        counters.rx_packets += packets as u64;
        counters.rx_bytes += bytes as u64;
        self.burst = match () {
            () if bytes > got * LARGE_BUNDLE => 1,
            () if got == asked => (2 * asked).min(RECEIVE_BATCH),
            () => got.max(1),
        };
        packets
    }

    fn split(
        &self,
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
        match &self.member {
            // The kernel has checked the first packet.
            Some(member) if count > 1 => {
                let foreign = hand_out_own(member, packets, &meta, sink);
                counters.rx_foreign += foreign as u64;
                count - foreign
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

/// Hands out the packets of a bundle that are for this process; returns the number of the others.
/// The kernel joins packets with the same addresses and ports, whatever their QPs. Our own senders
/// keep packets for different processes apart; other senders may not.
fn hand_out_own<'a>(
    member: &Member,
    packets: impl Iterator<Item = &'a [u8]>,
    meta: &RxMeta,
    sink: &mut dyn RxSink,
) -> usize {
    let mut foreign = 0;
    let mut others_miss_some = false;
    for (index, packet) in packets.enumerate() {
        match member.gets(packet, index == 0) {
            Gets::Yes => sink.packet(meta, packet),
            gets => {
                foreign += 1;
                others_miss_some |= gets == Gets::AnotherMember;
            }
        }
    }
    if others_miss_some {
        member.stop_coalescing();
    }
    foreign
}

/// Whether an error means that the socket is unusable, rather than that something happened to a
/// packet.
fn is_ours(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL | libc::ENODEV | libc::ENXIO
        )
    )
}
