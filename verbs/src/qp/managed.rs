//! QPs that communication management connects (IBTA 1.7, 12).
//!
//! PSNs have another meaning in its messages than in an [`Endpoint`]: see
//! [`QueuePair::connect_with`]. These functions keep the two apart.

use super::{ConnectOptions, Endpoint, QueuePair};
use crate::error::ConnectError;
use roce_cm::{Acceptance, ConnectRequest, PKey, Path, Reply, Request, ServiceId, ServiceType};
use roce_stack::{QpAttributes, QpKind, QpState};
use roce_wire::{PathMtu, Psn, Qpn};

/// The ECN bits of the traffic class: each end sets those of its own packets.
const ECN: u8 = 0b11;

impl QueuePair {
    /// A request for a connection of this QP to `service`, with the values of `options`. Pass its
    /// reply to [`QueuePair::connect_with`], with the same options.
    ///
    /// ```no_run
    /// # use roce_verbs::{prelude::*, cm::ConnectionManager, roce_cm::*};
    /// # fn ask(qp: &QueuePair, manager: &ConnectionManager, path: Path)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// let service = ServiceId::ip(PortSpace::Tcp, 7471);
    /// let request = ConnectRequest {
    ///     private: b"hello".to_vec(),
    ///     ..qp.connect_request(service, &ConnectOptions::default())?
    /// };
    /// manager.activate(path.local)?;
    /// manager.with(|agent, now| agent.connect(now, path, &request))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If QPs of this kind can't request a connection (datagrams, XRC targets).
    pub fn connect_request(
        &self,
        service: ServiceId,
        options: &ConnectOptions,
    ) -> Result<ConnectRequest, ConnectError> {
        let service_type = match self.kind {
            QpKind::Rc => ServiceType::Rc,
            QpKind::Uc => ServiceType::Uc,
            QpKind::XrcInitiator => ServiceType::Xrc,
            qp => return Err(ConnectError::WrongService { qp, asked: None }),
        };
        Ok(ConnectRequest {
            service_type,
            responder_resources: options.max_dest_rd_atomic,
            initiator_depth: options.max_rd_atomic,
            retry_count: options.retry_cnt,
            rnr_retry_count: options.rnr_retry,
            srq: self.srq.is_some(),
            pkey: PKey::DEFAULT,
            path_mtu: self.path_mtu(options),
            traffic_class: options.traffic_class & !ECN,
            hop_limit: match options.hop_limit {
                0 => ConnectOptions::default().hop_limit,
                limit => limit,
            },
            ack_timeout: options.timeout,
            ..ConnectRequest::new(service, self.qpn, self.psn)
        })
    }

    /// Active side: moves the QP from RESET or INIT to RTS with the peer's reply
    /// ([`Event::Replied`](roce_cm::Event::Replied)). The program then calls
    /// [`Agent::ready`](roce_cm::Agent::ready). `path` is the connection's, and `options` are those
    /// of [`QueuePair::connect_request`].
    ///
    /// In a REQ and in a REP, the sender names the PSN that its own QP expects first, and the
    /// recipient's QP starts to send at this PSN. An [`Endpoint`] has the opposite meaning: the
    /// first PSN that its QP sends.
    ///
    /// # Errors
    /// If the QP is in another state, a value is out of range, or the path's local address is not
    /// one of the device's.
    pub fn connect_with(
        &self,
        path: &Path,
        reply: &Reply,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        let negotiated = ConnectOptions {
            max_rd_atomic: options.max_rd_atomic.min(reply.responder_resources),
            max_dest_rd_atomic: options.max_dest_rd_atomic.min(reply.initiator_depth),
            rnr_retry: reply.rnr_retry_count,
            ..*options
        };
        self.connect_negotiated(path, reply.qpn, reply.sq_psn, &negotiated)
    }

    /// Passive side: moves the QP from RESET or INIT to RTS with the peer's request
    /// ([`Event::Requested`](roce_cm::Event::Requested), and its path), and returns the answer for
    /// [`Agent::accept`](roce_cm::Agent::accept). The program may add private data to the answer.
    ///
    /// Path MTU, timeout and number of retries are those of the request; `options` limit the path
    /// MTU, and the READs and atomics. Receives that the peer's first message may need must be
    /// posted before this call, in INIT ([`QueuePair::to_init`]).
    ///
    /// # Errors
    /// As for [`QueuePair::connect_with`], or if the QP's transport service differs from the
    /// request's, or the request's path MTU is larger than `options.path_mtu`. If that is `None`,
    /// the limit is the largest path MTU that fits in the interface's MTU.
    pub fn accept_with(
        &self,
        path: &Path,
        request: &Request,
        options: &ConnectOptions,
    ) -> Result<Acceptance, ConnectError> {
        self.check_service(request.service_type)?;
        let largest = self.path_mtu(options);
        if request.path_mtu > largest {
            let asked = request.path_mtu;
            return Err(ConnectError::PathMtu { asked, largest });
        }
        let negotiated = ConnectOptions {
            path_mtu: Some(request.path_mtu),
            max_rd_atomic: options.max_rd_atomic.min(request.responder_resources),
            max_dest_rd_atomic: options.max_dest_rd_atomic.min(request.initiator_depth),
            timeout: request.ack_timeout,
            retry_cnt: request.retry_count,
            rnr_retry: request.rnr_retry_count,
            traffic_class: request.traffic_class & !ECN | options.traffic_class & ECN,
            ..*options
        };
        self.connect_negotiated(path, request.qpn, request.sq_psn, &negotiated)?;
        Ok(Acceptance {
            responder_resources: negotiated.max_dest_rd_atomic,
            initiator_depth: negotiated.max_rd_atomic,
            rnr_retry_count: options.rnr_retry,
            srq: self.srq.is_some(),
            ..Acceptance::new(request, self.qpn, self.psn)
        })
    }

    /// Connects to the peer's QP with what the two ends have negotiated. `sq_psn` is the first PSN that
    /// this end sends, which is the PSN that the peer expects.
    // rule: 12.6.5-starting-psn
    fn connect_negotiated(
        &self,
        path: &Path,
        dest_qpn: Qpn,
        sq_psn: Psn,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        let gid_index = self.pd.context.gid_index(path.local)?;
        self.to_init(options.access)?;
        let remote = Endpoint {
            gid: path.remote.into(),
            qpn: dest_qpn,
            // The peer starts at the PSN that this end named as expected.
            psn: self.psn,
        };
        self.to_rtr(gid_index, &remote, options)?;
        self.to_rts_from(sq_psn, options)
    }

    fn check_service(&self, asked: ServiceType) -> Result<(), ConnectError> {
        let fits = matches!(
            (self.kind, asked),
            (QpKind::Rc, ServiceType::Rc)
                | (QpKind::Uc, ServiceType::Uc)
                | (QpKind::XrcTarget, ServiceType::Xrc)
        );
        let (qp, asked) = (self.kind, Some(asked));
        fits.then_some(())
            .ok_or(ConnectError::WrongService { qp, asked })
    }

    fn path_mtu(&self, options: &ConnectOptions) -> PathMtu {
        let largest = self.pd.context.device().active_mtu();
        options.path_mtu.unwrap_or(largest)
    }

    /// RTR to RTS, with `sq_psn` as the first PSN to send.
    pub(crate) fn to_rts_from(
        &self,
        sq_psn: Psn,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        self.modify(&QpAttributes {
            state: Some(QpState::Rts),
            sq_psn: Some(sq_psn),
            timeout: self.if_reliable(options.timeout),
            retry_cnt: self.if_requester(options.retry_cnt),
            rnr_retry: self.if_requester(options.rnr_retry),
            max_rd_atomic: self.if_requester(options.max_rd_atomic),
            ..QpAttributes::default()
        })?;
        Ok(())
    }
}
