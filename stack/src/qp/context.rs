//! The context of a call on a QP, and its results.

use super::reorder::{DEFAULT_PACKETS, ReorderPool};
use crate::congestion::Congestion;
use crate::counters::{Counters, DropReason};
use crate::event::Event;
use crate::ids::Handle;
use crate::memory::MemoryTable;
use crate::observe::Observer;
use crate::peer_window::PeerWindows;
use crate::persist::Persists;
use crate::srq::SrqTable;
use crate::time::Instant;
use crate::transmit::Flow;
use std::collections::VecDeque;

/// The context of a call on a QP: all that it can access outside of itself.
pub(crate) struct Cx<'a> {
    pub(crate) now: Instant,
    /// The QP in the NIC's table.
    pub(crate) handle: Handle,
    pub(crate) nic: &'a mut Shared,
    /// The free bytes of the peer window.
    pub(crate) peer_room: u64,
    /// No packet follows the requests that the QP sends now: no reply, and no packet of another QP.
    pub(crate) nothing_follows: bool,
    pub(crate) outcome: Outcome,
    pub(crate) observe: Observer<'a>,
}

impl Cx<'_> {
    /// Drops the packet that is being handled.
    #[cold]
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.nic.counters.drop(reason);
        self.observe.dropped(reason);
    }

    /// Drops packets that had been kept.
    #[cold]
    pub(crate) fn drop_kept(&mut self, packets: u64, reason: DropReason) {
        for _ in 0..packets {
            self.nic.counters.drop(reason);
        }
        self.observe.dropped_kept(packets, reason);
    }
}

/// The parts of a NIC that its QPs share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) srqs: SrqTable,
    pub(crate) memory: MemoryTable,
    pub(crate) counters: Counters,
    pub(crate) events: VecDeque<Event>,
    pub(crate) reorder: ReorderPool,
    pub(crate) congestion: Congestion,
    pub(crate) peer_windows: PeerWindows,
    /// The latest estimate, by any QP, of the delay that hosts add to a round trip.
    pub(crate) slack: Option<Slack>,
    pub(crate) persists: Persists,
}

impl Shared {
    pub(crate) fn new(window_bytes: usize) -> Self {
        Self {
            srqs: SrqTable::default(),
            memory: MemoryTable::default(),
            counters: Counters::default(),
            events: VecDeque::new(),
            reorder: ReorderPool::new(DEFAULT_PACKETS),
            congestion: Congestion::default(),
            peer_windows: PeerWindows::new(window_bytes),
            slack: None,
            persists: Persists::default(),
        }
    }
}

/// The delay, in nanoseconds, that hosts add to a round trip: what a requester has learned from late responses, with
/// which the next QP starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack(pub(crate) u64);

/// The work that a call leaves to the NIC.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The QP had more to send than [`Cx::peer_room`] allows.
    pub(crate) out_of_peer_room: bool,
    /// The QP has a new CNP to send.
    pub(crate) cnp_due: bool,
    /// A CNP has reduced the QP's rate to this, in bits a second.
    pub(crate) slowed_to: Option<f64>,
    /// The report for the port about packets that it keeps in memory.
    pub(crate) report: Option<Report>,
}

/// A report for the port about packets that it keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The peer has acknowledged packets. [`Qp::take_acknowledged`](super::Qp::take_acknowledged)
    /// returns up to which position.
    Acknowledged,
    /// The flow has ended.
    Ended(Flow),
}

/// How a QP's turn to send ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is nothing more to send until something happens.
    Idle,
    /// There is more to send, after the other QPs have had their turn.
    More,
    /// There is more to send, but the port is full.
    PortFull,
    /// The port has no room for packets to the QP's peer, and may have some for others.
    PeerFull,
}
