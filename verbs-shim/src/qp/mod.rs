//! Queue pairs.

mod create;
mod modify;
mod post;
mod wr;

pub(crate) use create::{create_qp, create_qp_ex, destroy_qp};
pub(crate) use modify::{modify_qp, modify_qp_rate_limit, query_qp, query_qp_data_in_order};
pub(crate) use post::{each_recv, post_recv, post_send};
pub(crate) use wr::qp_to_qp_ex;

use crate::prelude::*;
use crate::state::State;
use roce_verbs::datagram::Destination;
use roce_verbs::device::Unacknowledged;
use roce_verbs::qp::QKey;
use roce_verbs::{QpKind, Qpn, QueuePair};
use std::mem::offset_of;

#[repr(C)]
pub(crate) struct Qp {
    c: CPart<IbvQpEx>,
    pub(crate) qp: QueuePair,
    kind: QpKind,
    cap: IbvQpCap,
    signal_all: bool,
    /// The attributes as the program set them.
    attr: Mutex<IbvQpAttr>,
    pub(crate) state: Arc<State>,
    /// Events that the program has not acknowledged yet.
    pub(crate) unacknowledged: Arc<Unacknowledged>,
    /// Whether the program may post with `ibv_wr_*`, and the requests it builds.
    extended: bool,
    builder: wr::Builder,
    /// Uses of the PD or XRC domain, the CQs and the SRQ.
    _uses: Vec<Use>,
}

// SAFETY: `c` is the first field, and begins with the part.
unsafe impl Part for IbvQp {
    type Object = Qp;
}

impl Qp {
    pub(crate) fn number(&self) -> u32 {
        self.qp.qpn().get()
    }

    /// Whether it takes its receives from a shared receive queue.
    pub(crate) fn has_srq(&self) -> bool {
        !self.c.get().qp_base.srq.as_ptr().is_null()
    }

    /// Acknowledges one of the QP's events, and counts it in `ibv_qp.events_completed`, which
    /// programs read.
    pub(crate) fn acknowledge(&self) {
        self.c
            .count(offset_of!(IbvQpEx, qp_base.events_completed), 1);
        self.unacknowledged.acknowledge(1);
    }

    pub(crate) fn kind(&self) -> QpKind {
        self.kind
    }

    /// The destination of a datagram.
    ///
    /// # Errors
    /// `EINVAL` if the address handle belongs to another context.
    fn destination(&self, ah: Handle<IbvAh>, qpn: Qpn, qkey: QKey) -> Result<Destination, Errno> {
        let ah = ah.get()?;
        ah.state.check_same(&self.state)?;
        Ok(ah.handle.to(qpn, qkey))
    }
}
