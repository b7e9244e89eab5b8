//! Lookups of datagram services (SIDR).

use super::Agent;
use super::active::{private_data, request_private, wrong_state};
use super::passive::split_private;
use super::state::{Connection, State};
use super::table::Peer;
use crate::{
    CmError, ConnectionId, DatagramAcceptance, DatagramAsked, DatagramRequest, Event, Instant,
    Path, QKey, Qpn, RejectReason, SidrStatus,
};
use roce_wire::cm::{CmMessage, PrivateData, SidrRep, SidrReq};

impl Agent {
    pub(super) fn send_sidr_req(
        &mut self,
        now: Instant,
        path: Path,
        request: &DatagramRequest,
    ) -> Result<ConnectionId, CmError> {
        let private = request_private(path, request.service, request.source_port, &request.private);
        let private = private_data(&private, private.len() - request.private.len())?;
        let answer_timeout = self.answer_timeout(self.config.response_timeout);
        let connection = Connection {
            service: request.service,
            lookup: true,
            ..self.new_connection(path, answer_timeout)?
        };
        let id = connection.id;
        let mad = connection.mad(CmMessage::SidrReq(SidrReq {
            request_id: id.get(),
            pkey: request.pkey,
            service: request.service,
            private,
        }));
        self.table.insert(connection);
        self.send_until_answered(now, id, mad, State::LookupSent);
        self.check_requested_path(now, path);
        Ok(id)
    }

    pub(super) fn on_sidr_req(
        &mut self,
        now: Instant,
        path: Path,
        transaction: u64,
        req: &SidrReq<'_>,
    ) {
        let peer = Peer {
            address: path.remote,
            lookup: true,
            id: req.request_id,
        };
        if let Some(known) = self.table.find_by_peer(peer) {
            let id = known.id;
            let answer = match &known.state {
                // rule: 12.11-repeated
                State::Finished(Some(answer)) if known.path == path => Some(**answer),
                _ => None,
            };
            return match answer {
                Some(answer) => self.resend_answer(now, id, answer),
                None => self.counters.duplicates += 1,
            };
        }
        let is_for_connections = |(space, _): (crate::PortSpace, u16)| {
            !space.is_datagram() && space != crate::PortSpace::Ib
        };
        // rule: 12.11-no-listener
        if req.service.port().is_some_and(is_for_connections) {
            let status = SidrStatus::SERVICE_ID_NOT_SUPPORTED;
            return self.refuse_sidr_req(path, transaction, req, status);
        }
        let Some((ip, private)) = split_private(req.service, req.private.bytes()) else {
            let status = SidrStatus::VERSION_NOT_SUPPORTED;
            return self.refuse_sidr_req(path, transaction, req, status);
        };
        let Some(listener) = self.listeners.find(req.service, path.local) else {
            return self.hold(now, path, transaction, CmMessage::SidrReq(*req));
        };
        if !self.enter_backlog(listener) {
            return;
        }
        let answer_timeout = self.answer_timeout(0);
        let Ok(connection) = self.new_connection(path, answer_timeout) else {
            self.listeners.release_slot(listener);
            return;
        };
        let id = connection.id;
        self.table.insert(Connection {
            remote_id: Some(req.request_id),
            transaction,
            lookup: true,
            in_backlog_of: Some(listener),
            service: req.service,
            state: State::LookupReceived,
            ..connection
        });
        self.events.push_back(Event::DatagramRequested {
            connection: id,
            listener,
            path,
            request: DatagramAsked {
                service: req.service,
                ip,
                pkey: req.pkey,
                private: private.to_vec().into(),
            },
        });
    }

    // rule: 12.11-lookup
    pub(super) fn accept_lookup(
        &mut self,
        now: Instant,
        id: ConnectionId,
        acceptance: &DatagramAcceptance,
    ) -> Result<(), CmError> {
        let private = private_data(&acceptance.private, 0)?;
        let qp_and_key = (acceptance.qpn, acceptance.qkey);
        self.answer_lookup(now, id, SidrStatus::VALID, qp_and_key, private)
    }

    pub(super) fn refuse_lookup(
        &mut self,
        now: Instant,
        id: ConnectionId,
        reason: RejectReason,
        private: &[u8],
    ) -> Result<(), CmError> {
        // rule: 12.11-refused
        let status = match reason {
            RejectReason::NO_QP => SidrStatus::NO_QP,
            RejectReason::INVALID_SERVICE_ID => SidrStatus::SERVICE_ID_NOT_SUPPORTED,
            _ => SidrStatus::REJECTED,
        };
        self.answer_lookup(now, id, status, NO_QP, private_data(private, 0)?)
    }

    /// Refuses a lookup whose owner dropped it without an answer.
    pub(super) fn drop_lookup(&mut self, now: Instant, id: ConnectionId) {
        // The state is right, and empty private data fits.
        let answered = self.answer_lookup(now, id, SidrStatus::REJECTED, NO_QP, PrivateData::NONE);
        debug_assert_eq!(answered, Ok(()));
    }

    fn answer_lookup(
        &mut self,
        now: Instant,
        id: ConnectionId,
        status: SidrStatus,
        (qpn, qkey): (Qpn, QKey),
        private: PrivateData<'_, 136>,
    ) -> Result<(), CmError> {
        let connection = self.known(id)?;
        let State::LookupReceived = connection.state else {
            return Err(wrong_state(connection, "waits for its owner to name a QP"));
        };
        let path = connection.path;
        let rep = connection.mad(CmMessage::SidrRep(SidrRep {
            request_id: connection.remote_id.unwrap_or(0),
            status,
            qpn,
            service: connection.service,
            qkey,
            private,
        }));
        self.send(path, *rep);
        self.finish(now, id, Some(rep));
        Ok(())
    }

    pub(super) fn refuse_sidr_req(
        &mut self,
        path: Path,
        transaction: u64,
        req: &SidrReq<'_>,
        status: SidrStatus,
    ) {
        let rep = SidrRep {
            request_id: req.request_id,
            status,
            qpn: Qpn::QP0,
            service: req.service,
            qkey: QKey(0),
            private: PrivateData::NONE,
        };
        self.send_message(path, transaction, CmMessage::SidrRep(rep));
    }

    pub(super) fn on_sidr_rep(&mut self, path: Path, rep: &SidrRep<'_>) {
        let id = ConnectionId(rep.request_id);
        match self.table.get(id) {
            Some(c) if c.path == path && matches!(c.state, State::LookupSent(_)) => {}
            _ => {
                self.counters.unexpected += 1;
                return;
            }
        }
        let private = rep.private.bytes().to_vec().into();
        let event = if rep.status == SidrStatus::VALID {
            Event::DatagramReplied {
                connection: id,
                qpn: rep.qpn,
                qkey: rep.qkey,
                private,
            }
        } else {
            Event::DatagramRejected {
                connection: id,
                status: rep.status,
                private,
            }
        };
        self.queue_event(id, event);
        self.table.remove(id);
    }
}

/// The QP and Q_Key of an answer that names no QP.
const NO_QP: (Qpn, QKey) = (Qpn::QP0, QKey(0));
