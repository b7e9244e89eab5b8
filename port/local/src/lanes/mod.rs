//! Lanes as a layer around a port.

mod counters;
mod destination;
mod ways;

use crate::inbox::{Inbox, Incoming};
use crate::ring::{Label, MAX_PACKET_BYTES, NoRoom};
use counters::LaneCounters;
use destination::{Destination, Lane, Peer};
use nix::sys::resource::{Resource, getrlimit};
use roce_port::{Layer, Port, PortError, PortFd, RxSink};
use roce_stack as stack;
use roce_stack::{Flow, IpCovered, ReserveError, RxMeta, Sequenced, TxMeta, TxSlot};
use std::collections::HashMap;
use std::hint::cold_path;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use ways::{Route, Way};

/// A device with lanes asks the port inside more rarely the longer that port has received nothing, since an
/// empty look costs about a microsecond: once in this part of its silence, and at least once in
/// [`LONGEST_INTERVAL`].
const PART_OF_SILENCE: u32 = 16;
const LONGEST_INTERVAL: stack::Duration = stack::Duration::from_micros(50);
/// The most turns that take packets from the port inside before those of a new lane.
const MOST_TURNS: usize = 64;
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
    /// The most lanes that lead away from the device.
    most: usize,
    /// Other devices; `None` for a free place.
    destinations: Vec<Option<Destination>>,
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
    /// Whether the driver has said that nothing may stay behind.
    is_urgent: bool,
    /// The time, if the driver gives it.
    now: Option<stack::Instant>,
    /// When the port inside has to be asked again.
    ask_port_at: Option<stack::Instant>,
    /// When the port inside has received packets last.
    port_received_at: stack::Instant,
    /// Whether a thread has waited for descriptors since, so that one of them may be the port's.
    has_slept: AtomicBool,
    counters: LaneCounters,
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
        let most = most_lanes();
        Ok(Self {
            config,
            inbox: Arc::new(Inbox::new(config.with_icrc, most)?),
            most,
            destinations: Vec::new(),
            ways: HashMap::new(),
            last: None,
            skips: 0,
            incoming: Vec::new(),
            next: 0,
            reserved: Reserved::Port,
            hidden: 0,
            room: vec![0; MAX_PACKET_BYTES],
            is_urgent: false,
            now: None,
            ask_port_at: None,
            port_received_at: stack::Instant::ZERO,
            has_slept: AtomicBool::new(true),
            counters: LaneCounters::default(),
        })
    }

    #[cfg(test)]
    pub(crate) fn known_ways(&self) -> usize {
        self.ways.len()
    }

    /// Where offers of other devices go.
    pub fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    #[inline]
    fn lane_at(&mut self, place: usize) -> Option<&mut Lane> {
        self.destinations[place].as_mut()?.link.lane_mut()
    }

    /// Lends a buffer for a packet that is lost.
    fn lose(&mut self, src: IpAddr, src_port: u16, len: usize) -> TxSlot<'_> {
        self.counters.stalled += 1;
        self.reserved = Reserved::Lost;
        TxSlot {
            bytes: &mut self.room[..len.min(MAX_PACKET_BYTES)],
            src_port,
            ip: covered(self.config.with_icrc, src, 0),
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
        if self.has_slept.load(Ordering::Relaxed) {
            self.has_slept.store(false, Ordering::Relaxed);
            return true;
        }
        match (self.now, self.ask_port_at) {
            (Some(now), Some(at)) => now >= at,
            _ => true,
        }
    }
}

/// The most lanes of a device in each direction, so that they take at most a quarter of the descriptors that
/// the process may have: four for each device that it sends to and receives from. 128 lanes have 64 MiB of memory,
/// if all of it is used.
fn most_lanes() -> usize {
    const MOST: usize = 128;
    const PART: u64 = 16;
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft / PART);
    usize::try_from(soft).map_or(MOST, |limit| limit.min(MOST))
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
        let place = match self.route(port, to, flow.to_qp, is_retransmission) {
            Route::Lane(place) => place,
            Route::Wait => {
                cold_path();
                self.reserved = Reserved::Lost;
                return Err(ReserveError::Full);
            }
            Route::Port => {
                self.reserved = Reserved::Port;
                return port.reserve_run(to, flow, sequenced, len, count);
            }
        };
        if len > port.capabilities().max_packet_bytes.min(MAX_PACKET_BYTES) {
            cold_path();
            return Err(ReserveError::Unsendable);
        }
        let src_port = flow.source_port(self.config.source_port_secret);
        let with_icrc = self.config.with_icrc;
        let reserved = self.lane_at(place).map(|lane| {
            let label = Label {
                src_port,
                traffic_class: to.traffic_class,
                has_icrc: with_icrc || lane.ring.wants_icrc(),
            };
            lane.ring
                .reserve(label, len, count)
                .map(|()| label.has_icrc)
        });
        let has_icrc = match reserved {
            Some(Ok(has_icrc)) => has_icrc,
            Some(Err(NoRoom::Full)) => {
                cold_path();
                return match self.note_full(place) {
                    true => Ok(self.lose(to.src, src_port, len)),
                    false => {
                        self.reserved = Reserved::Lost;
                        Err(ReserveError::Full)
                    }
                };
            }
            Some(Err(NoRoom::Broken)) | None => {
                cold_path();
                self.counters.broken += 1;
                self.close(place);
                return Ok(self.lose(to.src, src_port, len));
            }
        };
        self.reserved = Reserved::Lane(place);
        let bytes = match self.lane_at(place) {
            Some(lane) => {
                lane.full_since = None;
                lane.ring.room()
            }
            None => &mut [],
        };
        Ok(TxSlot {
            bytes,
            src_port,
            ip: covered(has_icrc, to.src, 0),
            kept: false,
        })
    }

    fn set_addresses(&mut self, port: &mut impl Port, addresses: Vec<IpAddr>) {
        for place in 0..self.destinations.len() {
            let destination = self.destinations[place].as_ref();
            if destination.is_some_and(|of| !addresses.contains(&of.peer.src)) {
                self.close(place);
            }
        }
        port.set_addresses(addresses);
    }

    fn has_room_for_others(&self, port: &impl Port) -> bool {
        self.reserved != Reserved::Port || port.has_room_for_others()
    }

    fn reserved<'a>(&'a mut self, port: &'a mut impl Port) -> &'a [u8] {
        match self.reserved {
            Reserved::Port => port.reserved(),
            Reserved::Lane(place) => match self.lane_at(place) {
                Some(lane) => lane.ring.room(),
                None => &[],
            },
            Reserved::Lost => &[],
        }
    }

    #[inline]
    fn commit(&mut self, port: &mut impl Port) {
        match self.reserved {
            Reserved::Port => port.commit(),
            Reserved::Lane(place) => {
                if let Some(lane) = self.lane_at(place) {
                    let bytes = lane.ring.room().len() as u64;
                    let packets = lane.ring.commit();
                    lane.is_dirty = true;
                    self.counters.tx_bytes += bytes;
                    self.counters.tx_packets += packets as u64;
                    self.hidden += packets;
                }
            }
            Reserved::Lost => {}
        }
        self.reserved = Reserved::Lost;
    }

    fn note_time(&mut self, port: &mut impl Port, now: Option<stack::Instant>) {
        self.now = now;
        self.is_urgent = now.is_none();
        port.note_time(now);
    }

    fn receive(
        &mut self,
        port: &mut impl Port,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, PortError> {
        if self.incoming.is_empty() && !self.inbox.has_any() {
            return port.receive(budget, sink);
        }
        if self.inbox.has_any() {
            cold_path();
            // Packets that have come by the port were sent before those in a new lane.
            port.note_time(None);
            for _ in 0..MOST_TURNS {
                if port.receive(budget, sink)? == 0 {
                    break;
                }
            }
            port.note_time(self.now);
        }
        let packets = self.take(budget, sink);
        if !self.must_ask_port() {
            return Ok(packets);
        }
        let more = port.receive(budget.saturating_sub(packets).max(1), sink)?;
        self.ask_port_at = self.now.and_then(|now| match more {
            0 => {
                let silence = now.saturating_duration_since(self.port_received_at);
                Some(now + (silence / PART_OF_SILENCE).min(LONGEST_INTERVAL))
            }
            _ => {
                self.port_received_at = now;
                None
            }
        });
        Ok(packets + more)
    }

    fn flush(&mut self, port: &mut impl Port) -> Result<bool, PortError> {
        if std::mem::take(&mut self.hidden) > 0 {
            for destination in self.destinations.iter_mut().flatten() {
                let woke = destination.link.lane_mut().is_some_and(Lane::show);
                self.counters.wake_ups += u64::from(woke);
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
        let doorbells = self.inbox.doorbells();
        doorbells.silence(self.incoming.iter().map(|lane| &lane.doorbell));
        self.has_slept.store(true, Ordering::Relaxed);
        let mut may_sleep = true;
        for lane in &self.incoming {
            // Not `all`: each must know.
            may_sleep &= lane.ring.fall_asleep();
        }
        if !may_sleep || self.inbox.has_any() {
            doorbells.ring();
        }
        let mut fds = port.packet_fds();
        fds.push(PortFd {
            fd: doorbells.as_fd(),
            wants_write: false,
        });
        fds
    }

    fn lane_packets(&self) -> u64 {
        self.counters.tx_packets + self.counters.rx_packets
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        self.counters.each()
    }
}
