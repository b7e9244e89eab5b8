//! The passive side, which accepts connections.

use super::active::{at_most, private_data, wrong_state};
use super::state::{Connection, Mad, State};
use super::table::Peer;
use super::{Agent, MAX_CONNECTIONS, MAX_UNANSWERED};
use crate::{
    Acceptance, CmError, ConnectionId, Duration, Event, Instant, IpService, ListenerId, Path, QKey,
    Qpn, RejectReason, Request, ServiceId, ServiceType, ip_of,
};
use roce_wire::MAD_LEN;
use roce_wire::cm::{CmMessage, Mra, Mraed, PrivateData, Rej, Rejected, Rep, Req, Rtu};

/// The service timeout of an MRA: 17 s. After that, the peer retransmits its message, and the agent
/// sends the next MRA.
const SERVICE_TIMEOUT: u8 = 22;
/// The longest time for which a peer may leave a REP without an answer. Linux asks for 77 s. The
/// largest numbers that a REQ can have ask for 283 s, during which a forged REQ that the owner
/// accepts occupies a connection and a QP.
const LONGEST_WAIT: Duration = Duration::from_secs(80);

impl Agent {
    pub(super) fn on_req(&mut self, now: Instant, path: Path, transaction: u64, req: &Req<'_>) {
        let peer = Peer {
            address: path.remote,
            lookup: false,
            id: req.local_id,
        };
        if let Some(connection) = self.table.find_by_peer(peer) {
            let id = connection.id;
            return self.on_repeated_req(now, id, path, transaction, req);
        }
        let (ip, private) = match self.check_req(path, req) {
            Ok(data) => data,
            Err(reason) => return self.reject_req(path, transaction, req, reason),
        };
        // rule: 12.9-stale-req
        if let Some(stale) = self.table.find_by_qpn(path.remote, req.qpn) {
            let id = stale.id;
            self.reject_req(path, transaction, req, RejectReason::STALE_CONNECTION);
            return self.on_stale_hint(now, id);
        }
        // rule: 12.9-no-listener
        let Some(listener) = self.listeners.find(req.service, path.local) else {
            return self.hold(now, path, transaction, CmMessage::Req(*req));
        };
        if !self.enter_backlog(listener) {
            return;
        }
        let answer_timeout = self.answer_timeout(req.local_response_timeout);
        let Ok(connection) = self.new_connection(path, answer_timeout) else {
            self.listeners.release_slot(listener);
            return;
        };
        let id = connection.id;
        self.table.insert(Connection {
            remote_id: Some(req.local_id),
            transaction,
            remote_qpn: Some(req.qpn),
            in_backlog_of: Some(listener),
            service: req.service,
            service_type: req.service_type,
            max_retries: req.max_cm_retries.min(most_retries(answer_timeout)),
            state: State::ReqReceived,
            ..connection
        });
        self.note_peer(now, path, req.qpn);
        self.events.push_back(Event::Requested {
            connection: id,
            listener,
            path,
            request: request(req, ip, private),
        });
    }

    /// Checks a REQ, without its LIDs. Returns the REQ's private data, split into Annex A11's header and the rest.
    ///
    /// # Errors
    /// The reason to reject the REQ.
    // rule: CA17-34-req-lids
    fn check_req<'a>(
        &self,
        path: Path,
        req: &Req<'a>,
    ) -> Result<(Option<IpService>, &'a [u8]), RejectReason> {
        // If the GIDs differ from the path, the connection's packets would take another path than
        // this message. A sender could want that only to direct our packets at another host.
        // rule: 12.6.7.2-invalid-gid
        let claimed = (ip_of(req.path.remote_gid), ip_of(req.path.local_gid));
        if claimed != (path.local, path.remote) {
            return Err(RejectReason::INVALID_GID);
        }
        // rule: A11-no-datagram-req
        if req
            .service
            .port()
            .is_some_and(|(space, _)| space.is_datagram())
        {
            return Err(RejectReason::INVALID_TRANSPORT_SERVICE_TYPE);
        }
        split_private(req.service, req.private.bytes()).ok_or(RejectReason::UNSUPPORTED)
    }

    /// Takes a slot of the listener's backlog. Returns `false`, and counts the request as dropped,
    /// if the backlog or a limit of the agent is reached.
    pub(super) fn enter_backlog(&mut self, listener: ListenerId) -> bool {
        if self.table.unanswered() >= MAX_UNANSWERED || self.table.len() >= MAX_CONNECTIONS {
            self.counters.too_many += 1;
            return false;
        }
        let has_slot = self.listeners.take_slot(listener);
        self.counters.backlog_full += u64::from(!has_slot);
        has_slot
    }

    /// Handles a REQ with a communication ID that the peer has already used.
    fn on_repeated_req(
        &mut self,
        now: Instant,
        id: ConnectionId,
        path: Path,
        transaction: u64,
        req: &Req<'_>,
    ) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let is_same = connection.path == path && connection.transaction == transaction;
        let answer = match &connection.state {
            // rule: 12.6.6-sent
            State::ReqReceived if is_same => self.mra(connection, Mraed::Req),
            // rule: 12.9-repeated-req
            State::RepSent(rep) if is_same => *rep.mad,
            State::Finished(Some(answer)) if is_same => **answer,
            // The RTU or DREQ is in flight or has arrived; this REQ was delayed.
            State::Established(_) | State::DreqSent(_) if is_same => {
                self.counters.duplicates += 1;
                return;
            }
            // rule: 12.9-same-id
            _ => {
                self.reject_req(path, transaction, req, RejectReason::STALE_CONNECTION);
                return self.on_stale_hint(now, id);
            }
        };
        self.resend_answer(now, id, answer);
    }

    /// Rejects a REQ without changing a connection.
    pub(super) fn reject_req(
        &mut self,
        path: Path,
        transaction: u64,
        req: &Req<'_>,
        reason: RejectReason,
    ) {
        let rej = Rej {
            local_id: 0,
            remote_id: req.local_id,
            rejected: Rejected::Req,
            reason,
            info: PrivateData::NONE,
            private: PrivateData::NONE,
        };
        self.send_message(path, transaction, CmMessage::Rej(rej));
    }

    /// The MRA that answers a message that the peer retransmits while this agent's owner decides.
    pub(super) fn mra(&self, connection: &Connection, mraed: Mraed) -> [u8; MAD_LEN] {
        let (local_id, remote_id) = connection.ids();
        *connection.mad(CmMessage::Mra(Mra {
            local_id,
            remote_id,
            mraed,
            service_timeout: SERVICE_TIMEOUT,
            private: PrivateData::NONE,
        }))
    }

    pub(super) fn send_rep(
        &mut self,
        now: Instant,
        id: ConnectionId,
        acceptance: &Acceptance,
    ) -> Result<(), CmError> {
        let connection = self.known(id)?;
        let State::ReqReceived = connection.state else {
            return Err(wrong_state(connection, "waits to be accepted"));
        };
        let rep = self.rep(connection, acceptance)?;
        if let Some(connection) = self.table.get_mut(id) {
            connection.local_qpn = acceptance.qpn;
        }
        self.leave_backlog(id);
        self.send_until_answered(now, id, rep, State::RepSent);
        Ok(())
    }

    fn rep(&self, connection: &Connection, acceptance: &Acceptance) -> Result<Mad, CmError> {
        at_most("RNR retry count", acceptance.rnr_retry_count.into(), 7)?;
        at_most("target ACK delay", acceptance.target_ack_delay.into(), 31)?;
        let (local_id, remote_id) = connection.ids();
        // rule: A14-rep-target
        let is_xrc = connection.service_type == ServiceType::Xrc;
        let (qpn, eecn) = match is_xrc {
            true => (Qpn::QP0, acceptance.qpn),
            false => (acceptance.qpn, Qpn::QP0),
        };
        Ok(connection.mad(CmMessage::Rep(Rep {
            local_id,
            remote_id,
            qkey: QKey(0),
            qpn,
            eecn,
            psn: acceptance.rq_psn,
            responder_resources: acceptance.responder_resources,
            initiator_depth: acceptance.initiator_depth,
            target_ack_delay: acceptance.target_ack_delay,
            failover: FAILOVER_NOT_SUPPORTED,
            flow_control: acceptance.flow_control,
            rnr_retry_count: acceptance.rnr_retry_count,
            srq: acceptance.srq || is_xrc,
            ca_guid: self.config.ca_guid,
            private: private_data(&acceptance.private, 0)?,
        })))
    }

    pub(super) fn on_rtu(&mut self, now: Instant, path: Path, rtu: &Rtu<'_>) {
        let id = ConnectionId(rtu.remote_id);
        match self.table.get(id) {
            Some(c) if c.is_with(path, rtu.local_id) && matches!(c.state, State::RepSent(_)) => {
                self.establish(id, rtu.private.bytes());
            }
            // The REJ was lost, or crossed this RTU. Without it, the peer stays established.
            Some(c) if c.is_with(path, rtu.local_id) => match &c.state {
                State::Finished(Some(answer)) => {
                    let answer = **answer;
                    self.resend_answer(now, id, answer);
                }
                _ => self.counters.duplicates += 1,
            },
            _ => self.counters.unexpected += 1,
        }
    }

    /// Establishes the connection, because the peer has shown that it is ready.
    pub(super) fn establish(&mut self, id: ConnectionId, private: &[u8]) {
        self.table.change(id, State::Established(None), None);
        self.queue_event(
            id,
            Event::Established {
                connection: id,
                private: private.to_vec().into(),
            },
        );
    }
}

/// The maximum number of retransmissions to a peer whose answers may take this long.
fn most_retries(answer_timeout: Duration) -> u8 {
    let sent = LONGEST_WAIT.as_nanos() / answer_timeout.as_nanos().max(1);
    sent.saturating_sub(1).try_into().unwrap_or(u8::MAX)
}

/// "Failover port rejected, failover not supported" (IBTA 1.7, 12.6.8).
const FAILOVER_NOT_SUPPORTED: u8 = 1;

/// The private data of Annex A11, if the service has any, and the data that follows. `None` if it
/// does not parse.
pub(super) fn split_private(
    service: ServiceId,
    private: &[u8],
) -> Option<(Option<IpService>, &[u8])> {
    if service.port().is_none() {
        return Some((None, private));
    }
    let ip = IpService::parse(private).ok()?;
    Some((Some(ip), &private[IpService::LEN..]))
}

/// The request as the owner sees it.
fn request(req: &Req<'_>, ip: Option<IpService>, private: &[u8]) -> Request {
    Request {
        service: req.service,
        ip,
        service_type: req.service_type,
        ca_guid: req.ca_guid,
        qpn: req.qpn,
        sq_psn: req.psn,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        flow_control: req.flow_control,
        srq: req.srq,
        pkey: req.pkey,
        path_mtu: req.path_mtu,
        traffic_class: req.path.traffic_class,
        hop_limit: req.path.hop_limit,
        flow_label: req.path.flow_label,
        ack_timeout: req.path.ack_timeout,
        private: private.to_vec().into(),
    }
}
