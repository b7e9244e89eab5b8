//! What the NIC tells beside completions (IBTA 1.7, 11.6.3).

use crate::ids::{CqId, Srqn};
use roce_wire::Qpn;

/// Something that an application may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The CQ has a completion of the kind that was asked for.
    CqNotify(CqId),
    /// The CQ overran.
    CqError(CqId),
    /// The QP went to the error state because a request of its peer was invalid, and no
    /// completion says so (IBTA 1.7, 11.6.3.2: invalid request local work queue error).
    QpRequestError(Qpn),
    /// The QP went to the error state because its peer was denied access to memory, and
    /// no completion says so (IBTA 1.7, 11.6.3.2: local access violation work queue error).
    QpAccessError(Qpn),
    /// The QP went to the error state because its completions can't be reported: its CQ
    /// has overrun (IBTA 1.7, 11.6.3.2: local work queue catastrophic error). A request
    /// that fails says so in its completion and raises no event.
    QpFatal(Qpn),
    /// The first packet of the peer has come while the QP was in state RTR.
    CommEstablished(Qpn),
    /// In state SQD, everything that was begun has completed.
    SqDrained(Qpn),
    /// The QP is in the error state and takes no more receives of its SRQ: those that
    /// it took have completed (IBTA 1.7, 10.2.9 and 11.6.3).
    // rule: 11.6.3-last-wqe
    LastWqeReached(Qpn),
    /// The SRQ has fewer receives than its limit. Told once for each time that the
    /// limit is set.
    SrqLimit(Srqn),
    /// The port has a link (again). Events of the port are raised not by the NIC, which
    /// knows nothing of links, but by whoever drives it.
    // rule: 11.6.3-port-events
    PortActive,
    /// The port has lost its link.
    PortError,
    /// The port's addresses, and so its GIDs, have changed.
    // rule: A17.3.1-gid-changes
    GidChange,
}
