//! Connected sockets for flows: one for each destination ([`TxMeta`]) and UDP source port.
//!
//! A connected socket saves the kernel a look-up of the route for each datagram, and can send
//! without a copy ([`Pipe`](crate::sys::splice::Pipe)). Its source port differs from flow to flow,
//! so that networks and NICs spread the flows over links and queues. It never receives, because
//! replies go to port 4791.
//!
//! The number of sockets is limited. A flow that finds no free slot uses the socket of its source
//! address, which sends from port 4791. A flow takes over the slot whose socket has not been used for
//! the longest time, if that is more than [`IDLE_FLUSHES`] flushes.
//!
//! # IPv4 identification
//!
//! The ICRC covers the identification, and a connected socket counts it up from a random start. So
//! the port learns the number when it opens the socket ([`identification`]), and counts along.
//! After any error, the port learns the number again. Every [`CHECK_EVERY`] datagrams, it compares
//! its count with the kernel's.

mod method;
mod open;
mod splicer;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use roce_stack::{Flow, TxMeta};
use roce_wire::Qpn;
use socket2::Socket;

use crate::config::UdpPortConfig;
use crate::counters::UdpCounters;
use crate::queue::{FlowIndex, Via};
use crate::sys::{identification, options};

pub(crate) use splicer::Splicer;

/// A flow may take over the slot of a socket that was not used in this many flushes of the port.
const IDLE_FLUSHES: u64 = 1 << 14;

/// After the system has refused a socket, the port opens none for this many flushes.
const PAUSE_FLUSHES: u64 = 1 << 12;

/// The number of datagrams after which the port compares its identification with the kernel's.
const CHECK_EVERY: u32 = 1 << 14;

/// Identifies the flow that a socket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    to: TxMeta,
    source_port: u16,
}

/// A connected socket.
pub(crate) struct FlowSocket {
    key: Key,
    /// The port that the socket is bound to. It differs from the key's if that port was in use.
    pub(crate) source_port: u16,
    socket: Socket,
    /// Over IPv4, the identification of the next datagram that the port queues.
    next_id: u16,
    /// Whether `next_id` agrees with the kernel's count, as far as the port knows.
    id_is_known: bool,
    /// The number of datagrams sent since `next_id` was last compared with the kernel's count.
    sent_since_check: u32,
    /// The number of queued datagrams.
    queued: usize,
    /// The flush in which the socket was last used.
    last_used: u64,
    /// Until this flush, the flow uses its source address's socket, because the identification
    /// could not be learned.
    unusable_until: u64,
    /// The segment size that is set at the socket, in bytes; 0 if none is set.
    segment_bytes: u16,
    /// Whether the oldest queued datagram was already retried. The first error may belong to an
    /// earlier packet, so it causes one retry.
    pub(crate) retried: bool,
}

impl FlowSocket {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Records that the kernel accepted a datagram.
    pub(crate) fn note_sent(&mut self) {
        self.queued -= 1;
        self.sent_since_check += 1;
        self.retried = false;
    }

    /// Records that a datagram was dropped. The kernel may or may not have counted it.
    pub(crate) fn note_dropped(&mut self) {
        self.queued -= 1;
        self.retried = false;
        self.invalidate_id();
    }

    /// Makes the port compare the identification with the kernel's the next time it begins a
    /// datagram and none is queued.
    pub(crate) fn request_id_check(&mut self) {
        self.sent_since_check = CHECK_EVERY;
    }

    /// Makes the port learn the identification again.
    pub(crate) fn invalidate_id(&mut self) {
        self.id_is_known = false;
    }

    /// Whether the queued datagrams may have wrong identifications.
    pub(crate) fn has_unknown_id(&self) -> bool {
        !self.id_is_known && self.key.to.src.is_ipv4()
    }

    /// Makes the kernel cut datagrams that carry no segment size of their own (`UDP_SEGMENT`
    /// control message) into packets of `bytes` bytes. 0 switches that off.
    pub(crate) fn set_segment_bytes(&mut self, bytes: u16) -> io::Result<()> {
        if self.segment_bytes != bytes {
            let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
            options::set(self.fd(), level, name, bytes.into())?;
            self.segment_bytes = bytes;
        }
        Ok(())
    }

    /// Whether the kernel sends a datagram of `len` bytes uncut if it carries no segment size of
    /// its own.
    pub(crate) fn leaves_unsegmented(&self, len: usize) -> bool {
        self.segment_bytes == 0 || len <= usize::from(self.segment_bytes)
    }

    /// Learns or compares `next_id` if that is due. Returns whether it is known.
    fn ensure_id_is_known(&mut self, counters: &mut UdpCounters) -> bool {
        let IpAddr::V4(source) = self.key.to.src else {
            return true;
        };
        if self.queued > 0 || (self.id_is_known && self.sent_since_check < CHECK_EVERY) {
            return self.id_is_known;
        }
        let Ok(next_id) = identification::next(self.fd(), source) else {
            self.id_is_known = false;
            return false;
        };
        // `next` sends a probe, which itself takes the expected number, so the next one is one
        // higher.
        if self.id_is_known && next_id != self.next_id.wrapping_add(1) {
            counters.tx_wrong_ids += u64::from(self.sent_since_check);
        }
        self.next_id = next_id;
        self.id_is_known = true;
        self.sent_since_check = 0;
        true
    }
}

/// The sockets of a port.
pub(crate) struct Flows {
    slots: Box<[Option<FlowSocket>]>,
    /// The slot of each flow that has a socket.
    by_key: HashMap<Key, FlowIndex>,
    /// All slots are in use, and none becomes free before this flush.
    full_until: u64,
    /// The flow of the last packet, and the index of its socket.
    last_choice: Option<(TxMeta, Flow, FlowIndex)>,
    /// The number of flushes so far.
    flushes: u64,
    /// The port opens no socket before this flush.
    paused_until: u64,
    /// The last flow for which the system refused a socket, and the flush in which it did.
    last_refused: Option<(Key, u64)>,
}

impl Flows {
    /// A table for at most `max_sockets` sockets.
    pub(crate) fn new(max_sockets: usize) -> Self {
        let max_sockets = max_sockets.min(usize::from(FlowIndex::MAX));
        Self {
            slots: (0..max_sockets).map(|_| None).collect(),
            by_key: HashMap::new(),
            full_until: 0,
            last_choice: None,
            flushes: 0,
            paused_until: 0,
            last_refused: None,
        }
    }

    pub(crate) fn get(&self, index: FlowIndex) -> Option<&FlowSocket> {
        self.slots.get(usize::from(index))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: FlowIndex) -> Option<&mut FlowSocket> {
        self.slots.get_mut(usize::from(index))?.as_mut()
    }

    /// The maximum number of sockets.
    pub(crate) fn max_sockets(&self) -> usize {
        self.slots.len()
    }

    /// Counts a flush of the port.
    pub(crate) fn note_flush(&mut self) {
        self.flushes += 1;
    }

    /// Records that the queue begins a datagram that leaves from the flow's socket.
    pub(crate) fn note_datagram_begun(&mut self, index: FlowIndex) {
        if let Some(socket) = self.get_mut(index) {
            socket.queued += 1;
            socket.next_id = socket.next_id.wrapping_add(1);
        }
    }

    /// Closes the sockets of addresses for which `is_there` returns false. The caller has emptied
    /// their queues.
    pub(crate) fn retain_addresses(&mut self, is_there: impl Fn(IpAddr) -> bool) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|s| !is_there(s.key.to.src)) {
                *slot = None;
            }
        }
        self.by_key.retain(|key, _| is_there(key.to.src));
        self.full_until = 0;
        self.last_choice = None;
    }

    /// Returns the socket that a packet of the flow leaves from, and its source port. `None` means
    /// the socket of the packet's source address, which is `address_socket`.
    pub(crate) fn choose(
        &mut self,
        config: &UdpPortConfig,
        address_socket: BorrowedFd<'_>,
        to: &TxMeta,
        flow: Flow,
        counters: &mut UdpCounters,
    ) -> Option<(Via, u16)> {
        if self.slots.is_empty() {
            return None;
        }
        let index = match &self.last_choice {
            Some((last_to, last_flow, index)) if last_flow == &flow && last_to == to => *index,
            _ => {
                let index = self.find(config, address_socket, to, flow, counters)?;
                self.last_choice = Some((*to, flow, index));
                index
            }
        };
        let flushes = self.flushes;
        let socket = self.get_mut(index)?;
        socket.last_used = flushes;
        if flushes < socket.unusable_until {
            return None;
        }
        if !socket.ensure_id_is_known(counters) {
            if socket.queued == 0 {
                counters.tx_flows_refused += 1;
                socket.unusable_until = flushes + PAUSE_FLUSHES;
            }
            return None;
        }
        let via = Via {
            flow: Some(index),
            next_id: socket.next_id,
        };
        Some((via, socket.source_port))
    }

    /// Returns the index of the flow's socket, and opens one if there is none and a slot is free.
    fn find(
        &mut self,
        config: &UdpPortConfig,
        address_socket: BorrowedFd<'_>,
        to: &TxMeta,
        flow: Flow,
        counters: &mut UdpCounters,
    ) -> Option<FlowIndex> {
        // A flow's socket lacks the options for multicast. All flows between QP1s have the same
        // source port, and `open` tries only a few ports, so few of these flows at one address
        // could have sockets. No receiver depends on the source port.
        if to.dst.is_multicast() || flow.to_qp == Qpn::QP1 {
            return None;
        }
        let key = Key {
            to: *to,
            source_port: flow.source_port(config.source_port_secret),
        };
        if let Some(&index) = self.by_key.get(&key) {
            return Some(index);
        }
        if self.flushes < self.full_until {
            counters.tx_flows_full += 1;
            return None;
        }
        let was_refused = |(refused, flush): (Key, u64)| {
            refused == key && self.flushes.saturating_sub(flush) < PAUSE_FLUSHES
        };
        if self.flushes < self.paused_until || self.last_refused.is_some_and(was_refused) {
            return None;
        }
        let Some(index) = self.free_slot() else {
            counters.tx_flows_full += 1;
            return None;
        };
        match open::open(config, &key, address_socket) {
            Ok(socket) => {
                counters.tx_flows_opened += 1;
                if let Some(old) = self.slots[usize::from(index)].replace(socket) {
                    self.by_key.remove(&old.key);
                }
                self.by_key.insert(key, index);
                Some(index)
            }
            Err(error) => {
                counters.tx_flows_refused += 1;
                if is_shortage(&error) {
                    self.paused_until = self.flushes + PAUSE_FLUSHES;
                } else {
                    self.last_refused = Some((key, self.flushes));
                }
                None
            }
        }
    }

    /// A slot without a socket, or else the one whose socket has been idle for the longest time, if
    /// that is long enough.
    fn free_slot(&mut self) -> Option<FlowIndex> {
        let idle_since = |slot: &Option<FlowSocket>| slot.as_ref().map(|socket| socket.last_used);
        let slots = self.slots.iter().enumerate();
        let (at, slot) = slots.min_by_key(|(_, slot)| idle_since(slot))?;
        if let Some(socket) = slot {
            let free_from = socket.last_used + IDLE_FLUSHES + 1;
            if self.flushes < free_from {
                self.full_until = free_from;
                return None;
            }
            if socket.queued > 0 {
                return None;
            }
        }
        FlowIndex::try_from(at).ok()
    }
}

/// Whether the process or the system lacks a resource, so that opening a socket for another
/// destination would fail, too.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EMFILE
                | libc::ENFILE
                | libc::ENOMEM
                | libc::ENOBUFS
                | libc::EPERM
                | libc::EADDRNOTAVAIL
        )
    )
}
