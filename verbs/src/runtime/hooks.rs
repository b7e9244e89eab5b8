//! The hooks of the core: it reports to observers of an open device, and asks fault injection which calls,
//! completions and requests fail. The core knows nothing else of both.
//! [`Context`](crate::Context) attaches them when it opens a device.

use roce_port::Port;
use roce_stack::{Counters, Failure, Instant, Mismatch, Nic};
use roce_wire::Qpn;
use std::net::IpAddr;

/// Watches an open device.
pub(crate) trait Observer: Send {
    /// Called when the datapath has started.
    fn on_start(&self);

    /// Called when QPs have failed, or packets have arrived that do not fit a QP. The engine is locked, so
    /// packets wait meanwhile.
    fn on_failures(&mut self, device: &Observed<'_>, failed: Vec<Failure>, unfit: Vec<Mismatch>);
}

/// The view that an observer gets of a device.
pub(crate) struct Observed<'a> {
    pub(crate) now: Instant,
    pub(crate) nic: &'a Nic,
    pub(crate) port: &'a dyn Port,
}

/// Counts what an open device does.
pub(crate) trait Tally: Send {
    /// Called after each turn of the NIC, so that nothing is lost if the process crashes.
    fn on_turn(&mut self, counters: &Counters, lane_packets: u64);

    /// Called for each QP that becomes ready to receive.
    fn on_ready_qp(&self, has_one_peer: bool);
}

/// Makes an open device fail on purpose.
pub(crate) trait Injector: Send + Sync {
    /// Called for each new QP.
    fn on_new_qp(&self, qpn: Qpn);

    /// Called for each registered region. Returns whether its memory must vanish.
    fn strikes_region(&self) -> bool;

    /// Whether the link is down.
    fn is_cut_off(&self) -> bool;

    /// The judge of connection requests, if some are to fail.
    fn request_judge(&self) -> Option<Box<dyn RequestJudge>>;
}

/// Decides about incoming connection requests.
pub(crate) trait RequestJudge: Send {
    /// The fate of a management datagram; `None` if it is handled as usual.
    fn decide(&mut self, from: IpAddr, mad: &[u8]) -> Option<RequestFate>;
}

/// The fate of a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFate {
    /// It is rejected with this reason (IBTA 1.7, 12.6.7.2).
    Reject(u16),
    /// It is ignored.
    Ignored,
}
