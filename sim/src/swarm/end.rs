//! One end of a connection: a QP, its queues, its memory, and how far it has got.

use super::memory::Region;
use super::plan::{Op, PairPlan, WindowPlan, Wrong};
use crate::connect::kind_of;
use crate::fabric::HostId;
use crate::oracle::Violation;
use roce_stack::{
    Access, CompletionQueue, Destination, Instant, Nic, PdId, QpInit, QueueLimits, Srqn, WindowId,
    XrcdId,
};
use roce_wire::Qpn;
use std::sync::Arc;

/// One end.
#[derive(Debug)]
pub(super) struct End {
    pub(super) host: HostId,
    pub(super) qpn: Qpn,
    pub(super) send_cq: Arc<CompletionQueue>,
    pub(super) recv_cq: Arc<CompletionQueue>,
    /// Neither destroyed nor restarted.
    pub(super) alive: bool,
    /// Where its receives come from, if not from a queue like that of RC.
    pub(super) pool: Option<usize>,
    /// Where its datagrams go.
    pub(super) to: Option<Destination>,
    /// That is a queue it shares.
    pub(super) shared: bool,
    /// Its requests complete in its host's CQ.
    pub(super) in_host_cq: bool,
    /// In SQD, of its own will.
    pub(super) draining: bool,
    pub(super) next_op: usize,
    pub(super) next_recv: usize,
    /// Thinking until then.
    pub(super) send_at: Instant,
    pub(super) recv_at: Instant,
    /// When it will be called, if it will.
    pub(super) called: Option<Instant>,
}

/// Where a QP takes its receives from.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    Own,
    Srq(Srqn),
    /// The SRQs of an XRC domain.
    Domain(XrcdId),
}

/// The memory of what flows from one end to the other.
#[derive(Debug)]
pub(super) struct FlowMemory {
    pub(super) out: Region,
    pub(super) target: Region,
    pub(super) inbox: Region,
    /// Those of the target.
    pub(super) windows: Vec<WindowState>,
    /// Where each request's stretch of `out` begins.
    pub(super) out_at: Vec<usize>,
    /// Where each receive's stretch of the inbox begins, and how long it is.
    pub(super) inbox_at: Vec<(usize, usize)>,
    /// Out, target and inbox: whether they are still registered.
    pub(super) registered: [bool; 3],
}

/// A window of a flow's target.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowState {
    pub(super) plan: WindowPlan,
    /// `None` once it was freed.
    pub(super) id: Option<WindowId>,
    /// The low 8 bits of its next key.
    pub(super) next_key: u8,
    /// What it was told to be bound to last.
    pub(super) bound: Option<Bound>,
    /// And before.
    pub(super) before: Option<Bound>,
}

/// Bytes of a target, and the key of a window for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
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
        from: From,
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
            From::Srq(srq) => nic.create_qp_with_srq(init, srq),
            From::Domain(domain) => nic.create_xrc_target(domain),
            From::Own => nic.create_qp(init),
        };
        let qpn = qpn.map_err(|error| Violation(format!("making a QP: {error}")))?;
        Ok(Self {
            host,
            qpn,
            send_cq,
            recv_cq,
            alive: true,
            pool: None,
            to: None,
            shared: matches!(from, From::Srq(_)),
            in_host_cq: false,
            draining: false,
            next_op: 0,
            next_recv: 0,
            send_at: Instant::ZERO,
            recv_at: Instant::ZERO,
            called: None,
        })
    }
}

/// A gap between stretches that must stay as it is.
const GAP: usize = 16;

/// Places stretches of these lengths behind each other, with gaps; gives where each
/// begins and how much it takes altogether.
fn place(lengths: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
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

/// How many bytes of this side's memory a request is about.
fn out_bytes(op: &Op) -> usize {
    match op.kind.is_local() {
        true => 0,
        false => op.len,
    }
}

/// How long the receive for a request is.
fn receive_len(op: &Op) -> usize {
    match op.wrong {
        Some(Wrong::TooLong) => op.len - 1,
        _ => op.len + op.at % 3,
    }
}

/// The lengths of a flow's regions, and what lies where in them.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) out_at: Vec<usize>,
    pub(super) out_len: usize,
    pub(super) inbox_at: Vec<(usize, usize)>,
    pub(super) inbox_len: usize,
}

impl Layout {
    /// `inbox` unless receives lie elsewhere.
    pub(super) fn of(ops: &[Op], inbox: bool) -> Self {
        let (out_at, out_len) = place(ops.iter().map(out_bytes));
        let lengths: Vec<usize> = ops
            .iter()
            .filter(|op| inbox && op.kind.consumes_receive())
            .map(receive_len)
            .collect();
        let (begins, inbox_len) = place(lengths.iter().copied());
        Self {
            out_at,
            out_len,
            inbox_at: begins.into_iter().zip(lengths).collect(),
            inbox_len,
        }
    }
}
