//! Queue pairs.

use crate::context::Context;
use crate::cq::CompletionQueue;
use crate::error::ConnectError;
use crate::gid::Gid;
use crate::pd::ProtectionDomain;
use crate::srq::SharedReceiveQueue;
use crate::xrc::XrcDomain;
use parking_lot::Mutex;
use roce_stack::port::TxMeta;
use roce_stack::{
    Access, ModifyError, PostError, QpAttributes, QpConfig, QpInit, QpKind, QpState, QueueLimits,
    RecvWr, SendFlags, SendOp, SendWr, Sge, SrqError, Srqn,
};
use roce_wire::{PathMtu, Psn, Qpn, RnrTimer};
use std::net::IpAddr;

/// How large a QP's queues are, and what completes.
#[derive(Clone, Copy, Debug)]
pub struct QpOptions {
    /// The transport service.
    pub kind: QpKind,
    /// Send requests that fit, at most 65,536.
    pub send_depth: usize,
    /// Receive requests that fit, at most 65,536.
    pub recv_depth: usize,
    /// Elements of a send request, at most 32.
    pub max_send_sge: usize,
    /// Elements of a receive request, at most 32.
    pub max_recv_sge: usize,
    /// Bytes of inline data of a send request, at most 512.
    pub max_inline: usize,
    /// Whether every send completes, or only those that ask for it.
    pub signal_all: bool,
}

impl Default for QpOptions {
    /// RC, 128 requests of 4 elements each way; sends complete if they ask for it.
    fn default() -> Self {
        Self {
            kind: QpKind::Rc,
            send_depth: 128,
            recv_depth: 128,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline: 128,
            signal_all: false,
        }
    }
}

impl QpOptions {
    fn init(
        &self,
        pd: &ProtectionDomain,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
    ) -> QpInit {
        QpInit {
            kind: self.kind,
            pd: pd.id,
            send_cq: send_cq.queue().clone(),
            recv_cq: recv_cq.queue().clone(),
            send: QueueLimits {
                depth: self.send_depth,
                max_sge: self.max_send_sge,
            },
            recv: QueueLimits {
                depth: self.recv_depth,
                max_sge: self.max_recv_sge,
            },
            max_inline: self.max_inline,
            signal_all: self.signal_all,
        }
    }
}

/// What a peer must know to connect to a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub gid: Gid,
    /// Its number.
    pub qpn: Qpn,
    /// The first PSN that it sends.
    pub psn: Psn,
}

/// Everything about a connection that has a usual value. What says how to retry and
/// how much may be outstanding is for RC; UC leaves it aside.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOptions {
    /// What the peer may do through the QP.
    pub access: Access,
    /// The path MTU; `None` takes the largest that fits in the interface's MTU.
    pub path_mtu: Option<PathMtu>,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// How long the peer is to wait when we have no receive posted.
    pub min_rnr_timer: RnrTimer,
    /// Local ACK timeout: 4.096 us x 2^timeout; 0 waits for ever.
    pub timeout: u8,
    /// Transport retries, at most 7.
    pub retry_cnt: u8,
    /// Retries when the peer has no receive posted, at most 7; 7 is for ever.
    pub rnr_retry: u8,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Time to live, or hop limit; 0 takes the usual one.
    pub hop_limit: u8,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            access: Access::REMOTE_READ
                | Access::REMOTE_WRITE
                | Access::REMOTE_ATOMIC
                | Access::FLUSH_GLOBAL,
            path_mtu: None,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            min_rnr_timer: RnrTimer::from_code(12).unwrap_or_default(),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            // ECN-capable: switches may mark instead of drop.
            traffic_class: 2,
            hop_limit: 64,
        }
    }
}

/// A send request.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Local memory.
    pub sges: &'a [Sge],
    /// Modifiers.
    pub flags: SendFlags,
}

impl<'a> SendRequest<'a> {
    /// A request that asks for a completion.
    pub fn new(wr_id: u64, op: SendOp, sges: &'a [Sge]) -> Self {
        Self {
            wr_id,
            op,
            sges,
            flags: SendFlags::SIGNALED,
        }
    }

    fn as_wr(&self) -> SendWr<'a> {
        SendWr {
            wr_id: self.wr_id,
            op: self.op,
            sges: self.sges,
            flags: self.flags,
        }
    }
}

/// A receive request.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where a SEND's bytes go.
    pub sges: &'a [Sge],
}

/// A queue pair. Destroyed when dropped; what was outstanding
/// then never completes.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) pd: ProtectionDomain,
    kind: QpKind,
    pub(crate) qpn: Qpn,
    pub(crate) psn: Psn,
    /// The multicast groups that it is attached to.
    pub(crate) groups: Mutex<Vec<IpAddr>>,
    // Keep the queues' channels alive as long as the QP completes to them.
    _send_cq: CompletionQueue,
    _recv_cq: CompletionQueue,
    // Keeps it as long as the QP takes receives from it.
    _srq: Option<SharedReceiveQueue>,
    _xrcd: Option<XrcDomain>,
}

impl QueuePair {
    pub(crate) fn new(
        pd: ProtectionDomain,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        options: &QpOptions,
    ) -> Self {
        let init = options.init(&pd, send_cq, recv_cq);
        let (qpn, psn) = {
            let mut engine = pd.context.inner.shared.lock();
            (engine.nic.create_qp(init), engine.nic.random_psn())
        };
        Self {
            pd,
            kind: options.kind,
            qpn,
            psn,
            groups: Mutex::default(),
            _send_cq: send_cq.clone(),
            _recv_cq: recv_cq.clone(),
            _srq: None,
            _xrcd: None,
        }
    }

    pub(crate) fn with_srq(
        pd: ProtectionDomain,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        srq: &SharedReceiveQueue,
        options: &QpOptions,
    ) -> Result<Self, SrqError> {
        if !srq.is_of(&pd.context) {
            return Err(SrqError::Unknown(srq.number()));
        }
        let init = options.init(&pd, send_cq, recv_cq);
        let (qpn, psn) = {
            let mut engine = pd.context.inner.shared.lock();
            let qpn = engine.nic.create_qp_with_srq(init, srq.number())?;
            (qpn, engine.nic.random_psn())
        };
        Ok(Self {
            pd,
            kind: options.kind,
            qpn,
            psn,
            groups: Mutex::default(),
            _send_cq: send_cq.clone(),
            _recv_cq: recv_cq.clone(),
            _srq: Some(srq.clone()),
            _xrcd: None,
        })
    }

    pub(crate) fn xrc_target(domain: &XrcDomain) -> Result<Self, SrqError> {
        let context = domain.context();
        let (qpn, psn) = {
            let mut engine = context.inner.shared.lock();
            let qpn = engine.nic.create_xrc_target(domain.id())?;
            (qpn, engine.nic.random_psn())
        };
        // It uses neither: its SRQs have theirs.
        let (pd, cq) = (context.alloc_pd(), context.create_cq(1));
        Ok(Self {
            pd,
            kind: QpKind::XrcTarget,
            qpn,
            psn,
            _send_cq: cq.clone(),
            _recv_cq: cq,
            _srq: None,
            _xrcd: Some(domain.clone()),
            groups: Mutex::default(),
        })
    }

    /// Its transport service.
    pub fn kind(&self) -> QpKind {
        self.kind
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// What the peer must know to connect to it, with the GID at `gid_index` of the
    /// device's table. The PSN was drawn at random when the QP was made.
    ///
    /// # Errors
    /// If the table has no such entry.
    pub fn endpoint(&self, gid_index: u8) -> Result<Endpoint, ConnectError> {
        let table = self.pd.context.gids();
        let entry = table
            .get(usize::from(gid_index))
            .ok_or(ConnectError::UnknownGid {
                index: gid_index,
                entries: table.len(),
            })?;
        Ok(Endpoint {
            gid: entry.gid,
            qpn: self.qpn,
            psn: self.psn,
        })
    }

    /// Changes attributes and state, as `ibv_modify_qp` does.
    ///
    /// # Errors
    /// See [`ModifyError`]; nothing was changed then.
    pub fn modify(&self, attributes: &QpAttributes) -> Result<(), ModifyError> {
        let shared = &self.pd.context.inner.shared;
        let now = shared.note_call();
        let mut engine = shared.lock();
        let now = engine.at(now);
        engine.nic.modify_qp(now, self.qpn, attributes)?;
        engine.deliver_events();
        engine.send(now);
        Ok(())
    }

    /// State and attributes.
    pub fn query(&self) -> (QpState, QpConfig) {
        let engine = self.pd.context.inner.shared.lock();
        let found = engine.nic.query_qp(self.qpn);
        found.map_or((QpState::Reset, QpConfig::default()), |(state, c)| {
            (state, c.clone())
        })
    }

    /// RESET to INIT: receives can be posted from now on.
    ///
    /// # Errors
    /// If the QP is in another state.
    pub fn to_init(&self, access: Access) -> Result<(), ConnectError> {
        self.modify(&QpAttributes {
            state: Some(QpState::Init),
            access: Some(access),
            ..QpAttributes::default()
        })?;
        Ok(())
    }

    /// INIT to RTR: the peer's requests are served from now on.
    ///
    /// # Errors
    /// If the QP is in another state, a value is out of range, or the address of the
    /// GID can't be used.
    pub fn to_rtr(
        &self,
        gid_index: u8,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        let device = self.pd.context.device();
        let src = self.pd.context.activate(gid_index)?;
        self.modify(&QpAttributes {
            state: Some(QpState::Rtr),
            dest_qpn: Some(remote.qpn),
            path: Some(TxMeta {
                src,
                dst: remote.gid.ip(),
                traffic_class: options.traffic_class,
                hop_limit: options.hop_limit,
            }),
            path_mtu: Some(options.path_mtu.unwrap_or_else(|| device.active_mtu())),
            rq_psn: Some(remote.psn),
            max_dest_rd_atomic: self.if_responder(options.max_dest_rd_atomic),
            min_rnr_timer: self.if_responder(options.min_rnr_timer),
            ..QpAttributes::default()
        })?;
        Ok(())
    }

    /// RTR to RTS: requests can be sent from now on.
    ///
    /// # Errors
    /// If the QP is in another state or a value is out of range.
    pub fn to_rts(&self, options: &ConnectOptions) -> Result<(), ConnectError> {
        self.modify(&QpAttributes {
            state: Some(QpState::Rts),
            sq_psn: Some(self.psn),
            timeout: self.if_reliable(options.timeout),
            retry_cnt: self.if_requester(options.retry_cnt),
            rnr_retry: self.if_requester(options.rnr_retry),
            max_rd_atomic: self.if_requester(options.max_rd_atomic),
            ..QpAttributes::default()
        })?;
        Ok(())
    }

    /// RESET to RTS in one go, for QPs with a peer; [`QueuePair::activate`] is for
    /// those without.
    ///
    /// # Errors
    /// As those of the three steps.
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

    /// An attribute of what sends requests and waits for answers.
    fn if_requester<T>(&self, value: T) -> Option<T> {
        matches!(self.kind, QpKind::Rc | QpKind::XrcInitiator).then_some(value)
    }

    /// An attribute of what answers requests.
    fn if_responder<T>(&self, value: T) -> Option<T> {
        matches!(self.kind, QpKind::Rc | QpKind::XrcTarget).then_some(value)
    }

    /// An attribute of either.
    fn if_reliable<T>(&self, value: T) -> Option<T> {
        self.if_requester(())
            .or(self.if_responder(()))
            .map(|()| value)
    }

    /// Posts a send request, and sends it.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.post_sends(core::slice::from_ref(request))
            .map_err(|(_, error)| error)
    }

    /// Posts several send requests, and sends them together.
    ///
    /// # Errors
    /// The first request that was refused, by its index; those before it were
    /// posted.
    pub fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        let shared = &self.pd.context.inner.shared;
        let now = shared.note_call();
        let mut engine = shared.lock();
        let now = engine.at(now);
        let result = requests
            .iter()
            .enumerate()
            .try_for_each(|(index, request)| {
                let posted = engine.nic.post_send(now, self.qpn, &request.as_wr());
                posted.map_err(|error| (index, error))
            });
        engine.send_posted(now, self.qpn);
        engine.deliver_events();
        result
    }

    /// Posts a SEND or WRITE of `data`, which is copied and needs no region; the
    /// request's own elements are not looked at.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_inline(&self, request: &SendRequest<'_>, data: &[u8]) -> Result<(), PostError> {
        let shared = &self.pd.context.inner.shared;
        let now = shared.note_call();
        let mut engine = shared.lock();
        let now = engine.at(now);
        let result = engine
            .nic
            .post_inline(now, self.qpn, &request.as_wr(), data);
        engine.send(now);
        engine.deliver_events();
        result
    }

    pub(crate) fn context(&self) -> &Context {
        &self.pd.context
    }

    /// Posts a send request of an XRC initiator, and sends it to an SRQ of the peer.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_send_to_srq(&self, request: &SendRequest<'_>, srq: Srqn) -> Result<(), PostError> {
        let shared = &self.pd.context.inner.shared;
        let now = shared.note_call();
        let mut engine = shared.lock();
        let now = engine.at(now);
        let wr = request.as_wr();
        engine.nic.post_send_to_srq(now, self.qpn, &wr, srq)?;
        engine.send(now);
        engine.deliver_events();
        Ok(())
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_recv(&self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let shared = &self.pd.context.inner.shared;
        let mut engine = shared.lock();
        let now = engine.at(shared.now());
        let wr = RecvWr {
            wr_id: request.wr_id,
            sges: request.sges,
        };
        engine.nic.post_recv(now, self.qpn, &wr)?;
        engine.deliver_events();
        Ok(())
    }

    /// How many requests have not completed: sends, receives.
    pub fn queued(&self) -> (usize, usize) {
        self.pd
            .context
            .inner
            .shared
            .lock()
            .nic
            .queued(self.qpn)
            .unwrap_or_default()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.leave_groups();
        let shared = &self.pd.context.inner.shared;
        let mut engine = shared.lock();
        // What has arrived is acknowledged: otherwise the peer of a program that
        // ends with its last message would wait for that in vain.
        engine.send(shared.now());
        engine.nic.destroy_qp(self.qpn);
    }
}
