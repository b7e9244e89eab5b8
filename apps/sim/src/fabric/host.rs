//! A host: a NIC, its receive ring, and its port.

use super::events::Event;
use super::link::{Common, Egress};
use super::names::Ip;
use super::{EgressId, HostId, PacketId};
use roce_port::{SentMemory, SentRef};
use roce_stack::{
    Acknowledged, Duration, Flow, Instant, IpCovered, Nic, NicConfig, ReserveError, RoceVersion,
    RxMeta, Sequenced, Transmit, TxMeta, TxSlot,
};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

/// The parameters of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// The IP header of its packets; the same for all hosts of a fabric.
    pub ip: Ip,
    /// The seed of the NIC's random numbers.
    pub seed: u64,
    /// The most bytes that one QP keeps in flight.
    pub window_bytes: usize,
    /// How long a packet waits until the host polls; zero for no wait. The host receives all
    /// packets that arrive meanwhile together.
    pub poll_every: Duration,
    /// The capacity of the receive ring, in packets.
    pub ring_packets: usize,
    /// Bytes that its port takes from the NIC ahead of the link; by default the link's queue size.
    /// Congestion control can't affect packets in the port.
    pub port_bytes: Option<usize>,
    /// Whether the host is outside of the fabric: its frames come by [`super::Fabric::send`], and go
    /// by [`super::Fabric::take`]. Its NIC is not used.
    pub outside: bool,
    /// Whether its port sends without a copy: a packet that arrives after its acknowledgement was
    /// reported has other bytes, unless receivers check half of the ICRC only.
    pub keeps: bool,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            ip: Ip::V4,
            seed: 1,
            window_bytes: 256 << 10,
            poll_every: Duration::ZERO,
            ring_packets: 4096,
            port_bytes: None,
            outside: false,
            keeps: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) spec: HostSpec,
    pub(super) address: IpAddr,
    pub(super) nic: Nic,
    /// Its cable; a host has only one.
    pub(super) egress: Option<EgressId>,
    pub(super) ring: VecDeque<PacketId>,
    /// The multicast groups that its port has joined.
    pub(super) groups: BTreeSet<IpAddr>,
    /// Whether it is stopped.
    pub(super) paused: bool,
    /// When it will be woken, if scheduled.
    pub(super) wake: Option<Instant>,
    /// The memory of its packets, if it keeps any.
    sent: SentMemory,
    restarts: u64,
    next_id: u16,
}

impl Host {
    pub(super) fn new(spec: HostSpec, index: usize, max_packet_bytes: usize) -> Self {
        Self {
            spec,
            address: spec.ip.address(index + 1),
            nic: new_nic(&spec, 0, max_packet_bytes),
            egress: None,
            ring: VecDeque::new(),
            groups: BTreeSet::new(),
            paused: false,
            wake: None,
            sent: match spec.ip {
                Ip::V4Hidden => SentMemory::given_away(),
                _ => SentMemory::default(),
            },
            restarts: 0,
            next_id: 0xfff0,
        }
    }

    /// Replaces the NIC with a new one without state. With `same_seed`, it draws the same random
    /// numbers as the last one.
    pub(super) fn restart(&mut self, max_packet_bytes: usize, same_seed: bool) {
        self.restarts += u64::from(!same_seed);
        self.nic = new_nic(&self.spec, self.restarts, max_packet_bytes);
        self.wake = None;
        self.groups.clear();
        self.sent.forget();
    }

    /// Called when a packet whose memory this host keeps arrives at its destination.
    pub(super) fn deliver(&mut self, sent: SentRef, bytes: &mut [u8]) {
        self.sent.arrive(sent, bytes);
    }

    /// The metadata that the receiving port reports for a packet.
    pub(super) fn received_meta(&self, meta: &RxMeta) -> RxMeta {
        let ip = match (self.spec.ip, meta.ip) {
            (_, IpCovered::Grh) => IpCovered::Grh,
            (Ip::V4Hidden, _) => IpCovered::V4Hidden,
            (_, ip) => ip,
        };
        RxMeta { ip, ..*meta }
    }

    /// Lets the NIC send as much as it can.
    pub(super) fn transmit(&mut self, id: HostId, common: &mut Common, egress: &mut Egress) {
        let now = common.now;
        let mut port = HostPort {
            id,
            ip: self.spec.ip,
            groups: &self.groups,
            sent: self.spec.keeps.then_some(&mut self.sent),
            next_id: &mut self.next_id,
            common,
            egress,
            reserved: None,
            full: false,
        };
        while self.nic.wants_to_send() && !port.full {
            self.nic.transmit(now, &mut port);
        }
        port.release_reserved();
    }
}

fn new_nic(spec: &HostSpec, restarts: u64, max_packet_bytes: usize) -> Nic {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&spec.seed.to_le_bytes());
    seed[8..16].copy_from_slice(&restarts.to_le_bytes());
    Nic::new(&NicConfig {
        seed,
        max_packet_bytes,
        window_bytes: spec.window_bytes,
    })
}

/// A packet that was reserved, and its place if the port keeps it.
struct Reserved {
    packet: PacketId,
    kept: Option<(Flow, Sequenced)>,
}

/// The transmit side of a port: committed packets go to the link's queue.
struct HostPort<'a> {
    id: HostId,
    ip: Ip,
    groups: &'a BTreeSet<IpAddr>,
    /// Where the port keeps packets, if it does.
    sent: Option<&'a mut SentMemory>,
    next_id: &'a mut u16,
    common: &'a mut Common,
    egress: &'a mut Egress,
    reserved: Option<Reserved>,
    full: bool,
}

impl HostPort<'_> {
    /// Delivers a packet to a group to the members on this host, as ports do.
    fn loop_back(&mut self, packet: PacketId) {
        let to = self.common.pool.get(packet).meta.dst;
        if self.groups.contains(&to) {
            let copy = self.common.pool.duplicate(packet);
            let event = Event::Loop(self.id, copy);
            self.common.events.push(self.common.now, event);
        }
    }

    fn release_reserved(&mut self) {
        if let Some(Reserved { packet, .. }) = self.reserved.take() {
            self.common.pool.release(packet);
        }
    }
}

const SRC_PORT: u16 = 0xc123;

impl Transmit for HostPort<'_> {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.release_reserved();
        if len > self.egress.spec.max_packet_bytes {
            return Err(ReserveError::Unsendable);
        }
        if !self.egress.has_space(len, to.traffic_class) {
            self.full = true;
            self.egress.note_waiting_host(&mut self.common.events);
            return Err(ReserveError::Full);
        }
        let ip = match (to.version, self.ip) {
            (RoceVersion::V1, _) => IpCovered::Grh,
            (_, Ip::V6) => IpCovered::V6,
            (_, Ip::V4 | Ip::V4Hidden) => {
                *self.next_id = self.next_id.wrapping_add(1);
                IpCovered::V4 {
                    id: *self.next_id,
                    flags_fragment: 0x4000,
                }
            }
        };
        let id = self.common.pool.allocate(len);
        let kept = sequenced.filter(|_| self.sent.is_some());
        self.reserved = Some(Reserved {
            packet: id,
            kept: kept.map(|sequenced| (flow, sequenced)),
        });
        let packet = self.common.pool.get_mut(id);
        packet.meta = RxMeta {
            src: to.src,
            dst: to.dst,
            // RoCE v1 has no UDP header.
            src_port: match to.version {
                RoceVersion::V1 => 0,
                RoceVersion::V2 => SRC_PORT,
            },
            traffic_class: to.traffic_class,
            ip,
        };
        Ok(TxSlot {
            bytes: packet.bytes_mut(),
            src_port: SRC_PORT,
            ip,
            kept: kept.is_some(),
        })
    }

    fn commit(&mut self) {
        if let Some(Reserved { packet, kept }) = self.reserved.take() {
            if let (Some(sent), Some((flow, sequenced))) = (&mut self.sent, kept) {
                let committed = self.common.pool.get_mut(packet);
                let memory = sent.keep(flow, sequenced, committed.bytes());
                committed.sent = Some((self.id, memory));
            }
            self.common.counters.sent += 1;
            self.loop_back(packet);
            self.egress.push(self.common, packet);
            self.egress.start(self.common);
        }
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        if let Some(sent) = &mut self.sent {
            sent.acknowledged(flow, which);
        }
    }
}
