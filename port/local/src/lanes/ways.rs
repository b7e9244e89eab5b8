//! The way of packets to each device: by a lane, by the port inside, or later.

use super::Lanes;
use super::destination::{AFTER_SILENCE, Destination, Link, Peer, settle};
use crate::ring::Sender;
use roce_port::{NotAccepted, Offered, Port, Refusal};
use roce_stack::{QpnRange, RoceVersion, TxMeta};
use roce_wire::Qpn;
use std::collections::HashSet;
use std::hint::cold_path;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// The pause before another offer to a device that nobody has found, at first; it doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// The most devices to which the way is known. Those without a lane are forgotten then, and found again.
const MAX_WAYS: usize = 1024;
/// The number of packets to such a device between two looks at the clock.
const SKIPS: u32 = 15;
/// The longest such pause.
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Up to this pause, a device that has just gone may have a successor without one.
const SHORT_PAUSE: Duration = Duration::from_millis(16);
/// The time for which packets wait for a device's answer. They wait alone: the thread that has the device goes on
/// with others. Peers that wait for acknowledgements have retried a few times by then.
const ANSWER_PATIENCE: Duration = Duration::from_millis(250);
/// The time for which a full lane keeps its packets back. Then its receiver counts as stopped, and packets
/// are lost, as a socket's are.
const PATIENCE: Duration = Duration::from_millis(100);

/// How packets get to a device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// As the destination at this place says.
    Known(usize),
    /// By the port inside, until a device is there.
    Nobody { until: Instant, pause: Duration },
}

/// The way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Lane(usize),
    /// The device has not answered yet.
    Wait,
    Port,
}

impl Lanes {
    #[inline]
    pub(super) fn route(
        &mut self,
        port: &mut impl Port,
        to: &TxMeta,
        qpn: Qpn,
        is_retransmission: bool,
    ) -> Route {
        // Management datagrams are for several processes.
        if qpn.get() <= Qpn::QP1.get() {
            return Route::Port;
        }
        let Some(place) = self.place_of(port, to, qpn) else {
            return Route::Port;
        };
        let Some(destination) = &mut self.destinations[place] else {
            return Route::Port;
        };
        if destination.must_look(qpn, is_retransmission) && destination.has_ended() {
            cold_path();
            self.close(place);
            return match self.place_of(port, to, qpn) {
                Some(place) => self.route_of(port, place),
                None => Route::Port,
            };
        }
        if destination.link.lane().is_some() {
            return Route::Lane(place);
        }
        cold_path();
        self.route_of(port, place)
    }

    /// The way to the destination at this place, after a look whether it has answered.
    fn route_of(&mut self, port: &mut impl Port, place: usize) -> Route {
        self.hear(port, place);
        match self.destinations[place].as_ref().map(|at| &at.link) {
            Some(Link::Lane(_)) => Route::Lane(place),
            // Nothing may stay behind: a QP is about to lose its state, or the process ends.
            Some(Link::Offered { .. }) if self.is_urgent => Route::Port,
            Some(Link::Offered { .. }) => Route::Wait,
            Some(Link::Port) | None => Route::Port,
        }
    }

    /// Takes the answer to an offer, if it has come.
    fn hear(&mut self, port: &mut impl Port, place: usize) {
        let Some(destination) = &mut self.destinations[place] else {
            return;
        };
        let Link::Offered { since, .. } = destination.link else {
            return;
        };
        let (Some(neighbours), Some(connection)) =
            (port.neighbours(), destination.connection.take())
        else {
            return;
        };
        let answered = match neighbours.answer(connection) {
            Ok(Offered::Waiting(witness)) if since.elapsed() > ANSWER_PATIENCE => Err(Refusal {
                why: NotAccepted::Silent,
                witness: Some(witness),
            }),
            answered => answered,
        };
        let link = std::mem::replace(&mut destination.link, Link::Port);
        let Link::Offered { ring, since } = link else {
            return;
        };
        let settled = answered.and_then(|answered| settle(ring, since, answered));
        let (link, connection) = self.counters.note(settled);
        if let Some(destination) = &mut self.destinations[place] {
            destination.link = link;
            destination.connection = connection;
        }
    }

    /// The place of a packet's destination, if a device is there.
    #[inline]
    fn place_of(&mut self, port: &mut impl Port, to: &TxMeta, qpn: Qpn) -> Option<usize> {
        let peer = Peer {
            src: to.src,
            dst: to.dst,
            part: QpnRange::of(qpn),
        };
        match &self.last {
            Some((last, Way::Known(place))) if *last == peer => Some(*place),
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
            Some(&Way::Known(place)) => {
                self.last = Some((peer, Way::Known(place)));
                return Some(place);
            }
        };
        if self.ways.len() >= MAX_WAYS {
            self.forget_ways();
        }
        let way = match self.open(port, peer, pause) {
            Some(place) => Way::Known(place),
            None => Way::Nobody {
                until: Instant::now() + pause,
                pause,
            },
        };
        self.ways.insert(peer, way);
        self.last = Some((peer, way));
        match way {
            Way::Known(place) => Some(place),
            Way::Nobody { .. } => None,
        }
    }

    /// Forgets the way to each device without a lane.
    fn forget_ways(&mut self) {
        self.last = None;
        for place in &mut self.destinations {
            place.take_if(|destination| destination.link.lane().is_none());
        }
        let destinations = &self.destinations;
        self.ways
            .retain(|_, way| matches!(*way, Way::Known(place) if destinations[place].is_some()));
    }

    /// Offers a lane. Returns the place of the destination, also if it refuses; `None` if nobody is there.
    fn open(&mut self, port: &mut impl Port, peer: Peer, pause: Duration) -> Option<usize> {
        // Packets that the port has queued must arrive before those in the lane.
        if port.queued() > 0 {
            let _ = port.flush();
        }
        let offered = self.offer(port, peer);
        if matches!(&offered, Err(Refusal { why, .. }) if *why == NotAccepted::Nobody) {
            return None;
        }
        let (link, connection) = self.counters.note(offered);
        let destination = Destination {
            peer,
            link,
            connection,
            since: Instant::now(),
            pause,
            packets: 0,
            last_qp: None,
            qps: HashSet::new(),
        };
        let place = match self.destinations.iter().position(Option::is_none) {
            Some(place) => place,
            None => {
                self.destinations.push(None);
                self.destinations.len() - 1
            }
        };
        self.destinations[place] = Some(destination);
        Some(place)
    }

    /// Offers a lane to a device.
    fn offer(&self, port: &mut impl Port, peer: Peer) -> Result<(Link, OwnedFd), Refusal> {
        let neighbours = port.neighbours().ok_or(NotAccepted::Nobody)?;
        if !neighbours.is_here(peer.dst) {
            return Err(NotAccepted::Nobody.into());
        }
        let has_ring = |of: &&Destination| !matches!(of.link, Link::Port);
        let open = self.destinations.iter().flatten().filter(has_ring).count();
        if open >= self.most {
            return Err(NotAccepted::NoRoom.into());
        }
        let created = Sender::create(peer.src);
        let (ring, file) = created.map_err(|_| NotAccepted::NoRoom)?;
        let offered = neighbours.offer(peer.dst, peer.part, file.as_fd())?;
        settle(ring, Instant::now(), offered)
    }

    /// Forgets a device that is gone. Packets to another one with the same part of the QPN space may find another
    /// way.
    pub(super) fn close(&mut self, place: usize) {
        self.last = None;
        let Some(closed) = self.destinations[place].take() else {
            return;
        };
        let now = Instant::now();
        if now.saturating_duration_since(closed.since) > LAST_RETRY {
            self.ways.remove(&closed.peer);
            return;
        }
        // Offers take time: a device that accepts them and goes, again and again, must not take that of others.
        let wait = match closed.link.lane() {
            None => AFTER_SILENCE,
            Some(_) if closed.pause <= SHORT_PAUSE => Duration::ZERO,
            Some(_) => closed.pause,
        };
        let way = Way::Nobody {
            until: now + wait,
            pause: closed.pause,
        };
        self.ways.insert(closed.peer, way);
    }

    /// Notes that a lane has no room. Returns whether packets are lost now.
    pub(super) fn note_full(&mut self, place: usize) -> bool {
        self.counters.full += 1;
        let Some(destination) = &mut self.destinations[place] else {
            return true;
        };
        if destination.has_ended() {
            self.close(place);
            return true;
        }
        let Some(lane) = destination.link.lane_mut() else {
            return true;
        };
        // It may sleep although packets wait that no flush has shown it.
        self.counters.wake_ups += u64::from(lane.show());
        let now = Instant::now();
        let since = *lane.full_since.get_or_insert(now);
        now.saturating_duration_since(since) > PATIENCE
    }
}
