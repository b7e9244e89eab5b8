//! Sending frames.

use std::hint::cold_path;
use std::net::IpAddr;

use roce_port::{Port, PortError};
use roce_stack::{Flow, Instant, IpCovered, ReserveError, RoceVersion, RxMeta, TxMeta, TxSlot};

use super::{Ipv6Checksum, XdpPort};
use crate::net::{Outcome, PacketFields, PathKey, Refusal, Template};
use crate::queue::{ChecksumAt, NoRoom};

/// The packet of the last reservation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Reserved {
    /// No packet is reserved.
    #[default]
    Nothing,
    /// A packet that leaves through a queue.
    Frame { queue: usize, len: usize },
    /// A packet that leaves through a queue after the work that [`Special`] describes.
    Special { queue: usize, len: usize },
    /// A packet to this port itself, described by [`Special::copy`].
    Looped { len: usize },
}

/// Additional work that only a few packets need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Special {
    header_len: usize,
    /// The next hop, if its Ethernet address is not known yet.
    waits_for: Option<IpAddr>,
    /// The receive metadata of the packet or copy to loop back, if the destination is an address of
    /// this port or a joined group.
    copy: Option<RxMeta>,
    /// The checksum that the port computes after the packet is written.
    checksum: Option<ChecksumAt>,
}

impl XdpPort {
    /// Reserves space for a packet.
    pub(super) fn reserve_slot(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.reserved = Reserved::Nothing;
        if !self.active.contains(&to.src) || !self.carries(to.version) {
            cold_path();
            return Err(self.unsendable());
        }
        let id = self.next_id;
        let src_port = src_port(to.version, flow, self.config.source_port_secret);
        let header = match self.net.header_for(path_of(to)) {
            Ok(header) if (1..=header.template.max_transport()).contains(&len) => header,
            Err(Refusal::Local) => {
                cold_path();
                return self.reserve_looped(to, src_port, len, id);
            }
            Ok(_) | Err(_) => {
                cold_path();
                return Err(self.unsendable());
            }
        };
        let template = header.template;
        let (header_len, ip) = (template.header_len(), template.covered(id));
        let queue = queue_of(to.dst, self.queues.len());
        let checksum = match self.config.ipv6_checksum {
            Ipv6Checksum::None => None,
            _ => template.udp_checksum(),
        };
        let offloads = self.queues[queue].kernel().offloads_checksums();
        let (offloaded, computed) = (
            checksum.filter(|_| offloads),
            checksum.filter(|_| !offloads),
        );
        let frame = match self.queues[queue].reserve_with(header_len + len, offloaded) {
            Ok(frame) => frame,
            Err(NoRoom::Full) => {
                cold_path();
                self.counters.tx_queue_full += 1;
                return Err(ReserveError::Full);
            }
            Err(NoRoom::Length) => {
                cold_path();
                self.counters.tx_unsendable += 1;
                return Err(ReserveError::Unsendable);
            }
        };
        let fields = PacketFields {
            transport_len: len,
            traffic_class: to.traffic_class,
            hop_limit: to.hop_limit,
            src_port,
            id,
        };
        template.write(frame, &fields);
        if checksum.is_some() {
            cold_path();
            template.begin_checksum(frame, len);
        }
        let is_member = self.groups.contains(to.dst);
        self.reserved = if is_member || computed.is_some() || header.waits_for.is_some() {
            cold_path();
            self.special = Special {
                header_len,
                waits_for: header.waits_for,
                copy: is_member.then(|| looped_meta(to, src_port, ip)),
                checksum: computed,
            };
            Reserved::Special { queue, len }
        } else {
            Reserved::Frame { queue, len }
        };
        Ok(TxSlot {
            bytes: &mut frame[header_len..],
            src_port: fields.src_port,
            ip,
            kept: false,
        })
    }

    /// Reserves space for a packet to this port itself.
    fn reserve_looped(
        &mut self,
        to: &TxMeta,
        src_port: u16,
        len: usize,
        id: u16,
    ) -> Result<TxSlot<'_>, ReserveError> {
        let fits = (1..=self.config.max_ip_bytes()).contains(&len);
        if !fits || !self.active.contains(&to.dst) {
            return Err(self.unsendable());
        }
        if self.loopback.is_full() {
            self.counters.tx_queue_full += 1;
            return Err(ReserveError::Full);
        }
        let ip = match (to.version, to.dst) {
            (RoceVersion::V1, _) => IpCovered::Grh,
            (RoceVersion::V2, IpAddr::V4(_)) => IpCovered::V4 {
                id,
                flags_fragment: 0x4000,
            },
            (RoceVersion::V2, IpAddr::V6(_)) => IpCovered::V6,
        };
        self.special.copy = Some(looped_meta(to, src_port, ip));
        self.reserved = Reserved::Looped { len };
        Ok(TxSlot {
            bytes: self.loopback.reserve(len),
            src_port,
            ip,
            kept: false,
        })
    }

    /// The reserved packet, without the headers in front of it.
    pub(super) fn reserved_bytes(&mut self) -> Option<&[u8]> {
        match self.reserved {
            Reserved::Nothing => None,
            Reserved::Frame { queue, len } | Reserved::Special { queue, len } => {
                let frame = self.queues[queue].reserved()?;
                frame.get(frame.len().checked_sub(len)?..)
            }
            Reserved::Looped { .. } => Some(self.loopback.reserved()),
        }
    }

    /// Queues the reserved packet, if there is one.
    pub(super) fn commit_reserved(&mut self) {
        let len = match std::mem::take(&mut self.reserved) {
            Reserved::Nothing => {
                cold_path();
                return;
            }
            Reserved::Frame { queue, len } => {
                // The next `flush` reports a corrupt ring.
                if let Err(_corrupt) = self.queues[queue].commit() {
                    cold_path();
                }
                len
            }
            Reserved::Special { queue, len } => {
                cold_path();
                self.commit_special(queue);
                len
            }
            Reserved::Looped { len } => {
                cold_path();
                self.commit_looped();
                len
            }
        };
        self.next_id = self.next_id.wrapping_add(1);
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += len as u64;
    }

    /// Queues the reserved packet and sends it at once, after those already in its queue. A packet
    /// that needs [`Special`] work leaves at `flush`.
    pub(super) fn commit_and_send(&mut self) {
        let queue = match self.reserved {
            Reserved::Frame { queue, .. } => Some(queue),
            _ => None,
        };
        self.commit_reserved();
        if let Some(queue) = queue {
            // The next `flush` hits the same error and reports it.
            if let Err(_reported_by_flush) = self.queues[queue].send() {
                cold_path();
            }
        }
    }

    fn commit_looped(&mut self) {
        let Some(meta) = self.special.copy.take() else {
            return;
        };
        if self.loopback.commit(meta) {
            self.counters.tx_looped += 1;
        } else {
            self.counters.tx_loop_full += 1;
        }
    }

    fn commit_special(&mut self, queue: usize) {
        let Special {
            header_len,
            waits_for,
            copy,
            checksum,
        } = std::mem::take(&mut self.special);
        self.loop_back_copy(queue, header_len, copy);
        self.end_checksum(queue, checksum);
        match waits_for {
            Some(hop) => self.hold_for(queue, hop),
            None => drop(self.queues[queue].commit()),
        }
    }

    /// Loops back a copy of a packet whose destination is a group that this port has joined.
    fn loop_back_copy(&mut self, queue: usize, header_len: usize, copy: Option<RxMeta>) {
        let Some(meta) = copy else { return };
        let Some(frame) = self.queues[queue].reserved() else {
            return;
        };
        if self.loopback.copy(meta, &frame[header_len..]) {
            self.counters.tx_looped += 1;
        } else {
            self.counters.tx_loop_full += 1;
        }
    }

    /// Completes the checksum, once the frame is written.
    fn end_checksum(&mut self, queue: usize, checksum: Option<ChecksumAt>) {
        let Some(at) = checksum else { return };
        if let Some(frame) = self.queues[queue].reserved() {
            Template::end_checksum(frame, at);
            self.counters.tx_checksums_here += 1;
        }
    }

    /// Holds the frame until its neighbour answers.
    fn hold_for(&mut self, queue: usize, hop: IpAddr) {
        let Some(held) = self.queues[queue].hold() else {
            return;
        };
        self.counters.tx_waited += 1;
        let now = self.clock.now();
        if let Some((queue, dropped)) = self.waiting.hold(hop, now, (queue, held)) {
            self.queues[queue].drop_held(dropped);
        }
    }

    /// Sends the frames whose neighbour has answered, and drops those whose neighbour did not.
    pub(super) fn release_waiting(&mut self, now: Instant) -> Result<(), PortError> {
        self.reserved = Reserved::Nothing;
        let (net, queues) = (&self.net, &mut self.queues);
        let mut failed = None;
        self.waiting.release(
            now,
            |hop| net.resolution(hop),
            |(queue, held), outcome| match outcome {
                Outcome::Send(mac) => {
                    let sent =
                        queues[queue].commit_held(held, |frame| Template::readdress(frame, mac));
                    failed = sent.err().map(|error| (queue, error)).or(failed.take());
                }
                Outcome::Drop(_) => queues[queue].drop_held(held),
            },
        );
        match failed {
            Some((queue, error)) => Err(self.queue_error(queue, error)),
            None => self.flush_all(),
        }
    }

    fn flush_all(&mut self) -> Result<(), PortError> {
        self.flush().map(drop)
    }

    fn unsendable(&mut self) -> ReserveError {
        self.counters.tx_unsendable += 1;
        ReserveError::Unsendable
    }
}

/// The UDP source port; RoCE v1 has none.
fn src_port(version: RoceVersion, flow: Flow, secret: u16) -> u16 {
    match version {
        RoceVersion::V1 => 0,
        RoceVersion::V2 => flow.source_port(secret),
    }
}

/// The path of a packet.
pub(super) fn path_of(to: &TxMeta) -> PathKey {
    PathKey {
        src: to.src,
        dst: to.dst,
        version: to.version,
    }
}

/// The receive metadata of a packet or copy that is looped back.
fn looped_meta(to: &TxMeta, src_port: u16, ip: IpCovered) -> RxMeta {
    RxMeta {
        src: to.src,
        dst: to.dst,
        src_port,
        traffic_class: to.traffic_class,
        ip,
    }
}

/// The queue for a destination. All packets to one destination use one queue, and so stay in order.
fn queue_of(dst: IpAddr, queues: usize) -> usize {
    if queues == 1 {
        return 0;
    }
    let sum: usize = match dst {
        IpAddr::V4(dst) => dst.octets().into_iter().map(usize::from).sum(),
        IpAddr::V6(dst) => dst.octets().into_iter().map(usize::from).sum(),
    };
    sum % queues
}
