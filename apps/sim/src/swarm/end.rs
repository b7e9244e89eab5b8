//! One end of a connection: a QP, its queues, its memory, and its progress.

use super::memory::{REGION_ACCESS, Region};
use super::plan::{Op, PairPlan, RequestFault, WindowPlan};
use crate::connect::kind_of;
use crate::fabric::HostId;
use crate::oracle::{Violation, about};
use roce_cm::{Agent, ConnectionId};
use roce_stack::{
    Access, CompletionQueue, Destination, Instant, MwId, Nic, PdId, QpInit, QueueLimits, Srqn,
    XrcdId,
};
use roce_wire::Qpn;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One end.
#[derive(Debug)]
pub(super) struct End {
    pub(super) host: HostId,
    pub(super) qpn: Qpn,
    pub(super) send_cq: Arc<CompletionQueue>,
    pub(super) recv_cq: Arc<CompletionQueue>,
    /// Whether it is neither destroyed nor lost in a restart.
    pub(super) alive: bool,
    /// The pool of its receives; `None` if it has none, or is an RC QP without an SRQ.
    pub(super) pool: Option<usize>,
    /// The destination of its datagrams.
    pub(super) to: Option<Destination>,
    /// Whether the pool is a shared queue.
    pub(super) shared: bool,
    /// Whether its requests complete in its host's CQ.
    pub(super) in_host_cq: bool,
    /// Whether its QP may send.
    pub(super) ready: bool,
    /// Its connection, if the connection manager makes it.
    pub(super) managed: Managed,
    /// Whether it has entered SQD on request.
    pub(super) draining: bool,
    pub(super) next_op: usize,
    pub(super) next_recv: usize,
    /// The application waits until this time before it sends.
    pub(super) send_at: Instant,
    pub(super) recv_at: Instant,
    /// The time of its scheduled call, if any.
    pub(super) next_call: Option<Instant>,
}

/// The source of a QP's receives.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReceiveSource {
    Own,
    Srq(Srqn),
    /// The SRQs of an XRC domain.
    Domain(XrcdId),
}

/// The memory of one flow.
#[derive(Debug)]
pub(super) struct FlowMemory {
    pub(super) out: Region,
    pub(super) target: Region,
    pub(super) inbox: Region,
    /// The windows of the target.
    pub(super) windows: Vec<WindowState>,
    /// Offset of each request's range in `out`.
    pub(super) out_at: Vec<usize>,
    /// Offset and length of each receive's range in the inbox.
    pub(super) inbox_at: Vec<(usize, usize)>,
    /// Whether out, target and inbox are still registered.
    pub(super) registered: [bool; 3],
    /// The access that the target's key grants.
    pub(super) grant: Grant,
}

/// A window of a flow's target.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowState {
    pub(super) plan: WindowPlan,
    /// `None` after it is freed.
    pub(super) id: Option<MwId>,
    /// The low 8 bits of its next key.
    pub(super) next_key: u8,
    /// Its last requested binding.
    pub(super) bound: Option<Binding>,
    /// The requested binding before that.
    pub(super) previous: Option<Binding>,
}

/// A range of the target, and the window key for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) rkey: u32,
    pub(super) from: usize,
    pub(super) len: usize,
    pub(super) access: Access,
    pub(super) zero_based: bool,
}

impl End {
    pub(super) fn new(
        nic: &mut Nic,
        pd: PdId,
        host: HostId,
        (plan, side): (&PairPlan, usize),
        from: ReceiveSource,
        [send_cq, recv_cq]: [Arc<CompletionQueue>; 2],
    ) -> Result<Self, Violation> {
        let limits = QueueLimits {
            depth: plan.depth,
            max_sge: plan.max_sge,
        };
        let init = QpInit {
            kind: kind_of(plan.connect.kind, side),
            pd,
            send_cq: Arc::clone(&send_cq),
            recv_cq: Arc::clone(&recv_cq),
            send: limits,
            recv: limits,
            max_inline: plan.max_inline,
            signal_all: plan.signal_all,
        };
        let qpn = match from {
            ReceiveSource::Srq(srq) => nic.create_qp_with_srq(init, srq),
            ReceiveSource::Domain(domain) => nic.create_xrc_target(domain),
            ReceiveSource::Own => nic.create_qp(init),
        };
        let qpn = qpn.map_err(about("making a QP"))?;
        Ok(Self {
            host,
            qpn,
            send_cq,
            recv_cq,
            alive: true,
            pool: None,
            to: None,
            shared: matches!(from, ReceiveSource::Srq(_)),
            in_host_cq: false,
            ready: !plan.managed,
            managed: Managed::default(),
            draining: false,
            next_op: 0,
            next_recv: 0,
            send_at: Instant::ZERO,
            recv_at: Instant::ZERO,
            next_call: None,
        })
    }
}

/// Bytes between ranges, which must stay unchanged.
const GAP: usize = 16;

/// Lays out ranges of these lengths with gaps. Returns the offset of each, and the total length.
fn lay_out(lengths: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
    let mut at = 0;
    let places = lengths
        .map(|len| {
            let here = at;
            at += len + GAP;
            here
        })
        .collect();
    (places, at)
}

/// The number of bytes of this side's memory that a request uses.
fn out_bytes(op: &Op) -> usize {
    match op.kind.is_local() {
        true => 0,
        false => op.len,
    }
}

/// The length of the receive for a request.
fn receive_len(op: &Op) -> usize {
    match op.fault {
        Some(RequestFault::TooLong) => op.len - 1,
        _ => op.len + op.at % 3,
    }
}

/// The lengths of a flow's regions, and the layout within them.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) out_at: Vec<usize>,
    pub(super) out_len: usize,
    pub(super) inbox_at: Vec<(usize, usize)>,
    pub(super) inbox_len: usize,
}

impl Layout {
    /// The layout for these requests. Without `inbox`, the inbox has no receives.
    pub(super) fn of(ops: &[Op], inbox: bool) -> Self {
        let (out_at, out_len) = lay_out(ops.iter().map(out_bytes));
        let lengths: Vec<usize> = ops
            .iter()
            .filter(|op| inbox && op.kind.consumes_receive())
            .map(receive_len)
            .collect();
        let (begins, inbox_len) = lay_out(lengths.iter().copied());
        Self {
            out_at,
            out_len,
            inbox_at: begins.into_iter().zip(lengths).collect(),
            inbox_len,
        }
    }
}

/// The access that a key of a flow's target grants now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) access: Access,
    /// Whether the region is in the protection domain of the QP.
    pub(super) own_pd: bool,
    /// The address of the region before it was moved to another one.
    pub(super) stale_iova: Option<u64>,
}

impl Default for Grant {
    fn default() -> Self {
        Self {
            access: REGION_ACCESS,
            own_pd: true,
            stale_iova: None,
        }
    }
}

/// The connection manager of a host.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) agent: Agent,
    /// The time of its scheduled call, if any.
    pub(super) next_call: Option<Instant>,
    /// The pair and side of each connection.
    pub(super) names: BTreeMap<ConnectionId, (usize, usize)>,
}

/// How far one end of a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has sent no message.
    #[default]
    Idle,
    /// It has requested the connection.
    Asked,
    /// It has accepted the request.
    Accepted,
    /// It considers the connection established.
    Open,
    /// It has asked to end the connection.
    Closing,
    /// It has agreed to end the connection, and waits for late packets.
    Waiting,
    /// The connection is over, or was never made.
    Over,
}

/// The connection of an end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Managed {
    pub(super) phase: Phase,
    pub(super) id: Option<ConnectionId>,
}
