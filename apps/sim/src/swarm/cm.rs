//! Connections that applications make and end by messages of the connection manager, which the
//! network may lose.

use super::end::{Manager, Phase};
use super::state::{Run, Token};
use crate::connect::ConnectSpec;
use crate::fabric::HostId;
use crate::oracle::{Verdict, Violation, about, violated};
use roce_cm::{
    Acceptance, Agent, Config, ConnectRequest, ConnectionId, Event, Path, QpnRange, RejectReason,
    Reply, Request, ServiceId,
};
use roce_stack::{Duration, Instant, QpAttributes, QpState, RoceVersion, TxMeta};
use roce_wire::{Psn, Qpn};
use std::collections::BTreeMap;

/// The service that every host offers.
const SERVICE: ServiceId = ServiceId(0x0123_4567_89ab);

/// How long a host that is paused waits before it looks again.
const RETRY: Duration = Duration::from_millis(1);

/// An agent's side of a connection: the private data of each message is its pair.
fn name_of(private: &[u8]) -> Option<usize> {
    let bytes: [u8; 4] = private.get(..4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes) as usize)
}

fn private(pair: usize) -> Vec<u8> {
    (pair as u32).to_be_bytes().to_vec()
}

impl Run<'_> {
    /// Starts the connection manager of a host with a new NIC, if any of its pairs needs one.
    pub(super) fn make_manager(&mut self, host: HostId) -> Result<Option<Manager>, Violation> {
        let plan = self.plan;
        let mut pairs = plan.pairs.iter();
        if !pairs.any(|pair| pair.managed && pair.hosts.contains(&host.0)) {
            return Ok(None);
        }
        let now = self.fabric.now();
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&plan.hosts[host.0].seed.to_le_bytes());
        seed[8..16].copy_from_slice(&now.as_nanos().to_le_bytes());
        let mut config = Config::new(seed, QpnRange::FIRST, host.0 as u64 + 1);
        // Where nothing is lost, a message may wait for a second behind data.
        if !plan.lossless {
            config.response_timeout = 9;
            config.max_retries = plan.cm_retries;
        }
        config.packet_lifetime = 10;
        let mut agent = Agent::new(config);
        let address = self.fabric.address(host);
        agent
            .listen(now, SERVICE, address, 1024)
            .map_err(about("listening"))?;
        self.fabric.nic(host).open_general_services();
        Ok(Some(Manager {
            agent,
            next_call: None,
            names: BTreeMap::new(),
        }))
    }

    /// Requests the connection of a pair, whose QPs are in INIT.
    pub(super) fn request_connection(&mut self, pair: usize) -> Verdict {
        let plan = &self.plan.pairs[pair];
        let host = HostId(plan.hosts[0]);
        let path = Path {
            local: self.fabric.address(host),
            remote: self.fabric.address(HostId(plan.hosts[1])),
        };
        let end = self.end(pair, 0);
        let connect = &plan.connect;
        let request = ConnectRequest {
            responder_resources: connect.rd_atomic,
            initiator_depth: connect.rd_atomic,
            retry_count: connect.retry_cnt,
            rnr_retry_count: connect.rnr_retry,
            srq: end.shared,
            path_mtu: connect.path_mtu,
            traffic_class: connect.traffic_class,
            ack_timeout: connect.timeout,
            private: private(pair),
            ..ConnectRequest::new(SERVICE, end.qpn, Psn::new(connect.psn[1]))
        };
        let now = self.fabric.now();
        let Some(manager) = &mut self.managers[host.0] else {
            return Ok(());
        };
        let id = manager
            .agent
            .connect(now, path, &request)
            .map_err(about(format_args!("pair {pair} requests")))?;
        manager.names.insert(id, (pair, 0));
        self.set_managed((pair, 0), Phase::Asked, Some(id));
        self.drive_manager(host)
    }

    /// A host restarts: its connection manager knows nothing any more.
    pub(super) fn forget_connections(&mut self, host: HostId) {
        let ends = self
            .pairs
            .iter_mut()
            .flatten()
            .flat_map(|pair| &mut pair.ends);
        for end in ends.filter(|end| end.host == host) {
            end.managed.phase = Phase::Over;
        }
    }

    fn set_managed(&mut self, (pair, side): (usize, usize), to: Phase, id: Option<ConnectionId>) {
        let managed = &mut self.end_mut(pair, side).managed;
        managed.phase = to;
        managed.id = id.or(managed.id);
    }

    fn phase(&self, pair: usize, side: usize) -> Phase {
        self.end(pair, side).managed.phase
    }

    /// Passes received messages to the connection manager of a host.
    pub(super) fn poll_manager(&mut self, host: HostId) -> Verdict {
        if self.managers[host.0].is_none() {
            return Ok(());
        }
        let now = self.fabric.now();
        let mut any = false;
        while let Some(received) = self.fabric.nic(host).poll_mad() {
            let path = Path {
                local: received.path.src,
                remote: received.path.dst,
            };
            if let Some(manager) = &mut self.managers[host.0] {
                manager.agent.receive(now, path, &received.mad);
            }
            any = true;
        }
        match any {
            true => self.drive_manager(host),
            false => Ok(()),
        }
    }

    /// Runs the timers of a host's connection manager.
    pub(super) fn manager_called(&mut self, host: HostId) -> Verdict {
        let now = self.fabric.now();
        let Some(manager) = &mut self.managers[host.0] else {
            return Ok(());
        };
        if manager.next_call != Some(now) {
            return Ok(());
        }
        manager.next_call = None;
        if self.paused[host.0] {
            self.call_manager(host, now + RETRY);
            return Ok(());
        }
        manager.agent.handle_timeouts(now);
        self.drive_manager(host)
    }

    fn call_manager(&mut self, host: HostId, at: Instant) {
        let Some(manager) = &mut self.managers[host.0] else {
            return;
        };
        if manager.next_call.is_none_or(|called| at < called) {
            manager.next_call = Some(at);
            self.call_at(at, Token::Manager(host.0));
        }
    }

    /// Handles the events of a host's connection manager, sends its messages and schedules its
    /// timer.
    fn drive_manager(&mut self, host: HostId) -> Verdict {
        while let Some(event) = self.manager_event(host) {
            self.handle_manager_event(host, event)?;
        }
        let Some(manager) = &mut self.managers[host.0] else {
            return Ok(());
        };
        while let Some((path, mad)) = manager.agent.poll_transmit() {
            let path = TxMeta {
                src: path.local,
                dst: path.remote,
                traffic_class: 0,
                hop_limit: 64,
                version: RoceVersion::V2,
            };
            self.outcome.counts.cm_messages += 1;
            // A message that finds the queue full is lost, and sent again later.
            let _ = self.fabric.nic(host).send_mad(path, &mad);
        }
        if let Some(at) = manager.agent.next_timeout() {
            let at = at.max(self.fabric.now() + Duration::from_nanos(1));
            self.call_manager(host, at);
        }
        self.drive(host);
        Ok(())
    }

    fn manager_event(&mut self, host: HostId) -> Option<Event> {
        self.managers[host.0].as_mut()?.agent.poll_event()
    }

    fn handle_manager_event(&mut self, host: HostId, event: Event) -> Verdict {
        let id = event.connection();
        let name = match &self.managers[host.0] {
            Some(manager) => manager.names.get(&id).copied(),
            None => None,
        };
        match (event, name) {
            (Event::Requested { path, request, .. }, None) => {
                self.connection_requested(host, id, path, &request)
            }
            (Event::Replied { reply, .. }, Some(name)) => self.connection_replied(name, id, &reply),
            (Event::Established { .. }, Some(name)) => self.connection_established(name),
            (Event::Rejected { reason, .. }, Some(name)) => {
                self.connection_failed(name, &format!("rejected: {reason:?}"))
            }
            (Event::Unreachable { .. }, Some(name)) => self.connection_failed(name, "unreachable"),
            (Event::DisconnectRequested { .. }, Some(name)) => self.disconnect_requested(name, id),
            (Event::Disconnected { .. }, Some(name)) => self.disconnected(name),
            (Event::TimeWaitOver { .. }, Some((pair, side))) => {
                if self.phase(pair, side) != Phase::Waiting {
                    return violated(format!("pair {pair} side {side}: time wait of none"));
                }
                self.set_managed((pair, side), Phase::Over, None);
                Ok(())
            }
            // The application has forgotten the connection.
            (Event::TimeWaitOver { .. }, None) => Ok(()),
            (other, name) => violated(format!("host {}, {name:?}: {other:?}", host.0)),
        }
    }

    fn agent(&mut self, host: HostId) -> Result<&mut Agent, Violation> {
        match &mut self.managers[host.0] {
            Some(manager) => Ok(&mut manager.agent),
            None => violated(format!("host {} has no connection manager", host.0)),
        }
    }

    /// Whether the QP of an end is in this state.
    fn is_in(&mut self, pair: usize, side: usize, state: QpState) -> bool {
        self.end(pair, side).alive && self.qp_state(pair, side) == Some(state)
    }

    fn connection_requested(
        &mut self,
        host: HostId,
        id: ConnectionId,
        path: Path,
        request: &Request,
    ) -> Verdict {
        let pair = name_of(request.private.trimmed()).unwrap_or(0);
        let plan = &self.plan.pairs[pair.min(self.plan.pairs.len() - 1)];
        let from = self.fabric.address(HostId(plan.hosts[0]));
        let is_planned = plan.managed && plan.hosts[1] == host.0 && path.remote == from;
        if !is_planned || self.pairs[pair].is_none() {
            return violated(format!("host {}: no pair requests {request:?}", host.0));
        }
        let phase = self.phase(pair, 1);
        let is_new = phase == Phase::Idle;
        if !is_new && phase != Phase::Over {
            return violated(format!("pair {pair} is requested again in {phase:?}"));
        }
        self.check_request(pair, request)?;
        let now = self.fabric.now();
        if !is_new || !self.is_in(pair, 1, QpState::Init) {
            let agent = self.agent(host)?;
            let rejected = agent.reject(now, id, RejectReason::CONSUMER, &[]);
            if is_new {
                self.set_managed((pair, 1), Phase::Over, None);
            }
            return rejected.map_err(about(format_args!("pair {pair} rejects")));
        }
        if let Some(manager) = &mut self.managers[host.0] {
            manager.names.insert(id, (pair, 1));
        }
        self.move_on(pair, 1, request.qpn, 1)?;
        let connect = self.plan.pairs[pair].connect;
        let qpn = self.end(pair, 1).qpn;
        let acceptance = Acceptance {
            rnr_retry_count: connect.rnr_retry,
            private: private(pair),
            ..Acceptance::new(request, qpn, Psn::new(connect.psn[0]))
        };
        self.set_managed((pair, 1), Phase::Accepted, Some(id));
        let accepted = self.agent(host)?.accept(now, id, &acceptance);
        accepted.map_err(about(format_args!("pair {pair} accepts")))
    }

    /// Checks that a request has arrived as it was sent.
    fn check_request(&self, pair: usize, request: &Request) -> Verdict {
        let connect = &self.plan.pairs[pair].connect;
        let expected = (
            self.end(pair, 0).qpn,
            Psn::new(connect.psn[1]),
            connect.path_mtu,
            (connect.rd_atomic, connect.rd_atomic),
            (connect.retry_cnt, connect.rnr_retry, connect.timeout),
        );
        let given = (
            request.qpn,
            request.sq_psn,
            request.path_mtu,
            (request.responder_resources, request.initiator_depth),
            (
                request.retry_count,
                request.rnr_retry_count,
                request.ack_timeout,
            ),
        );
        match given == expected {
            true => Ok(()),
            false => violated(format!("pair {pair}: {request:?} instead of {expected:?}")),
        }
    }

    fn connection_replied(
        &mut self,
        (pair, side): (usize, usize),
        id: ConnectionId,
        reply: &Reply,
    ) -> Verdict {
        let host = self.end(pair, side).host;
        let now = self.fabric.now();
        let peer = self.end(pair, 1);
        let connect = self.plan.pairs[pair].connect;
        let expected = (peer.qpn, Psn::new(connect.psn[0]), Some(pair));
        let given = (reply.qpn, reply.sq_psn, name_of(reply.private.trimmed()));
        // A name of zeros is trimmed.
        let given = (given.0, given.1, given.2.or(Some(0)));
        if side != 0 || self.phase(pair, 0) != Phase::Asked || given != expected {
            return violated(format!("pair {pair}: {reply:?} instead of {expected:?}"));
        }
        if !self.is_in(pair, 0, QpState::Init) {
            self.set_managed((pair, 0), Phase::Over, None);
            let agent = self.agent(host)?;
            let rejected = agent.reject(now, id, RejectReason::CONSUMER, &[]);
            return rejected.map_err(about(format_args!("pair {pair} rejects")));
        }
        self.move_on(pair, 0, reply.qpn, 1)?;
        self.move_on(pair, 0, reply.qpn, 2)?;
        self.set_managed((pair, 0), Phase::Open, None);
        let ready = self.agent(host)?.ready(now, id, &[]);
        ready.map_err(about(format_args!("pair {pair} is ready")))?;
        self.outcome.counts.managed += 1;
        self.now_ready(pair, 0)
    }

    fn connection_established(&mut self, (pair, side): (usize, usize)) -> Verdict {
        if side != 1 || self.phase(pair, 1) != Phase::Accepted {
            return violated(format!("pair {pair} side {side} is established"));
        }
        self.set_managed((pair, 1), Phase::Open, None);
        let asked = !matches!(self.phase(pair, 0), Phase::Idle | Phase::Asked);
        if !asked && self.end(pair, 0).alive {
            return violated(format!("pair {pair} is established without its peer"));
        }
        if !self.is_in(pair, 1, QpState::Rtr) {
            return Ok(());
        }
        let peer = self.end(pair, 0).qpn;
        self.move_on(pair, 1, peer, 2)?;
        self.now_ready(pair, 1)
    }

    /// The QP of an end may send.
    fn now_ready(&mut self, pair: usize, side: usize) -> Verdict {
        self.end_mut(pair, side).ready = true;
        self.note_limit(pair, side, self.plan.pairs[pair].connect.rate_limit[side]);
        self.post_requests(pair, side)
    }

    /// Moves the QP of an end to RTR (1) or RTS (2).
    fn move_on(&mut self, pair: usize, side: usize, to: Qpn, step: usize) -> Verdict {
        let (host, qpn) = (self.end(pair, side).host, self.end(pair, side).qpn);
        let spec: &ConnectSpec = &self.plan.pairs[pair].connect;
        let peer = HostId(self.plan.pairs[pair].hosts[1 - side]);
        let path = spec.path(&self.fabric, host, peer);
        let attributes: &QpAttributes = &spec.transitions(side, path, to)[step];
        let now = self.fabric.now();
        let moved = self.fabric.nic(host).modify_qp(now, qpn, attributes);
        moved.map_err(about(format_args!("pair {pair} side {side}")))
    }

    /// The connection was refused, or nothing answers.
    fn connection_failed(&mut self, (pair, side): (usize, usize), why: &str) -> Verdict {
        let peer = self.end(pair, 1 - side);
        let refuses = peer.managed.phase == Phase::Over || !peer.alive;
        if self.plan.lossless && !refuses {
            return violated(format!("pair {pair} side {side} is {why}"));
        }
        self.set_managed((pair, side), Phase::Over, None);
        self.break_managed(pair, side)
    }

    /// The application gives up the QP of a connection that has ended.
    fn break_managed(&mut self, pair: usize, side: usize) -> Verdict {
        if !self.end(pair, side).alive {
            return Ok(());
        }
        self.oracle.mark_may_be_broken(pair, side);
        self.modify(pair, side, QpState::Err)
    }

    /// The application ends a connection.
    pub(super) fn disconnect(&mut self, pair: usize, side: usize) -> Verdict {
        let end = self.end(pair, side);
        let (host, managed) = (end.host, end.managed);
        let (Phase::Open, Some(id)) = (managed.phase, managed.id) else {
            return Ok(());
        };
        self.set_managed((pair, side), Phase::Closing, None);
        self.break_managed(pair, side)?;
        let now = self.fabric.now();
        let asked = self.agent(host)?.disconnect(now, id, &[]);
        asked.map_err(about(format_args!("pair {pair} side {side}")))?;
        self.outcome.counts.disconnects += 1;
        self.drive_manager(host)
    }

    fn disconnect_requested(&mut self, (pair, side): (usize, usize), id: ConnectionId) -> Verdict {
        let peer = self.end(pair, 1 - side);
        let has_cause = !peer.alive || !matches!(peer.managed.phase, Phase::Open | Phase::Asked);
        if !has_cause || !matches!(self.phase(pair, side), Phase::Open | Phase::Accepted) {
            return violated(format!("pair {pair} side {side} is asked to disconnect"));
        }
        let (host, now) = (self.end(pair, side).host, self.fabric.now());
        self.set_managed((pair, side), Phase::Waiting, None);
        let agreed = self.agent(host)?.disconnect(now, id, &[]);
        agreed.map_err(about(format_args!("pair {pair} side {side}")))?;
        self.break_managed(pair, side)
    }

    fn disconnected(&mut self, (pair, side): (usize, usize)) -> Verdict {
        let peer = self.end(pair, 1 - side);
        let is_asked = self.phase(pair, side) == Phase::Closing;
        let has_cause = is_asked || !peer.alive || peer.managed.phase == Phase::Over;
        if !has_cause {
            return violated(format!("pair {pair} side {side} is disconnected"));
        }
        self.set_managed((pair, side), Phase::Waiting, None);
        self.break_managed(pair, side)
    }

    /// The first message on a connection arrived before its RTU.
    pub(super) fn first_message(&mut self, host: HostId, qpn: Qpn) -> Verdict {
        let Some((pair, side)) = self.end_of(host, qpn) else {
            return Ok(());
        };
        let managed = self.end(pair, side).managed;
        let (Phase::Accepted, Some(id)) = (managed.phase, managed.id) else {
            // The connection may have ended before this event was polled.
            return match managed.phase {
                Phase::Idle | Phase::Asked => violated(format!(
                    "pair {pair} side {side}: a message before an answer"
                )),
                _ => Ok(()),
            };
        };
        let now = self.fabric.now();
        self.agent(host)?.established(now, id);
        self.drive_manager(host)
    }

    /// Checks the connections at the end of a run.
    pub(super) fn check_managers(&self) -> Verdict {
        for (host, manager) in self.managers.iter().enumerate() {
            let Some(manager) = manager else { continue };
            let is_known = |(pair, side): &(usize, usize)| {
                let phase = self.phase(*pair, *side);
                matches!(phase, Phase::Asked | Phase::Accepted | Phase::Open)
            };
            let open = manager.names.values().filter(|name| is_known(name)).count();
            if manager.agent.connections() != open {
                return violated(format!(
                    "the connection manager of host {host} holds {} connections, not {open}",
                    manager.agent.connections()
                ));
            }
        }
        for (number, state) in self.pairs.iter().enumerate() {
            let Some(state) = state else { continue };
            let phases = [0, 1].map(|side: usize| state.ends[side].managed.phase);
            let never_made = phases.contains(&Phase::Asked) || phases.contains(&Phase::Accepted);
            if self.plan.pairs[number].managed && never_made {
                return violated(format!("pair {number} waits for ever: {phases:?}"));
            }
        }
        Ok(())
    }

    /// Stops the connection managers.
    pub(super) fn stop_managers(&mut self) {
        for host in 0..self.managers.len() {
            if self.managers[host].take().is_some() {
                self.fabric.nic(HostId(host)).close_general_services();
            }
        }
    }
}
