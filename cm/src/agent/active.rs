//! The active side, which requests connections.

use super::Agent;
use super::state::{Connection, State};
use crate::{
    CmError, ConnectRequest, ConnectionId, Event, Instant, IpService, Path, PrivateBytes,
    RejectReason, Reply, ServiceId, ServiceType, gid_of,
};
use roce_wire::cm::{CmMessage, Mra, Mraed, PathRecord, PrivateData, Rej, Rejected, Rep, Req, Rtu};

impl Agent {
    pub(super) fn send_req(
        &mut self,
        now: Instant,
        path: Path,
        request: &ConnectRequest,
    ) -> Result<ConnectionId, CmError> {
        check_numbers(request)?;
        let private = request_private(path, request.service, request.source_port, &request.private);
        let private = private_data(&private, private.len() - request.private.len())?;
        let answer_timeout = self.answer_timeout(self.config.response_timeout);
        let connection = Connection {
            local_qpn: request.qpn,
            service: request.service,
            service_type: request.service_type,
            ..self.new_connection(path, answer_timeout)?
        };
        let req = Req {
            local_id: connection.id.get(),
            service: request.service,
            ca_guid: self.config.ca_guid,
            qkey: crate::QKey(0),
            qpn: request.qpn,
            responder_resources: request.responder_resources,
            initiator_depth: request.initiator_depth,
            remote_response_timeout: self.config.response_timeout,
            service_type: request.service_type,
            flow_control: request.flow_control,
            psn: request.rq_psn,
            local_response_timeout: self.config.response_timeout,
            retry_count: request.retry_count,
            pkey: request.pkey,
            path_mtu: request.path_mtu,
            rnr_retry_count: request.rnr_retry_count,
            max_cm_retries: self.config.max_retries,
            srq: request.srq,
            path: path_record(path, request),
            private,
        };
        let mad = connection.mad(CmMessage::Req(req));
        let id = connection.id;
        self.table.insert(connection);
        self.send_until_answered(now, id, mad, State::ReqSent);
        self.check_requested_path(now, path);
        Ok(id)
    }

    pub(super) fn send_rtu(&mut self, id: ConnectionId, private: &[u8]) -> Result<(), CmError> {
        let private = private_data(private, 0)?;
        let connection = self.known(id)?;
        let State::RepReceived = connection.state else {
            return Err(wrong_state(connection, "waits for its owner to be ready"));
        };
        let (local_id, remote_id) = connection.ids();
        let rtu = connection.mad(CmMessage::Rtu(Rtu {
            local_id,
            remote_id,
            private,
        }));
        let path = connection.path;
        self.send(path, *rtu);
        self.table.change(id, State::Established(Some(rtu)), None);
        Ok(())
    }

    pub(super) fn on_rep(&mut self, now: Instant, path: Path, transaction: u64, rep: &Rep<'_>) {
        let Some(connection) = self.table.get(ConnectionId(rep.remote_id)) else {
            // rule: 12.9-unknown-rep
            return self.reject_rep(
                path,
                transaction,
                rep,
                RejectReason::INVALID_COMMUNICATION_ID,
            );
        };
        let id = connection.id;
        if connection.path != path {
            self.counters.unexpected += 1;
            return;
        }
        if let State::ReqSent(_) = connection.state {
            return self.on_first_rep(now, id, path, transaction, rep);
        }
        if connection.remote_id != Some(rep.local_id) {
            self.counters.unexpected += 1;
            return;
        }
        match &connection.state {
            // rule: 12.9-repeated-rep
            State::RepReceived => {
                let mra = self.mra(connection, Mraed::Rep);
                self.resend_answer(now, id, mra);
            }
            State::Established(Some(answer)) | State::Finished(Some(answer)) => {
                let answer = **answer;
                self.resend_answer(now, id, answer);
            }
            _ => self.counters.unexpected += 1,
        }
    }

    fn on_first_rep(
        &mut self,
        now: Instant,
        id: ConnectionId,
        path: Path,
        transaction: u64,
        rep: &Rep<'_>,
    ) {
        let service_type = self.table.get(id).map(|c| c.service_type);
        // rule: A14-rep-target
        let qpn = match service_type {
            Some(ServiceType::Xrc) => rep.eecn,
            _ => rep.qpn,
        };
        // rule: 12.9-stale-rep
        let other = self.table.find_by_qpn(path.remote, qpn).map(|c| c.id);
        if let Some(other) = other {
            if self.wait_for_stale(now, id, other) {
                return;
            }
            let reason = RejectReason::STALE_CONNECTION;
            self.reject_rep(path, transaction, rep, reason);
            self.queue_event(
                id,
                Event::Rejected {
                    connection: id,
                    reason,
                    private: PrivateBytes::default(),
                },
            );
            self.table.remove(id);
            return;
        }
        self.table.set_peer(id, rep.local_id, qpn);
        self.note_peer(now, path, qpn);
        self.table.change(id, State::RepReceived, None);
        let reply = Reply {
            ca_guid: rep.ca_guid,
            qpn,
            sq_psn: rep.psn,
            responder_resources: rep.responder_resources,
            initiator_depth: rep.initiator_depth,
            target_ack_delay: rep.target_ack_delay,
            flow_control: rep.flow_control,
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq,
            private: rep.private.bytes().to_vec().into(),
        };
        self.queue_event(
            id,
            Event::Replied {
                connection: id,
                reply,
            },
        );
    }

    /// Rejects a REP without changing a connection.
    fn reject_rep(&mut self, path: Path, transaction: u64, rep: &Rep<'_>, reason: RejectReason) {
        self.counters.unexpected += 1;
        let rej = Rej {
            local_id: rep.remote_id,
            remote_id: rep.local_id,
            rejected: Rejected::Rep,
            reason,
            info: PrivateData::NONE,
            private: PrivateData::NONE,
        };
        self.send_message(path, transaction, CmMessage::Rej(rej));
    }

    pub(super) fn on_mra(&mut self, now: Instant, path: Path, mra: &Mra<'_>) {
        let Some(connection) = self.table.get(ConnectionId(mra.remote_id)) else {
            self.counters.unexpected += 1;
            return;
        };
        let is_meant = match connection.state {
            // The peer's ID for the connection is not known before its REP.
            State::ReqSent(_) => mra.mraed == Mraed::Req && connection.path == path,
            State::RepSent(_) => mra.mraed == Mraed::Rep && connection.is_with(path, mra.local_id),
            _ => false,
        };
        if is_meant {
            // rule: 12.6.6-waits
            let deadline = now + self.timeout_after_mra(mra.service_timeout);
            self.table.set_deadline(connection.id, Some(deadline));
        } else {
            self.counters.unexpected += 1;
        }
    }
}

/// The private data of a request: `private`, preceded by Annex A11's header if the service requires
/// it.
// rule: A11-header-in-front
pub(super) fn request_private(
    path: Path,
    service: ServiceId,
    source_port: u16,
    private: &[u8],
) -> Vec<u8> {
    let header = service.port().map(|_| IpService {
        source_port,
        source: path.local,
        destination: path.remote,
    });
    let header = header.map_or(Vec::new(), |header| header.to_bytes().to_vec());
    [&header, private].concat()
}

/// Converts the bytes to private data. The first `reserved` bytes are Annex A11's header, not the
/// owner's. The error subtracts them from the given length and from the limit.
pub(super) fn private_data<const N: usize>(
    bytes: &[u8],
    reserved: usize,
) -> Result<PrivateData<'_, N>, CmError> {
    PrivateData::new(bytes).ok_or(CmError::PrivateDataTooLong {
        given: bytes.len() - reserved,
        limit: N - reserved,
    })
}

/// Checks that a number from the owner fits its field.
pub(super) fn at_most(field: &'static str, given: u32, limit: u32) -> Result<(), CmError> {
    if given <= limit {
        return Ok(());
    }
    Err(CmError::TooLarge {
        field,
        given,
        limit,
    })
}

/// The error for a connection that is not in the state `expected`.
pub(super) fn wrong_state(connection: &Connection, expected: &'static str) -> CmError {
    CmError::WrongState {
        state: connection.state.name(),
        expected,
    }
}

fn check_numbers(request: &ConnectRequest) -> Result<(), CmError> {
    at_most("retry count", request.retry_count.into(), 7)?;
    at_most("RNR retry count", request.rnr_retry_count.into(), 7)?;
    at_most("ACK timeout", request.ack_timeout.into(), 31)?;
    at_most("flow label", request.flow_label, 0xf_ffff)
}

/// The path record of a REQ over RoCE. It has GIDs, and the permissive LID in place of LIDs.
// rule: A17.6.1-req-path
fn path_record(path: Path, request: &ConnectRequest) -> PathRecord {
    PathRecord {
        local_lid: PathRecord::PERMISSIVE_LID,
        remote_lid: PathRecord::PERMISSIVE_LID,
        local_gid: gid_of(path.local),
        remote_gid: gid_of(path.remote),
        flow_label: request.flow_label,
        packet_rate: 0,
        traffic_class: request.traffic_class,
        hop_limit: request.hop_limit,
        service_level: 0,
        subnet_local: request.hop_limit <= 1,
        ack_timeout: request.ack_timeout,
    }
}
