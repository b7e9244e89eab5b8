//! A connected stream, without locks and without waiting.

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
use crate::wire::ConnectData;
use crate::wire::Control;
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

/// Of this many short data messages in a row, one completes. An unsignaled WRITE need not be acknowledged
/// at once, so that most messages of programs that answer each other cost one packet.
const MAX_UNSIGNALED: u16 = 8;

/// With fewer requests in the send queue, a call that need not wait leaves the NIC alone.
const FEW_IN_FLIGHT: usize = 16;

/// The most completions that are handled before the caller gets its turn.
const MAX_TURN: usize = 4096;

/// A connected stream.
pub(crate) struct Stream {
    link: Link,
    endpoint: Endpoint,
    inbox: Inbox,
    outbox: Outbox,
    mappings: Mappings,
    peer: ConnectData,
    /// The place in the peer's list of elements that this end writes next.
    next_element: u32,
    /// The place in its own list where the next offer of the peer appears.
    next_offer: usize,
    /// Whether the peer may send further data that the program wants.
    reads: bool,
    /// Whether the program may send further data.
    writes: bool,
    /// A message that waits for a place in the send queue.
    unsent: Option<Control>,
    /// Receives that have completed and are not posted again.
    used_receives: u16,
    /// The number of requests that each completion to come stands for.
    signaled: VecDeque<u16>,
    /// The number of requests since the last one that will complete.
    unsignaled: u16,
    end: End,
    /// Whether the program has disconnected.
    disconnected_here: bool,
    /// Whether the program knows that the connection was cut off.
    reported: bool,
}

/// The connection below.
enum Link {
    Up(Connection),
    /// Given up.
    Gone,
}

/// Whether the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Open,
    /// An end has disconnected, in order.
    Disconnected,
    /// It was cut off.
    Broken(Errno),
}

impl Stream {
    /// The stream of a connection that both ends have confirmed.
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
    fn may_speak(&self) -> bool {
        self.end != End::Disconnected && matches!(self.link, Link::Up(_))
    }

    /// Handles what has happened. With `drive`, lets the NIC work first if nothing has. Returns
    /// whether there was anything.
    pub(crate) fn progress(&mut self, drive: bool) -> bool {
        let mut changed = false;
        for _ in 0..MAX_TURN {
            // Once something has arrived, its acknowledgement can still leave with the program's answer.
            let next = if drive && !changed {
                self.endpoint.queue.poll()
            } else {
                self.endpoint.queue.take()
            };
            match next {
                Ok(Some(completion)) => self.complete(&completion),
                Ok(None) => break,
                // The queue holds what both queues of the QP can hold, so it never overruns.
                Err(_) => self.break_off(Errno::EIO),
            }
            changed = true;
        }
        self.repost();
        self.speak();
        changed
    }

    /// Asks for an event at the descriptors when something happens. The caller then calls
    /// [`Stream::progress`] once more before it sleeps.
    pub(crate) fn arm(&mut self) {
        while self.endpoint.channel.poll().is_some() {}
        self.endpoint.queue.request_notify(Notify::Next);
    }

    /// The descriptors that become readable when something happens.
    pub(crate) fn descriptors(&self, mut each: impl FnMut(RawFd)) {
        each(self.endpoint.channel.as_raw_fd());
    }

    /// The largest path MTU of the interface, which connections use.
    pub(crate) fn largest_path_mtu(&self) -> PathMtu {
        self.endpoint.nic.context.device().active_mtu()
    }

    /// Its device.
    pub(crate) fn nic(&self) -> *const Nic {
        Arc::as_ptr(&self.endpoint.nic)
    }

    /// Lets the NIC's own thread work while this one sleeps.
    pub(crate) fn hand_over(&self) {
        self.endpoint.nic.context.hand_over();
    }

    /// Whether a call lets the NIC work even if it need not wait: what a stream sends must not pile up
    /// because the program never waits.
    pub(crate) fn needs_driving(&self) -> bool {
        self.outbox.in_flight() >= FEW_IN_FLIGHT
    }

    /// Lets this thread drive the NIC while it sleeps.
    pub(crate) fn drive_while_waiting(&self) -> Option<Driving> {
        self.endpoint.channel.drive_while_waiting()
    }

    /// Takes the error of a connection that was cut off. Later calls return `None`.
    pub(crate) fn take_break(&mut self) -> Option<Errno> {
        match self.end {
            End::Broken(errno) if !std::mem::replace(&mut self.reported, true) => Some(errno),
            _ => None,
        }
    }

    /// Whether the connection was cut off, and the program does not know it.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.end, End::Broken(_)) && !self.reported
    }

    /// Whether nothing more happens in either direction.
    pub(crate) fn is_shut(&self) -> bool {
        matches!(self.end, End::Broken(_)) || !self.reads && !self.writes && self.disconnected_here
    }

    /// The protection domain of the connection.
    pub(crate) fn pd(&self) -> &ProtectionDomain {
        &self.endpoint.nic.pd
    }

    /// Ends the connection at once.
    pub(crate) fn break_off(&mut self, errno: Errno) {
        if self.end == End::Open {
            self.end = End::Broken(errno);
        }
        self.link = Link::Gone;
    }

    /// The program takes no further data.
    pub(crate) fn shut_reads(&mut self) {
        self.reads = false;
        if !self.writes {
            self.say(Control::Disconnect);
        }
    }

    /// The program sends no further data.
    pub(crate) fn shut_writes(&mut self) {
        if std::mem::replace(&mut self.writes, false) {
            self.say(if self.reads {
                Control::Shutdown
            } else {
                Control::Disconnect
            });
        }
    }

    /// The program neither sends nor receives any more.
    pub(crate) fn disconnect(&mut self) {
        (self.reads, self.writes) = (false, false);
        self.disconnected_here = true;
        self.say(Control::Disconnect);
    }

    /// Whether a message waits for a place in the send queue.
    pub(crate) fn owes_message(&self) -> bool {
        self.unsent.is_some() && matches!(self.link, Link::Up(_))
    }

    /// Whether everything that the program sent has reached the peer, or never will.
    pub(crate) fn is_flushed(&self) -> bool {
        matches!(self.link, Link::Gone) || self.unsent.is_none() && self.outbox.is_idle()
    }
}
