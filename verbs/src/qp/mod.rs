//! Queue pairs, shared receive queues and XRC domains.

mod connect;
mod counting;
pub(crate) mod datagram;
mod endpoint;
mod fixed;
mod managed;
mod options;
pub(crate) mod post;
mod srq;
mod xrc;

pub use crate::error::{ConnectError, QpError};
pub use endpoint::{Endpoint, ParseEndpointError};
pub use fixed::{FixedAttributes, FixedAttributesError};
pub use options::{ConnectOptions, QpOptions};
pub use roce_stack::{
    CreateQpError, MAX_QUEUE_DEPTH, MAX_RD_ATOMIC, MAX_SRQS, ModifyError, QpAttributes, QpConfig,
    QpCongestion, QpKind, QpState, QpStatus, QpTraffic, RateLimit, SrqAttributes, SrqError,
    SrqStatus, Srqn, largest_path_mtu,
};
pub use roce_wire::{PKey, PathMtu, Psn, QKey, Qpn, RnrTimer};
pub use srq::{SharedReceiveQueue, SrqOptions};
pub use xrc::{XrcDomain, XrcFileError, XrcFileOptions, XrcFiles};

use crate::completion::CompletionQueue;
use crate::context::Context;
use crate::pd::ProtectionDomain;
use parking_lot::Mutex;
use roce_stack::Nic;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue pair. Dropping it destroys it: outstanding requests never complete, the completion
/// queues drop the completions that they still hold for it, and its events that nobody has taken
/// vanish.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) pd: ProtectionDomain,
    kind: QpKind,
    pub(crate) qpn: Qpn,
    pub(crate) psn: Psn,
    pub(crate) groups: Mutex<Vec<IpAddr>>,
    // Keep the queues' channels alive as long as the QP completes to them.
    _send_cq: CompletionQueue,
    _recv_cq: CompletionQueue,
    /// Kept alive as long as the QP takes receives from it.
    srq: Option<SharedReceiveQueue>,
    _xrcd: Option<XrcDomain>,
    /// Whether the NIC has destroyed it.
    is_destroyed: AtomicBool,
}

impl ProtectionDomain {
    /// A QP in state RESET that takes its receives from `srq`. The receive sizes in `options` have
    /// no effect.
    ///
    /// # Errors
    /// If the SRQ belongs to another context, or as for [`ProtectionDomain::create_qp`].
    pub fn create_qp_with_srq(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        srq: &SharedReceiveQueue,
        options: &QpOptions,
    ) -> Result<QueuePair, QpError> {
        if !srq.belongs_to(&self.context) {
            return Err(CreateQpError::from(SrqError::Unknown(srq.number())).into());
        }
        let init = options.init(self, send_cq, recv_cq);
        let mut qp = QueuePair::new(self.clone(), options.kind, [send_cq, recv_cq], |nic| {
            nic.create_qp_with_srq(init, srq.number())
        })?;
        qp.srq = Some(srq.clone());
        Ok(qp)
    }

    /// A QP in state RESET.
    ///
    /// # Errors
    /// If all 130,048 QP numbers of this open device are in use, or, for its first QP, if 127 open
    /// devices have QPs on the interface already, counted over all processes.
    pub fn create_qp(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        options: &QpOptions,
    ) -> Result<QueuePair, QpError> {
        let init = options.init(self, send_cq, recv_cq);
        QueuePair::new(self.clone(), options.kind, [send_cq, recv_cq], |nic| {
            nic.create_qp(init)
        })
    }
}

impl QueuePair {
    fn new(
        pd: ProtectionDomain,
        kind: QpKind,
        [send_cq, recv_cq]: [&CompletionQueue; 2],
        create: impl FnOnce(&mut Nic) -> Result<Qpn, CreateQpError>,
    ) -> Result<Self, QpError> {
        let (qpn, psn) = {
            let mut engine = pd.context.inner.shared.lock_with_qpn_range()?;
            let qpn = create(&mut engine.nic)?;
            if let Some(injector) = &pd.context.inner.injector {
                injector.on_new_qp(qpn);
            }
            (qpn, engine.nic.random_psn())
        };
        Ok(Self {
            pd,
            kind,
            qpn,
            psn,
            groups: Mutex::default(),
            _send_cq: send_cq.clone(),
            _recv_cq: recv_cq.clone(),
            srq: None,
            _xrcd: None,
            is_destroyed: AtomicBool::new(false),
        })
    }

    fn xrc_target(domain: &XrcDomain) -> Result<Self, QpError> {
        let context = domain.context();
        // An XRC target uses neither of these: each of its SRQs has its own.
        let (pd, cq) = (context.alloc_pd(), context.create_cq(1));
        let mut qp = Self::new(pd, QpKind::XrcTarget, [&cq, &cq], |nic| {
            nic.create_xrc_target(domain.id())
        })?;
        qp._xrcd = Some(domain.clone());
        Ok(qp)
    }

    /// The QP's transport service.
    pub fn kind(&self) -> QpKind {
        self.kind
    }

    /// The QP's number.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    pub(crate) fn context(&self) -> &Context {
        &self.pd.context
    }

    /// The QP's state, rate, round trips and counters. `None` only after [`QueuePair::destroy`].
    pub fn status(&self) -> Option<QpStatus> {
        let shared = &self.pd.context.inner.shared;
        let mut engine = shared.lock();
        let now = engine.nic_time(shared.now());
        engine.nic.qp_status(now, self.qpn)
    }

    /// The state of the QP's congestion control: its rate, its round trips, and the marks and
    /// notifications that it has received.
    pub fn congestion(&self) -> QpCongestion {
        let shared = &self.context().inner.shared;
        let mut engine = shared.lock();
        let now = engine.nic_time(shared.now());
        let congestion = engine.nic.qp_congestion(now, self.qpn);
        congestion.unwrap_or_default()
    }

    /// The numbers of sends and of receives that have not completed.
    pub fn queued(&self) -> (usize, usize) {
        let engine = self.pd.context.inner.shared.lock();
        engine.nic.queued(self.qpn).unwrap_or_default()
    }
}

impl QueuePair {
    /// Destroys the QP before this value is dropped. Afterwards, this value has no QP, and its number
    /// may become another one's. For a library whose callers destroy the QP while it must keep this
    /// value.
    pub fn destroy(&self) {
        if self.is_destroyed.swap(true, Ordering::Relaxed) {
            return;
        }
        self.leave_groups();
        let shared = &self.pd.context.inner.shared;
        let mut engine = shared.lock();
        // Acknowledge the packets that have arrived. Otherwise the peer of a program that exits
        // right after its last message has arrived would retransmit until its retries are used up.
        engine.catch_up(shared.now());
        engine.nic.destroy_qp(self.qpn);
        engine.withdraw_events(|event| event.qpn() == Some(self.qpn));
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.destroy();
    }
}
