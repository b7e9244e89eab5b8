//! Asynchronous events of the NIC, besides completions (IBTA 1.7, 11.6.3).

use crate::ids::{CqId, Srqn};
use roce_wire::Qpn;

/// An asynchronous event.
// rule: CA17-31-no-reregistration, CA17-32-no-port-change
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The CQ has a completion of the requested kind.
    CqNotify(CqId),
    /// The CQ overran.
    CqError(CqId),
    /// The QP went to the error state because a request of its peer was invalid, and no completion
    /// reports it (IBTA 1.7, 11.6.3.2: invalid request local work queue error).
    QpRequestError(Qpn),
    /// The QP went to the error state because its peer was denied access to memory, and no
    /// completion reports it (IBTA 1.7, 11.6.3.2: local access violation work queue error).
    QpAccessError(Qpn),
    /// The QP went to the error state because its completions can't be reported: its CQ has overrun
    /// (IBTA 1.7, 11.6.3.2: local work queue catastrophic error). A failed request reports its
    /// error in its completion and raises no event.
    QpFatal(Qpn),
    /// The first packet of the peer arrived while the QP was in state RTR.
    CommEstablished(Qpn),
    /// In state SQD, all requests that were begun have completed.
    SqDrained(Qpn),
    /// The QP is in the error state and takes no more receives of its SRQ: all receives that it
    /// took have completed (IBTA 1.7, 10.2.9 and 11.6.3).
    // rule: 11.6.3-last-wqe
    LastWqeReached(Qpn),
    /// The SRQ has fewer receives than its limit. Raised once for each time that the limit is set.
    SrqLimit(Srqn),
    /// The link has come up. The NIC has no link state: the code that drives it raises the events
    /// of the port.
    // rule: 11.6.3-port-events
    PortActive,
    /// The link has gone down.
    PortError,
    /// The port's addresses, and so its GIDs, have changed.
    // rule: A17.4.3-gid-changes
    GidChange,
    /// The NIC has stopped for good (IBTA 1.7, 11.6.3.4: local catastrophic error). The code that
    /// drives it raises this event.
    DeviceFatal,
}

impl Event {
    /// The QP that the event is about, if it is about one.
    pub const fn qpn(&self) -> Option<Qpn> {
        match *self {
            Event::QpRequestError(qpn)
            | Event::QpAccessError(qpn)
            | Event::QpFatal(qpn)
            | Event::CommEstablished(qpn)
            | Event::SqDrained(qpn)
            | Event::LastWqeReached(qpn) => Some(qpn),
            Event::CqNotify(_)
            | Event::CqError(_)
            | Event::SrqLimit(_)
            | Event::PortActive
            | Event::PortError
            | Event::GidChange
            | Event::DeviceFatal => None,
        }
    }

    /// One event of each kind, for tests of the tables that translate them.
    pub const fn one_of_each(cq: CqId, qp: Qpn, srq: Srqn) -> [Event; 13] {
        [
            Event::CqNotify(cq),
            Event::CqError(cq),
            Event::QpRequestError(qp),
            Event::QpAccessError(qp),
            Event::QpFatal(qp),
            Event::CommEstablished(qp),
            Event::SqDrained(qp),
            Event::LastWqeReached(qp),
            Event::SrqLimit(srq),
            Event::PortActive,
            Event::PortError,
            Event::GidChange,
            Event::DeviceFatal,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place in [`Event::one_of_each`]. A new event does not compile until it is here.
    fn place(event: Event) -> usize {
        match event {
            Event::CqNotify(_) => 0,
            Event::CqError(_) => 1,
            Event::QpRequestError(_) => 2,
            Event::QpAccessError(_) => 3,
            Event::QpFatal(_) => 4,
            Event::CommEstablished(_) => 5,
            Event::SqDrained(_) => 6,
            Event::LastWqeReached(_) => 7,
            Event::SrqLimit(_) => 8,
            Event::PortActive => 9,
            Event::PortError => 10,
            Event::GidChange => 11,
            Event::DeviceFatal => 12,
        }
    }

    #[test]
    fn one_of_each_holds_every_event() {
        let events = Event::one_of_each(CqId(1), Qpn::QP1, Srqn::from_bits(1));
        let places = events.map(place);
        assert_eq!(places, std::array::from_fn(|index| index));
    }
}
