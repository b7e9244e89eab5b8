//! A connected stream, without locks or blocking.

mod endpoint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gather;
mod inbox;
mod mappings;
mod outbox;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub(crate) use endpoint::Endpoint;
pub(crate) use gather::Gather;
pub(crate) use receiving::Scatter;

use crate::nic::Nic;
use crate::wire::{ConnectData, Control};
use inbox::Inbox;
use mappings::Mappings;
use nix::errno::Errno;
use outbox::Outbox;
use roce_verbs::cm::Connection;
use roce_verbs::completion::Notify;
use roce_verbs::device::Driving;
use roce_verbs::qp::PathMtu;
use roce_verbs::{ProtectionDomain, QueuePair};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// One in this many consecutive short data messages is signaled. The acknowledgement of an unsignaled
/// WRITE can be delayed, so that most messages of a request-response program cost one packet.
const MAX_UNSIGNALED: u16 = 8;

/// With fewer requests in flight, a call that need not wait does not drive the NIC.
const FEW_IN_FLIGHT: usize = 16;

/// Maximum number of completions per call of `progress`.
const MAX_TURN: usize = 4096;

/// A connected stream.
pub(crate) struct Stream {
    link: Link,
    endpoint: Endpoint,
    inbox: Inbox,
    outbox: Outbox,
    mappings: Mappings,
    peer: ConnectData,
    /// The index in the peer's list of elements to write next.
    next_element: u32,
    /// The index in the own list where the peer's next offer appears.
    next_offer: usize,
    /// Whether the receiving half is open.
    reads: bool,
    /// Whether the sending half is open.
    writes: bool,
    /// A control message that waits for a place in the send queue.
    unsent: Option<Control>,
    /// The number of receives to repost.
    used_receives: u16,
    /// For each expected completion, the number of requests that it completes.
    signaled: VecDeque<u16>,
    /// The number of requests since the last signaled one.
    unsignaled: u16,
    end: End,
    /// Whether the program has disconnected.
    disconnected_here: bool,
    /// Whether the error of a broken connection was reported to the program.
    reported: bool,
}

/// The underlying connection.
enum Link {
    Up(Connection),
    Gone,
}

/// Whether the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Open,
    /// An end has disconnected in order.
    Disconnected,
    /// The connection failed or was aborted.
    Broken(Errno),
}

impl Stream {
    /// Creates the stream of an established connection.
    pub(crate) fn new(connection: Connection, endpoint: Endpoint, peer: ConnectData) -> Self {
        let sizes = &endpoint.sizes;
        let slots = endpoint.send_slots();
        Self {
            inbox: Inbox::new(endpoint.half(), sizes.receive_queue),
            outbox: Outbox::new(endpoint.send.len(), slots, peer.credits, peer.buffer),
            mappings: Mappings::new(&peer),
            // The first element is the one in the private data.
            next_element: 1 % peer.elements.len,
            next_offer: 1,
            peer,
            reads: true,
            writes: true,
            unsent: None,
            used_receives: 0,
            signaled: VecDeque::new(),
            unsignaled: 0,
            end: End::Open,
            disconnected_here: false,
            reported: false,
            link: Link::Up(connection),
            endpoint,
        }
    }

    fn qp(&self) -> Option<&QueuePair> {
        match &self.link {
            Link::Up(connection) => Some(connection),
            Link::Gone => None,
        }
    }

    /// Whether this end may send.
    fn can_send(&self) -> bool {
        self.end != End::Disconnected && matches!(self.link, Link::Up(_))
    }

    /// Handles completions. With `drive`, drives the NIC first if there are none. Returns whether there
    /// were any.
    pub(crate) fn progress(&mut self, drive: bool) -> bool {
        let mut changed = false;
        for _ in 0..MAX_TURN {
            // Once something has arrived, the acknowledgement can still be piggybacked on the program's
            // answer.
            let next = if drive && !changed {
                self.endpoint.queue.poll()
            } else {
                self.endpoint.queue.take()
            };
            match next {
                Ok(Some(completion)) => self.complete(&completion),
                Ok(None) => break,
                // The CQ has room for all requests of both queues, so it never overruns.
                Err(_) => self.abort(Errno::EIO),
            }
            changed = true;
        }
        self.repost();
        self.send_pending();
        changed
    }

    /// Arms the descriptors for the next completion. Call [`Stream::progress`] once more before sleeping.
    pub(crate) fn arm(&mut self) {
        while self.endpoint.channel.poll().is_some() {}
        self.endpoint.queue.request_notify(Notify::Next);
    }

    /// The descriptors that become readable after [`arm`](Self::arm).
    pub(crate) fn descriptors(&self, mut each: impl FnMut(RawFd)) {
        each(self.endpoint.channel.as_raw_fd());
    }

    /// The path MTU of the interface, which connections use.
    pub(crate) fn largest_path_mtu(&self) -> PathMtu {
        self.endpoint.nic.context.device().active_mtu()
    }

    /// The stream's device.
    pub(crate) fn nic(&self) -> *const Nic {
        Arc::as_ptr(&self.endpoint.nic)
    }

    /// Hands the NIC over to its background thread while this one sleeps.
    pub(crate) fn hand_over(&self) {
        self.endpoint.nic.context.hand_over();
    }

    /// Whether a call must drive the NIC even if it need not wait, so that sends do not pile up in a
    /// program that never waits.
    pub(crate) fn needs_driving(&self) -> bool {
        self.outbox.in_flight() >= FEW_IN_FLIGHT
    }

    /// Lets this thread drive the NIC while it sleeps.
    pub(crate) fn drive_while_waiting(&self) -> Option<Driving> {
        self.endpoint.channel.drive_while_waiting()
    }

    /// Takes the error of a broken connection. Later calls return `None`.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        match self.end {
            End::Broken(errno) if !std::mem::replace(&mut self.reported, true) => Some(errno),
            _ => None,
        }
    }

    /// Whether the connection is broken and the error has not been reported.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.end, End::Broken(_)) && !self.reported
    }

    /// Whether both halves are closed.
    pub(crate) fn is_shut(&self) -> bool {
        matches!(self.end, End::Broken(_)) || !self.reads && !self.writes && self.disconnected_here
    }

    /// The protection domain of the connection.
    pub(crate) fn pd(&self) -> &ProtectionDomain {
        &self.endpoint.nic.pd
    }

    /// Aborts the connection.
    pub(crate) fn abort(&mut self, errno: Errno) {
        if self.end == End::Open {
            self.end = End::Broken(errno);
        }
        self.link = Link::Gone;
    }

    /// Shuts down the receiving half.
    pub(crate) fn shut_reads(&mut self) {
        self.reads = false;
        if !self.writes {
            self.queue_control(Control::Disconnect);
        }
    }

    /// Shuts down the sending half (half-close).
    pub(crate) fn shut_writes(&mut self) {
        if std::mem::replace(&mut self.writes, false) {
            self.queue_control(if self.reads {
                Control::Shutdown
            } else {
                Control::Disconnect
            });
        }
    }

    /// Shuts down both halves and disconnects.
    pub(crate) fn disconnect(&mut self) {
        (self.reads, self.writes) = (false, false);
        self.disconnected_here = true;
        self.queue_control(Control::Disconnect);
    }

    /// Whether a control message waits for a place in the send queue.
    pub(crate) fn has_pending_control(&self) -> bool {
        self.unsent.is_some() && matches!(self.link, Link::Up(_))
    }

    /// Whether everything has reached the peer or never will.
    pub(crate) fn is_flushed(&self) -> bool {
        matches!(self.link, Link::Gone) || self.unsent.is_none() && self.outbox.is_idle()
    }
}
