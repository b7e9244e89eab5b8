//! Receiving, and taking bundles apart.

use std::io::{self, ErrorKind};

use roce_port::RxSink;
use roce_stack::{IpCovered, RxMeta};

use super::PortSocket;
use crate::counters::UdpCounters;
use crate::share::{Gets, Member};
use crate::sys::receive::{Bundle, RECEIVE_BATCH, ReceiveRing};

/// Bundles of more bytes than this, on average, are not asked for in greater
/// numbers: the system call is paid for already, and the cache is small.
const LARGE_BUNDLE: usize = 8 << 10;

/// Errors in a row that are passed over in one call.
const PATIENCE: usize = 8;

/// Polls in a row that found nothing before a socket counts as quiet: some 20 us.
const QUIET_AFTER: u32 = 64;

impl PortSocket {
    /// Whether nothing has arrived for a while.
    pub(crate) fn is_quiet(&self) -> bool {
        self.empty_polls >= QUIET_AFTER
    }

    /// One system call's worth of packets, or those of several while bundles come:
    /// they are pieces of a stream, and what it is answered with, once for all of
    /// them, costs as much as taking a bundle. About `budget` packets at most. Returns
    /// how many were handed to `sink`.
    ///
    /// # Errors
    /// Errors that a working socket does not give.
    pub(crate) fn receive(
        &mut self,
        budget: usize,
        ring: &mut ReceiveRing,
        counters: &mut UdpCounters,
        sink: &mut dyn RxSink,
    ) -> io::Result<usize> {
        let mut packets = 0;
        while packets < budget {
            let (bundles, more) = self.receive_once(budget - packets, ring, counters, sink)?;
            packets += more;
            if more <= bundles {
                break;
            }
        }
        Ok(packets)
    }

    /// One system call's worth: how many bundles, of how many packets.
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
                // What the network did to an earlier packet of ours: reading the
                // error has cleared it.
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
            // The kernel has looked at the first packet.
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

/// Hands out those packets of a bundle that are for this process; says how many are not.
/// The kernel joins what has the same addresses and ports, whatever it is for; our kind of
/// sender keeps apart what is for different processes, and others may not.
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

/// Whether an error means that the socket is unusable, and not that something
/// happened to a packet.
fn is_ours(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL | libc::ENODEV | libc::ENXIO
        )
    )
}
