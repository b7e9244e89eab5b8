//! Lanes as a layer around a port.

use crate::doorbell;
use crate::inbox::{Inbox, Incoming};
use crate::ring::{Label, MAX_PACKET_BYTES, NoRoom, Sender};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_port::{Accepted, Layer, NotAccepted, Port, PortError, PortFd, RxSink};
use roce_stack::{
    Flow, IpCovered, QpnRange, ReserveError, RoceVersion, RxMeta, Sequenced, TxMeta, TxSlot,
};
use roce_wire::Qpn;
use std::collections::{HashMap, HashSet};
use std::hint::cold_path;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause before another offer to a device that nobody has found, at first; it doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// The number of packets to such a device between two looks at the clock.
const SKIPS: u32 = 15;
/// The longest such pause.
const LAST_RETRY: Duration = Duration::from_secs(1);
/// The time for which a full lane keeps its packets back. Then its receiver counts as stopped, and packets
/// are lost, as a socket's are.
const PATIENCE: Duration = Duration::from_millis(100);
/// The number of reservations after which a sender looks whether the receiver is gone.
const LOOK_INTERVAL: u32 = 4096;
/// The most QPs that a lane remembers.
const MOST_QPS: usize = 4096;
/// The most lanes that lead away from a device.
const MAX_LANES: usize = 128;
/// While packets come by lanes and none by the port inside, that port is asked once in this time.
const PORT_INTERVAL: Duration = Duration::from_micros(10);
/// The number of calls after which the clock is read for that.
const CLOCK_INTERVAL: u32 = 8;
/// "Don't fragment", as all packets of RoCE.
const DONT_FRAGMENT: u16 = 0x4000;

/// How a device uses lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneConfig {
    /// Whether packets carry an ICRC, in both directions: something looks at them on the way, or damages
    /// them.
    pub with_icrc: bool,
    /// The secret in source ports; see [`Flow::source_port`].
    pub source_port_secret: u16,
}

/// The lanes of an open device: a layer around the port that sends what takes no lane.
#[derive(Debug)]
pub struct Lanes {
    config: LaneConfig,
    inbox: Arc<Inbox>,
    /// Lanes to other devices; `None` for a free place.
    outgoing: Vec<Option<Outgoing>>,
    /// The way of packets to each device.
    ways: HashMap<Peer, Way>,
    /// The last entry of `ways` that was used.
    last: Option<(Peer, Way)>,
    /// The number of packets to a device that nobody has found until the clock is read again.
    skips: u32,
    incoming: Vec<Incoming>,
    /// The lane to receive from first.
    next: usize,
    reserved: Reserved,
    /// The number of packets that wait for a flush.
    hidden: usize,
    /// The packets of a run that is lost are written here, and a packet that was received lies here.
    room: Vec<u8>,
    /// When the port inside has to be asked again.
    ask_port_at: Option<Instant>,
    /// The number of calls since the clock was read that have not asked it.
    not_asked: u32,
    /// Whether somebody has waited for descriptors, so that one of them may be the port's.
    has_slept: AtomicBool,
    counters: LaneCounters,
}

#[derive(Debug, Default)]
struct LaneCounters {
    tx_packets: u64,
    tx_bytes: u64,
    rx_packets: u64,
    rx_bytes: u64,
    opened: u64,
    accepted: u64,
    wake_ups: u64,
    full: u64,
    stalled: u64,
    broken: u64,
    silent: u64,
    other_user: u64,
    no_room: u64,
}

/// A device that packets are sent to, and the address that they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Peer {
    src: IpAddr,
    dst: IpAddr,
    part: QpnRange,
}

/// How packets get to a device.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By the lane at this place.
    Lane(usize),
    /// By the port inside.
    Port,
    /// By the port inside, until somebody is there.
    Nobody { until: Instant, pause: Duration },
}

/// A lane to another device.
#[derive(Debug)]
struct Outgoing {
    ring: Sender,
    peer: Peer,
    connection: OwnedFd,
    doorbell: OwnedFd,
    /// Whether packets were committed since the last flush.
    is_dirty: bool,
    /// Since when the ring has had no room.
    full_since: Option<Instant>,
    reservations: u32,
    /// The QP that the last packet was for.
    last_qp: Option<Qpn>,
    /// All such QPs, or some of them.
    qps: HashSet<u32>,
}

impl Outgoing {
    /// Whether the receiver is gone.
    fn has_ended(&self) -> bool {
        if self.ring.is_closed() {
            return true;
        }
        let mut fds = [PollFd::new(self.connection.as_fd(), PollFlags::POLLIN)];
        let polled = poll(&mut fds, PollTimeout::ZERO);
        // The receiver sends nothing, so anything is its end.
        polled.is_ok_and(|ready| ready > 0)
    }

    /// Whether to look whether the receiver is gone, before a packet to `qp`. Another process may have its QPNs
    /// now, but draws new ones.
    #[inline]
    fn must_look(&mut self, qp: Qpn, is_retransmission: bool) -> bool {
        self.reservations += 1;
        let is_due = self.reservations >= LOOK_INTERVAL || is_retransmission;
        if is_due || self.ring.is_closed() {
            self.reservations = 0;
            return true;
        }
        if self.last_qp == Some(qp) {
            return false;
        }
        self.last_qp = Some(qp);
        if self.qps.len() >= MOST_QPS {
            self.qps.clear();
        }
        self.qps.insert(qp.get())
    }

    /// Shows the receiver what was committed, and wakes it up if it sleeps. Returns whether it slept.
    #[inline]
    fn show(&mut self) -> bool {
        if !std::mem::take(&mut self.is_dirty) {
            return false;
        }
        self.ring.show();
        let slept = self.ring.must_wake_receiver();
        if slept {
            doorbell::ring(self.doorbell.as_fd());
        }
        slept
    }
}

/// Where the last reservation lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserved {
    Port,
    Lane(usize),
    /// Nowhere: the packet is lost.
    Lost,
}

impl Lanes {
    /// A device without lanes yet. Hand [`Lanes::inbox`] to the port inside.
    ///
    /// # Errors
    /// If the system refuses a descriptor.
    pub fn new(config: LaneConfig) -> io::Result<Self> {
        Ok(Self {
            config,
            inbox: Arc::new(Inbox::new(config.with_icrc)?),
            outgoing: Vec::new(),
            ways: HashMap::new(),
            last: None,
            skips: 0,
            incoming: Vec::new(),
            next: 0,
            reserved: Reserved::Port,
            hidden: 0,
            room: vec![0; MAX_PACKET_BYTES],
            ask_port_at: None,
            not_asked: 0,
            has_slept: AtomicBool::new(true),
            counters: LaneCounters::default(),
        })
    }

    /// Where offers of other devices go.
    pub fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// The lane for a packet, if it takes one.
    #[inline]
    fn lane_to(
        &mut self,
        port: &mut impl Port,
        to: &TxMeta,
        qpn: Qpn,
        is_retransmission: bool,
    ) -> Option<usize> {
        // Management datagrams are for several processes.
        if qpn.get() <= Qpn::QP1.get() {
            return None;
        }
        let lane = self.known_lane_to(port, to, qpn)?;
        let out = self.outgoing[lane].as_mut()?;
        if !out.must_look(qpn, is_retransmission) {
            return Some(lane);
        }
        cold_path();
        if !out.has_ended() {
            return Some(lane);
        }
        self.close(lane);
        self.known_lane_to(port, to, qpn)
    }

    #[inline]
    fn known_lane_to(&mut self, port: &mut impl Port, to: &TxMeta, qpn: Qpn) -> Option<usize> {
        let peer = Peer {
            src: to.src,
            dst: to.dst,
            part: QpnRange::of(qpn),
        };
        match &self.last {
            Some((last, Way::Lane(lane))) if *last == peer => Some(*lane),
            Some((last, Way::Port)) if *last == peer => None,
            Some((last, Way::Nobody { .. })) if *last == peer && self.skips > 0 => {
                self.skips -= 1;
                None
            }
            _ => {
                cold_path();
                self.find_way(port, peer, to.version)
            }
        }
    }

    fn find_way(
        &mut self,
        port: &mut impl Port,
        peer: Peer,
        version: RoceVersion,
    ) -> Option<usize> {
        let can_take_lanes = version == RoceVersion::V2
            && !peer.dst.is_multicast()
            && peer.src.is_ipv6() == peer.dst.is_ipv6();
        if !can_take_lanes {
            return None;
        }
        let pause = match self.ways.get(&peer) {
            None => FIRST_RETRY,
            Some(&known @ Way::Nobody { until, pause }) => {
                if Instant::now() < until {
                    self.last = Some((peer, known));
                    self.skips = SKIPS;
                    return None;
                }
                (pause * 2).min(LAST_RETRY)
            }
            Some(&known) => {
                self.last = Some((peer, known));
                return lane_of(known);
            }
        };
        let way = match self.open(port, peer) {
            Ok(lane) => Way::Lane(lane),
            Err(NotAccepted::Nobody) => Way::Nobody {
                until: Instant::now() + pause,
                pause,
            },
            Err(why) => {
                let counter = match why {
                    NotAccepted::OtherUser => &mut self.counters.other_user,
                    NotAccepted::Silent => &mut self.counters.silent,
                    _ => &mut self.counters.no_room,
                };
                *counter += 1;
                Way::Port
            }
        };
        self.ways.insert(peer, way);
        self.last = Some((peer, way));
        lane_of(way)
    }

    /// Opens a lane. Returns its place.
    fn open(&mut self, port: &mut impl Port, peer: Peer) -> Result<usize, NotAccepted> {
        let neighbours = port.neighbours().ok_or(NotAccepted::Nobody)?;
        let place = match self.outgoing.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.outgoing.len() < MAX_LANES => {
                self.outgoing.push(None);
                self.outgoing.len() - 1
            }
            None => return Err(NotAccepted::NoRoom),
        };
        let created = Sender::create(peer.src);
        let (mut ring, file) = created.map_err(|_| NotAccepted::NoRoom)?;
        let Accepted {
            connection,
            descriptor: doorbell,
        } = neighbours.offer(peer.dst, peer.part, file.as_fd())?;
        ring.note_accepted();
        self.outgoing[place] = Some(Outgoing {
            ring,
            peer,
            connection,
            doorbell,
            is_dirty: false,
            full_since: None,
            reservations: 0,
            last_qp: None,
            qps: HashSet::new(),
        });
        self.counters.opened += 1;
        Ok(place)
    }

    /// Gives up a lane whose receiver is gone. Packets to another device with the same numbers may find
    /// another way.
    fn close(&mut self, lane: usize) {
        if let Some(closed) = self.outgoing[lane].take() {
            self.ways.remove(&closed.peer);
        }
        self.last = None;
    }

    /// Notes that a lane has no room. Returns whether packets are lost now.
    fn note_full(&mut self, lane: usize) -> bool {
        let Some(full) = &mut self.outgoing[lane] else {
            return true;
        };
        self.counters.full += 1;
        // It may sleep although packets wait that no flush has told it of.
        self.counters.wake_ups += u64::from(full.show());
        let now = Instant::now();
        let since = *full.full_since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        if full.has_ended() {
            self.close(lane);
            return true;
        }
        waited > PATIENCE
    }

    /// Lends a buffer for a packet that is lost.
    fn lose(&mut self, src_port: u16, len: usize) -> TxSlot<'_> {
        self.counters.stalled += 1;
        self.reserved = Reserved::Lost;
        TxSlot {
            bytes: &mut self.room[..len.min(MAX_PACKET_BYTES)],
            src_port,
            ip: IpCovered::OnHost,
            kept: false,
        }
    }

    /// Takes packets from lanes.
    fn take(&mut self, budget: usize, sink: &mut dyn RxSink) -> usize {
        let offered = self.inbox.pick_up();
        if !offered.is_empty() {
            cold_path();
            self.counters.accepted += offered.len() as u64;
            self.incoming.extend(offered);
        }
        let count = self.incoming.len();
        let (mut packets, mut total) = (0, 0);
        for _ in 0..count {
            if packets >= budget {
                break;
            }
            let at = self.next % self.incoming.len().max(1);
            self.next = at + 1;
            let lane = &mut self.incoming[at];
            let (src, dst) = (lane.ring.source(), lane.at);
            let taken = lane
                .ring
                .take(budget - packets, &mut self.room, |label, index, bytes| {
                    let meta = RxMeta {
                        src,
                        dst,
                        src_port: label.src_port,
                        traffic_class: label.traffic_class,
                        ip: covered(label.has_icrc, src, index),
                    };
                    total += bytes.len() as u64;
                    sink.packet(&meta, bytes);
                });
            match taken {
                Ok(0) if lane.has_ended.load(Ordering::Acquire) && lane.ring.is_empty() => {
                    cold_path();
                    self.incoming.swap_remove(at);
                    if self.incoming.is_empty() {
                        break;
                    }
                }
                Ok(taken) => packets += taken,
                Err(_) => {
                    cold_path();
                    self.counters.broken += 1;
                    self.incoming.swap_remove(at);
                    if self.incoming.is_empty() {
                        break;
                    }
                }
            }
        }
        self.counters.rx_packets += packets as u64;
        self.counters.rx_bytes += total;
        packets
    }

    /// Whether the port inside may have packets that are worth a system call.
    fn must_ask_port(&mut self) -> bool {
        // Somebody who has waited may have been woken up by the port.
        if self.incoming.is_empty() || self.has_slept.load(Ordering::Relaxed) {
            self.has_slept.store(false, Ordering::Relaxed);
            return true;
        }
        let Some(at) = self.ask_port_at else {
            return true;
        };
        self.not_asked += 1;
        if self.not_asked < CLOCK_INTERVAL {
            return false;
        }
        self.not_asked = 0;
        Instant::now() >= at
    }
}

fn lane_of(way: Way) -> Option<usize> {
    match way {
        Way::Lane(lane) => Some(lane),
        Way::Port | Way::Nobody { .. } => None,
    }
}

/// The fields of the IP header that the ICRC of a run's packet at `index` covers.
#[inline]
fn covered(has_icrc: bool, src: IpAddr, index: u16) -> IpCovered {
    match (has_icrc, src) {
        (false, _) => IpCovered::OnHost,
        (true, IpAddr::V4(_)) => IpCovered::V4 {
            id: index,
            flags_fragment: DONT_FRAGMENT,
        },
        (true, IpAddr::V6(_)) => IpCovered::V6,
    }
}

impl Layer for Lanes {
    #[inline]
    fn reserve<'a>(
        &'a mut self,
        port: &'a mut impl Port,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'a>, ReserveError> {
        let is_retransmission = sequenced.is_some_and(|packet| packet.is_retransmission);
        let Some(lane) = self.lane_to(port, to, flow.to_qp, is_retransmission) else {
            self.reserved = Reserved::Port;
            return port.reserve_run(to, flow, sequenced, len, count);
        };
        if len > port.capabilities().max_packet_bytes.min(MAX_PACKET_BYTES) {
            cold_path();
            return Err(ReserveError::Unsendable);
        }
        let src_port = flow.source_port(self.config.source_port_secret);
        let Some(out) = &mut self.outgoing[lane] else {
            unreachable!("a way leads by a lane that exists")
        };
        let label = Label {
            src_port,
            traffic_class: to.traffic_class,
            has_icrc: self.config.with_icrc || out.ring.wants_icrc(),
        };
        match out.ring.reserve(label, len, count) {
            Ok(()) => {}
            Err(NoRoom::Full) => {
                cold_path();
                return match self.note_full(lane) {
                    true => Ok(self.lose(src_port, len)),
                    false => Err(ReserveError::Full),
                };
            }
            Err(NoRoom::Broken) => {
                cold_path();
                self.counters.broken += 1;
                self.close(lane);
                return Ok(self.lose(src_port, len));
            }
        }
        self.reserved = Reserved::Lane(lane);
        let Some(out) = &mut self.outgoing[lane] else {
            unreachable!("as above")
        };
        out.full_since = None;
        Ok(TxSlot {
            bytes: out.ring.room(),
            src_port,
            ip: covered(label.has_icrc, to.src, 0),
            kept: false,
        })
    }

    #[inline]
    fn commit(&mut self, port: &mut impl Port) {
        match self.reserved {
            Reserved::Port => port.commit(),
            Reserved::Lane(lane) => {
                if let Some(out) = &mut self.outgoing[lane] {
                    self.counters.tx_bytes += out.ring.room().len() as u64;
                    let packets = out.ring.commit();
                    self.counters.tx_packets += packets as u64;
                    self.hidden += packets;
                    out.is_dirty = true;
                }
            }
            Reserved::Lost => {}
        }
        self.reserved = Reserved::Lost;
    }

    fn receive(
        &mut self,
        port: &mut impl Port,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, PortError> {
        let packets = self.take(budget, sink);
        if !self.must_ask_port() {
            return Ok(packets);
        }
        let more = port.receive(budget.saturating_sub(packets).max(1), sink)?;
        self.ask_port_at = match more {
            0 => Some(Instant::now() + PORT_INTERVAL),
            _ => None,
        };
        Ok(packets + more)
    }

    fn flush(&mut self, port: &mut impl Port) -> Result<bool, PortError> {
        if std::mem::take(&mut self.hidden) > 0 {
            for out in self.outgoing.iter_mut().flatten() {
                self.counters.wake_ups += u64::from(out.show());
            }
        }
        match port.queued() {
            0 => Ok(true),
            _ => port.flush(),
        }
    }

    fn queued(&self, port: &impl Port) -> usize {
        self.hidden + port.queued()
    }

    fn packet_fds<'a>(&'a self, port: &'a impl Port) -> Vec<PortFd<'a>> {
        let doorbell = self.inbox.doorbell();
        doorbell.silence();
        self.has_slept.store(true, Ordering::Relaxed);
        // Every lane's sender must know, so this looks at all.
        let mut may_sleep = true;
        for lane in &self.incoming {
            may_sleep &= lane.ring.fall_asleep();
        }
        if !may_sleep || self.inbox.has_any() {
            doorbell.ring();
        }
        let mut fds = port.packet_fds();
        fds.push(PortFd {
            fd: doorbell.as_fd(),
            wants_write: false,
        });
        fds
    }

    fn lane_packets(&self) -> u64 {
        self.counters.tx_packets + self.counters.rx_packets
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        let of = &self.counters;
        vec![
            ("tx_packets", of.tx_packets),
            ("rx_packets", of.rx_packets),
            ("tx_bytes", of.tx_bytes),
            ("rx_bytes", of.rx_bytes),
            ("tx_lane_packets", of.tx_packets),
            ("rx_lane_packets", of.rx_packets),
            ("lanes_opened", of.opened),
            ("lanes_accepted", of.accepted),
            ("lane_wake_ups", of.wake_ups),
            ("tx_lane_full", of.full),
            ("tx_lane_stalled", of.stalled),
            ("lanes_broken", of.broken),
            ("lanes_silent", of.silent),
            ("lanes_other_user", of.other_user),
            ("lanes_no_room", of.no_room),
        ]
    }
}
