//! Sockets for flows: one for each destination and source port, connected.
//!
//! A connected socket saves the kernel a look-up of the route for each datagram, and can send
//! without a copy ([`Pipe`](crate::sys::splice::Pipe)). Its source port differs from flow to flow,
//! so that networks and NICs spread them. It never receives: replies go to port 4791.
//!
//! The sockets are few: a table of [`WAYS`] places for each of some sets. A flow that finds no place
//! uses the address's own socket, from port 4791. A place is taken over when its socket has not been
//! used for a while.
//!
//! # IPv4 identification
//!
//! The ICRC covers it, and a connected socket counts it upwards from a random start. So it is
//! learned when the socket is opened (`identification`), and counted along. It is learned again
//! after any error, and compared every [`CHECK_EVERY`] datagrams.

mod cheaper;
mod open;
mod splicer;

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

/// The places in each set.
const WAYS: usize = 4;

/// A socket that was not used in this many flushes of the port makes room for another flow's.
const IDLE_FLUSHES: u64 = 1 << 14;

/// After the system has refused a socket, none is opened for this many flushes.
const PAUSE_FLUSHES: u64 = 1 << 12;

/// The number of datagrams after which the identification is compared with the kernel's.
const CHECK_EVERY: u32 = 1 << 14;

/// What a socket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    to: TxMeta,
    source_port: u16,
}

/// A connected socket.
pub(crate) struct FlowSocket {
    key: Key,
    /// The port that it is bound to. It differs from the key's if that was in use.
    pub(crate) source_port: u16,
    socket: Socket,
    /// The identification of the next datagram that is queued, over IPv4.
    next_id: u16,
    /// Whether `next_id` is right.
    id_is_known: bool,
    /// Datagrams sent since it was compared.
    unchecked: u32,
    /// Datagrams that are queued.
    queued: usize,
    /// The flush in which it was used last.
    used: u64,
    /// The flow sends from port 4791 before this flush, because the identification could not be
    /// learned.
    rests_until: u64,
    /// The segment size that is set at the socket; 0 if none.
    segment: u16,
    /// An error was reported that may belong to an earlier packet, so the datagram was sent again.
    pub(crate) tried_again: bool,
}

impl FlowSocket {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Notes that the kernel took a datagram.
    pub(crate) fn note_sent(&mut self) {
        self.queued -= 1;
        self.unchecked += 1;
        self.tried_again = false;
    }

    /// Notes that a datagram was dropped. Nobody knows whether the kernel counted it.
    pub(crate) fn note_dropped(&mut self) {
        self.queued -= 1;
        self.tried_again = false;
        self.doubt();
    }

    /// Has the identification compared before the next datagram that finds none queued.
    pub(crate) fn check_soon(&mut self) {
        self.unchecked = CHECK_EVERY;
    }

    /// Has the identification learned again.
    pub(crate) fn doubt(&mut self) {
        self.id_is_known = false;
    }

    /// Whether the datagrams that are queued may have wrong identifications.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.id_is_known && self.key.to.src.is_ipv4()
    }

    /// Makes the kernel cut datagrams that carry no control message into packets of this length; 0:
    /// into none.
    pub(crate) fn set_segment(&mut self, segment: u16) -> io::Result<()> {
        if self.segment != segment {
            let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
            options::set(self.fd(), level, name, segment.into())?;
            self.segment = segment;
        }
        Ok(())
    }

    /// Whether a datagram of `len` bytes leaves whole without a control message.
    pub(crate) fn leaves_whole(&self, len: usize) -> bool {
        self.segment == 0 || len <= usize::from(self.segment)
    }

    /// Makes sure that `next_id` is right. Returns whether it is.
    fn settle_id(&mut self, counters: &mut UdpCounters) -> bool {
        let IpAddr::V4(own) = self.key.to.src else {
            return true;
        };
        if self.queued > 0 || (self.id_is_known && self.unchecked < CHECK_EVERY) {
            return self.id_is_known;
        }
        let Ok(next_id) = identification::next(self.fd(), own) else {
            self.id_is_known = false;
            return false;
        };
        // The datagram that shows the number has the one that was due.
        if self.id_is_known && next_id != self.next_id.wrapping_add(1) {
            counters.tx_wrong_ids += u64::from(self.unchecked);
        }
        self.next_id = next_id;
        self.id_is_known = true;
        self.unchecked = 0;
        true
    }
}

/// The sockets of a port.
pub(crate) struct Flows {
    places: Box<[Option<FlowSocket>]>,
    /// The flow of the last packet, and its place.
    last: Option<(TxMeta, Flow, FlowIndex)>,
    /// The number of flushes so far.
    flushes: u64,
    /// No socket is opened before this flush.
    paused_until: u64,
    /// The last destination that the system refused to connect to, and the flush in which it did.
    unreachable: Option<(Key, u64)>,
}

impl Flows {
    /// At most `most` sockets, rounded down to a power of two; none if that is less than [`WAYS`].
    pub(crate) fn new(most: usize) -> Self {
        let most = most.min(usize::from(FlowIndex::MAX));
        let sets = most
            .checked_ilog2()
            .map_or(0, |log| (1_usize << log) / WAYS);
        Self {
            places: (0..sets * WAYS).map(|_| None).collect(),
            last: None,
            flushes: 0,
            paused_until: 0,
            unreachable: None,
        }
    }

    pub(crate) fn get(&self, index: FlowIndex) -> Option<&FlowSocket> {
        self.places.get(usize::from(index))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: FlowIndex) -> Option<&mut FlowSocket> {
        self.places.get_mut(usize::from(index))?.as_mut()
    }

    /// The most sockets.
    pub(crate) fn most(&self) -> usize {
        self.places.len()
    }

    /// Notes that the port flushes its queues.
    pub(crate) fn note_flush(&mut self) {
        self.flushes += 1;
    }

    /// Notes that a datagram was begun that leaves through the flow's socket.
    pub(crate) fn note_begun(&mut self, index: FlowIndex) {
        if let Some(socket) = self.get_mut(index) {
            socket.queued += 1;
            socket.next_id = socket.next_id.wrapping_add(1);
        }
    }

    /// Closes the sockets of addresses that are gone. None of them has a datagram queued.
    pub(crate) fn keep_addresses(&mut self, is_there: impl Fn(IpAddr) -> bool) {
        for place in &mut self.places {
            if place.as_ref().is_some_and(|s| !is_there(s.key.to.src)) {
                *place = None;
            }
        }
        self.last = None;
    }

    /// The socket that a packet of the flow leaves from, and its source port. `own` is the socket of
    /// the packet's source address.
    pub(crate) fn choose(
        &mut self,
        config: &UdpPortConfig,
        own: BorrowedFd<'_>,
        to: &TxMeta,
        flow: Flow,
        counters: &mut UdpCounters,
    ) -> Option<(Via, u16)> {
        if self.places.is_empty() {
            return None;
        }
        let index = match &self.last {
            Some((last_to, last_flow, index)) if last_flow == &flow && last_to == to => *index,
            _ => {
                let index = self.find(config, own, to, flow, counters)?;
                self.last = Some((*to, flow, index));
                index
            }
        };
        let flushes = self.flushes;
        let socket = self.get_mut(index)?;
        socket.used = flushes;
        if flushes < socket.rests_until {
            return None;
        }
        if !socket.settle_id(counters) {
            if socket.queued == 0 {
                counters.tx_flows_refused += 1;
                socket.rests_until = flushes + PAUSE_FLUSHES;
            }
            return None;
        }
        let via = Via {
            flow: Some(index),
            next_id: socket.next_id,
        };
        Some((via, socket.source_port))
    }

    fn find(
        &mut self,
        config: &UdpPortConfig,
        own: BorrowedFd<'_>,
        to: &TxMeta,
        flow: Flow,
        counters: &mut UdpCounters,
    ) -> Option<FlowIndex> {
        // The receiver's processes share the port of management datagrams by their source.
        if to.dst.is_multicast() || flow.to_qp == Qpn::QP1 {
            return None;
        }
        let key = Key {
            to: *to,
            source_port: flow.source_port(),
        };
        let first = (hash(&key) % (self.places.len() / WAYS)) * WAYS;
        let set = first..first + WAYS;
        let index_of = |at: usize| FlowIndex::try_from(at).ok();
        let has_key = |at: &usize| self.places[*at].as_ref().is_some_and(|s| s.key == key);
        if let Some(at) = set.clone().find(has_key) {
            return index_of(at);
        }
        let last_use = |at: &usize| {
            self.places[*at]
                .as_ref()
                .map_or(0, |socket| socket.used + 1)
        };
        let at = set.min_by_key(last_use)?;
        let is_free = self.places[at].as_ref().is_none_or(|socket| {
            socket.queued == 0 && self.flushes.saturating_sub(socket.used) > IDLE_FLUSHES
        });
        if !is_free {
            counters.tx_flows_full += 1;
            return None;
        }
        let is_refused = |(refused, at): (Key, u64)| {
            refused == key && self.flushes.saturating_sub(at) < PAUSE_FLUSHES
        };
        if self.flushes < self.paused_until || self.unreachable.is_some_and(is_refused) {
            return None;
        }
        match open::open(config, &key, own) {
            Ok(socket) => {
                counters.tx_flows_opened += 1;
                self.places[at] = Some(socket);
                index_of(at)
            }
            Err(error) => {
                counters.tx_flows_refused += 1;
                if is_shortage(&error) {
                    self.paused_until = self.flushes + PAUSE_FLUSHES;
                } else {
                    self.unreachable = Some((key, self.flushes));
                }
                None
            }
        }
    }
}

/// Whether the process or the system has run out of something, so that no other destination would
/// be luckier.
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

/// A number that differs between destinations and source ports (FNV-1a).
fn hash(key: &Key) -> usize {
    let start = (0xcbf2_9ce4_8422_2325_u64 ^ u64::from(key.source_port)).wrapping_mul(PRIME);
    const PRIME: u64 = 0x0100_0000_01b3;
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    let hash = match key.to.dst {
        IpAddr::V4(ip) => ip.octets().iter().fold(start, mix),
        IpAddr::V6(ip) => ip.octets().iter().fold(start, mix),
    };
    // The upper half is the well-mixed one.
    (hash >> 32) as usize
}
