//! Flows: the packets that one host sends to one queue pair of another.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::time::Duration;

use roce_wire::{Operation, Position, Psn, Qpn, Syndrome, Transport};

use super::capture::Timestamp;
use super::packet::{Icrc, RocePacket};

mod counters;
mod sequence;

#[cfg(test)]
mod tests;

pub(super) use counters::{Counters, Message, NakKind};
use sequence::{Arrival, Requests, Responses};

/// The most flows in a table. Packets of further flows are counted together.
pub(super) const MAX_FLOWS: usize = 65_536;

/// The most flows between the two hosts to examine for a response.
const MAX_CANDIDATES: usize = 256;

/// The number of responses of a flow for which its peer is searched.
const MAX_SEARCHES: u32 = 1024;

/// The identity of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) dest_qpn: Qpn,
    /// The sender's queue pair, known only for datagrams.
    pub(super) src_qpn: Option<Qpn>,
}

/// A flow: the counters of its packets, and the state needed to tell new packets from retransmitted
/// ones.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    /// The service of its first packet that has one: CNPs have none.
    pub(super) transport: Option<Transport>,
    pub(super) counters: Counters,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    /// The flow in the opposite direction of the same connection, once known.
    pub(super) peer: Option<usize>,
    /// The queue pair that the opposite flow goes to: the source of this one.
    pub(super) peer_qpn: Option<Qpn>,
    requests: Requests,
    responses: Responses,
    /// The number of searches for a peer.
    searches: u32,
}

/// The flows of a capture.
#[derive(Debug)]
pub(super) struct FlowTable {
    flows: Vec<Flow>,
    by_key: HashMap<FlowKey, usize>,
    by_hosts: HashMap<(IpAddr, IpAddr), Vec<usize>>,
    limit: usize,
    /// Packets of flows beyond the limit.
    pub(super) untracked: u64,
}

impl FlowTable {
    /// An empty table for at most `limit` flows.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            flows: Vec::new(),
            by_key: HashMap::new(),
            by_hosts: HashMap::new(),
            limit,
            untracked: 0,
        }
    }

    /// The flows, in the order of their first packets.
    pub(super) fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Counts a packet in the flow that its headers name. A packet with a wrong ICRC is counted as
    /// such and its PSN is not tracked, unless `trust_bad_icrc` is set.
    pub(super) fn add(&mut self, packet: &RocePacket, trust_bad_icrc: bool) {
        let Some(index) = self.index(packet) else {
            self.untracked += 1;
            return;
        };
        let flow = &mut self.flows[index];
        flow.count(packet);
        let is_bad = matches!(packet.icrc, Icrc::Bad(_)) && !trust_bad_icrc;
        if is_bad || packet.error.is_some() {
            return;
        }
        let Some(response) = flow.track(packet) else {
            return;
        };
        let mtu = flow.responses.mtu;
        self.find_peer(index, response);
        if let Some(peer) = self.flows[index].peer {
            self.flows[peer].requests.learn_mtu(mtu);
        }
    }

    /// The packet's flow, which is created if there is room.
    fn index(&mut self, packet: &RocePacket) -> Option<usize> {
        let bth = packet.bth?;
        let key = FlowKey {
            src: packet.envelope.src,
            dst: packet.envelope.dst,
            dest_qpn: bth.dest_qpn,
            src_qpn: packet.ext.deth.map(|deth| deth.src_qpn),
        };
        let entry = match self.by_key.entry(key) {
            Entry::Occupied(known) => return Some(*known.get()),
            Entry::Vacant(entry) => entry,
        };
        if self.flows.len() >= self.limit {
            return None;
        }
        let index = self.flows.len();
        entry.insert(index);
        self.flows.push(Flow::new(key));
        self.by_hosts
            .entry((key.src, key.dst))
            .or_default()
            .push(index);
        Some(index)
    }

    /// Finds the two directions of a connection. Packets name only their destination queue pair. But a response
    /// has the PSN of the request that it answers, so its peer is the flow in the opposite direction that
    /// recently sent that PSN. If several flows sent it, a later response decides.
    ///
    /// Looks for the flow whose request the response with this PSN, seen in the flow
    /// `index`, answers.
    fn find_peer(&mut self, index: usize, psn: Psn) {
        let flow = &mut self.flows[index];
        if flow.peer.is_some() || flow.searches == MAX_SEARCHES {
            return;
        }
        flow.searches += 1;
        let (key, transport) = (flow.key, flow.transport);
        let Some(candidates) = self.by_hosts.get(&(key.dst, key.src)) else {
            return;
        };
        if candidates.len() > MAX_CANDIDATES {
            return;
        }
        let mut answered = candidates.iter().copied().filter(|&other| {
            let candidate = &self.flows[other];
            candidate.peer.is_none()
                && candidate.transport == transport
                && candidate.requests.covers(psn)
        });
        if let (Some(peer), None) = (answered.next(), answered.next()) {
            for (one, other) in [(index, peer), (peer, index)] {
                self.flows[one].peer = Some(other);
                self.flows[one].peer_qpn = Some(self.flows[other].key.dest_qpn);
            }
        }
    }
}

impl Flow {
    fn new(key: FlowKey) -> Self {
        Self {
            key,
            transport: None,
            counters: Counters::default(),
            first: None,
            last: None,
            peer: None,
            peer_qpn: None,
            requests: Requests::default(),
            responses: Responses::default(),
            searches: 0,
        }
    }

    /// Time between the first packet and the last.
    pub(super) fn duration(&self) -> Option<Duration> {
        Some(self.last?.since(self.first?))
    }

    /// Payload over time; `None` if the time is zero or unknown.
    pub(super) fn bits_per_sec(&self) -> Option<f64> {
        let sec = self.duration()?.as_secs_f64();
        (sec > 0.0).then(|| self.counters.payload_bytes as f64 * 8.0 / sec)
    }

    /// Counts what does not depend on earlier packets.
    fn count(&mut self, packet: &RocePacket) {
        if let Some(time) = packet.time {
            let first = *self.first.get_or_insert(time);
            let last = *self.last.get_or_insert(time);
            // Captures of several interfaces are not quite in order of time.
            self.first = Some(first.min(time));
            self.last = Some(last.max(time));
        }
        let transport = packet.bth.map(|bth| bth.opcode.transport());
        self.transport = self
            .transport
            .or(transport.filter(|&t| t != Transport::Cnp));
        self.counters.count(packet);
    }

    /// Counts what depends on earlier packets, and returns the PSN of a response.
    fn track(&mut self, packet: &RocePacket) -> Option<Psn> {
        let bth = packet.bth?;
        let opcode = bth.opcode;
        let counters = &mut self.counters;
        let arrival = match opcode.operation() {
            Operation::Cnp => return None,
            // A receiver does not check the PSNs of datagrams.
            _ if opcode.transport() == Transport::Ud => Arrival::New { missing: 0 },
            Operation::Acknowledge | Operation::AtomicAcknowledge => Arrival::New { missing: 0 },
            Operation::ReadResponse => {
                self.responses
                    .arrive(bth.psn, opcode.position(), packet.payload_len)
            }
            _ => self
                .requests
                .arrive(bth.psn, opcode, packet.ext.reth, packet.payload_len),
        };
        match arrival {
            Arrival::New { missing } => {
                counters.gaps += u64::from(missing > 0);
                counters.missing += u64::from(missing);
            }
            Arrival::Late { found } => {
                counters.missing = counters.missing.saturating_sub(found.into());
            }
            Arrival::Restart => counters.restarts += 1,
            Arrival::Retransmitted => {
                counters.retransmitted += 1;
                counters.retransmitted_bytes += packet.payload_len as u64;
            }
        }
        if arrival != Arrival::Retransmitted {
            counters.payload_bytes += packet.payload_len as u64;
            if matches!(opcode.position(), Position::Last | Position::Only)
                && let Some(message) = Message::of(opcode)
            {
                counters.messages[message as usize] += 1;
            }
        }
        if let Some(cm) = &packet.cm {
            counters.cm_messages[cm.kind as usize] += 1;
        }
        if let Some(aeth) = packet.ext.aeth {
            match aeth.syndrome {
                Syndrome::Nak(code) => counters.naks[NakKind::of(code) as usize] += 1,
                Syndrome::RnrNak(_) => counters.rnr_naks += 1,
                Syndrome::Ack(_) | Syndrome::Reserved(_) => {}
            }
        }
        opcode.is_response().then_some(bth.psn)
    }
}
