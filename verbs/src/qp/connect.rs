//! A QP's attributes and states, and its connection to a peer.

use super::{ConnectOptions, Endpoint, QueuePair};
use crate::context::AddressOptions;
use crate::error::ConnectError;
use roce_stack::{Access, ModifyError, QpAttributes, QpConfig, QpKind, QpState, RateLimit};

impl QueuePair {
    /// The data that a peer needs to connect to this QP, with the GID at `gid_index` of the
    /// device's table. The PSN was drawn at random when the QP was created.
    ///
    /// # Errors
    /// If the table has no such entry.
    pub fn endpoint(&self, gid_index: u8) -> Result<Endpoint, ConnectError> {
        Ok(Endpoint {
            gid: self.pd.context.gid_at(gid_index)?.0,
            qpn: self.qpn,
            psn: self.psn,
        })
    }

    /// Changes attributes and state, like `ibv_modify_qp`.
    ///
    /// # Errors
    /// See [`ModifyError`]. Nothing has changed then.
    pub fn modify(&self, attributes: &QpAttributes) -> Result<(), ModifyError> {
        let shared = &self.pd.context.inner.shared;
        let (now, mut engine) = shared.lock_to_post();
        // Before ERR and RESET, process the packets that have arrived: acknowledgements complete
        // this QP's requests, and the peer's requests are acknowledged.
        match attributes.state {
            Some(QpState::Err | QpState::Reset) => engine.catch_up(now),
            _ => drop(engine.send(now)),
        }
        engine.nic.modify_qp(now, self.qpn, attributes)?;
        engine.deliver_events();
        engine.send(now);
        if attributes.state == Some(QpState::Rtr)
            && let Some(tally) = &engine.tally
        {
            tally.on_ready_qp(self.kind != QpKind::Ud);
        }
        Ok(())
    }

    /// Sets or removes the limit on the QP's send rate, in RTS or SQD. Units are those of
    /// [`RateLimit`]. Congestion control may lower the rate further.
    ///
    /// # Errors
    /// If the QP is in another state, or the limit has a burst and no rate; see [`ModifyError`].
    pub fn set_rate_limit(&self, limit: RateLimit) -> Result<(), ModifyError> {
        self.modify(&QpAttributes {
            rate_limit: Some(limit),
            ..QpAttributes::default()
        })
    }

    /// The QP's state and attributes.
    pub fn query(&self) -> (QpState, QpConfig) {
        let engine = self.pd.context.inner.shared.lock();
        let found = engine.nic.query_qp(self.qpn);
        found.unwrap_or((QpState::Reset, QpConfig::default()))
    }

    /// RESET to INIT: the QP accepts receives from now on. In INIT, changes the access rights.
    ///
    /// # Errors
    /// If the QP is in any other state.
    pub fn to_init(&self, access: Access) -> Result<(), ConnectError> {
        self.modify(&QpAttributes {
            state: Some(QpState::Init),
            access: Some(access),
            ..QpAttributes::default()
        })?;
        Ok(())
    }

    /// INIT to RTR: the QP serves the peer's requests from now on.
    ///
    /// # Errors
    /// If the QP is in another state, a value is out of range, or
    /// [`Context::path`](crate::Context::path) fails.
    pub fn to_rtr(
        &self,
        gid_index: u8,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        let device = self.pd.context.device();
        let context = &self.pd.context;
        let address = AddressOptions {
            traffic_class: options.traffic_class,
            service_level: options.service_level,
            hop_limit: options.hop_limit,
        };
        let path = context.path_with(gid_index, remote.gid, &address)?;
        self.modify(&QpAttributes {
            state: Some(QpState::Rtr),
            dest_qpn: Some(remote.qpn),
            path: Some(path),
            path_mtu: Some(options.path_mtu.unwrap_or_else(|| device.active_mtu())),
            rq_psn: Some(remote.psn),
            max_dest_rd_atomic: self.if_responder(options.max_dest_rd_atomic),
            min_rnr_timer: self.if_responder(options.min_rnr_timer),
            ..QpAttributes::default()
        })?;
        Ok(())
    }

    /// RTR to RTS: the QP sends requests from now on.
    ///
    /// # Errors
    /// If the QP is in another state or a value is out of range.
    pub fn to_rts(&self, options: &ConnectOptions) -> Result<(), ConnectError> {
        self.to_rts_from(self.psn, options)
    }

    /// RESET or INIT to RTS in one call, for QPs with a peer; [`QueuePair::activate`] is for those
    /// without. In INIT, receives can be posted before this call.
    ///
    /// `remote` is the peer's [`QueuePair::endpoint`]. The programs must exchange their endpoints
    /// themselves. Connections by communication management use [`QueuePair::connect_with`] and
    /// [`QueuePair::accept_with`] instead: their PSNs have another meaning.
    ///
    /// # Errors
    /// As for [`QueuePair::to_init`], [`QueuePair::to_rtr`] and [`QueuePair::to_rts`].
    pub fn connect(
        &self,
        gid_index: u8,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        self.to_init(options.access)?;
        self.to_rtr(gid_index, remote, options)?;
        self.to_rts(options)
    }

    /// Returns `value` if the QP sends requests and waits for answers.
    pub(super) fn if_requester<T>(&self, value: T) -> Option<T> {
        matches!(self.kind, QpKind::Rc | QpKind::XrcInitiator).then_some(value)
    }

    /// Returns `value` if the QP answers requests.
    pub(super) fn if_responder<T>(&self, value: T) -> Option<T> {
        matches!(self.kind, QpKind::Rc | QpKind::XrcTarget).then_some(value)
    }

    /// Returns `value` if the QP does at least one of these.
    pub(super) fn if_reliable<T>(&self, value: T) -> Option<T> {
        self.if_requester(())
            .or(self.if_responder(()))
            .map(|()| value)
    }
}
