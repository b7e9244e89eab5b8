//! Sending the queued packets.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::PortSocket;
use crate::ROCE_UDP_PORT;
use crate::counters::{TxDrop, UdpCounters};
use crate::flow::{FlowSocket, Flows, Splicer};
use crate::kept::KeptBlocks;
use crate::prepare::set_class;
use crate::queue::{Datagram, FlowIndex};
use crate::sys::send::{Outgoing, SEND_BATCH, SendHeaders, send_plain};

/// How long a management datagram may keep the packets behind it waiting: longer than a link takes
/// to send what a socket's buffer holds.
const PATIENCE: Duration = Duration::from_millis(5);

/// How [`PortSocket::flush`] ended.
#[derive(Debug)]
pub(crate) enum Flushed {
    /// The queue is empty.
    Empty,
    /// The kernel accepts no more packets for now.
    Blocked,
    /// The queue is empty, and some packets were dropped with an error that a missing interface
    /// would cause.
    Suspicious,
}

/// The state that all sockets of a port share for sending.
pub(crate) struct Sender {
    pub(crate) headers: SendHeaders,
    pub(crate) flows: Flows,
    pub(crate) kept: KeptBlocks,
    pub(crate) splicer: Splicer,
}

/// The datagrams that one system call sent.
enum Sent {
    /// This many datagrams, with a copy.
    Copies(usize),
    /// One datagram, by reference.
    ByReference,
}

impl PortSocket {
    /// Sends queued packets until the kernel accepts no more.
    pub(crate) fn flush(&mut self, sender: &mut Sender, counters: &mut UdpCounters) -> Flushed {
        let mut suspicious = false;
        while !self.queue.is_empty() {
            if self.oldest_has_unknown_id(sender) {
                self.drop_oldest(TxDrop::Identification, sender, counters);
                continue;
            }
            match self.send_some(sender, counters) {
                Ok(Sent::Copies(datagrams)) => {
                    if self.refuses_management_since.is_some() {
                        self.note_management_sent();
                    }
                    for _ in 0..datagrams {
                        self.count_sent(sender, counters, false);
                    }
                }
                Ok(Sent::ByReference) => self.count_sent(sender, counters, true),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        counters.tx_blocked += 1;
                        if !self.must_not_wait() {
                            return Flushed::Blocked;
                        }
                        self.drop_oldest(TxDrop::NoBuffer, sender, counters);
                    }
                    _ => {
                        self.handle_refusal(&error, sender, counters);
                        suspicious |= matches!(
                            TxDrop::of(&error),
                            TxDrop::AddressGone | TxDrop::Invalid | TxDrop::NetworkUnreachable
                        );
                    }
                },
            }
        }
        if suspicious {
            Flushed::Suspicious
        } else {
            Flushed::Empty
        }
    }

    /// If the oldest datagram, which the kernel has accepted, is a management datagram, the next one
    /// may wait again.
    #[cold]
    fn note_management_sent(&mut self) {
        let oldest = self.queue.iter().next();
        if oldest.is_some_and(Datagram::is_management) {
            self.refuses_management_since = None;
        }
    }

    /// Whether the oldest datagram, which the kernel does not accept now, is to be dropped. That is
    /// a management datagram that has waited for [`PATIENCE`].
    ///
    /// The kernel keeps datagrams to hosts that do not answer ARP for seconds, and they fill the
    /// socket's buffer. Anyone can cause them, by requests in the name of such hosts, and the
    /// answers to these must not keep other packets waiting. A peer that exists sends its request
    /// again.
    #[cold]
    fn must_not_wait(&mut self) -> bool {
        let oldest = self.queue.iter().next();
        if !oldest.is_some_and(Datagram::is_management) {
            return false;
        }
        let since = self
            .refuses_management_since
            .get_or_insert_with(Instant::now);
        since.elapsed() >= PATIENCE
    }

    /// Whether the oldest datagram may have a wrong identification, because an earlier datagram was
    /// dropped, which the kernel may or may not have counted.
    fn oldest_has_unknown_id(&self, sender: &mut Sender) -> bool {
        let flow = self.queue.iter().next().and_then(|first| first.flow);
        flow.and_then(|index| sender.flows.get_mut(index))
            .is_some_and(|socket| socket.has_unknown_id())
    }

    /// Sends the oldest datagram, and possibly more, with one system call.
    fn send_some(&mut self, sender: &mut Sender, counters: &mut UdpCounters) -> io::Result<Sent> {
        let flow = self.queue.iter().next().and_then(|first| first.flow);
        if let Some(index) = flow {
            return self.send_through_flow(index, sender, counters);
        }
        let only_class = self.adopt_priority();
        let Sender { headers, kept, .. } = sender;
        if let Some(single) = self.only_packet() {
            self.adopt_repeated_class(single.to.traffic_class);
            if single.to.traffic_class == self.socket_class {
                let to = Some((single.to.dst, ROCE_UDP_PORT));
                send_plain(self.fd(), self.queue.bytes(&single, kept), to, self.scope)?;
                return Ok(Sent::Copies(1));
            }
        }
        let scope = self.scope;
        let belongs = |datagram: &Datagram| {
            datagram.flow.is_none()
                && only_class.is_none_or(|class| datagram.to.traffic_class == class)
        };
        let queued = self.queue.iter().take_while(|datagram| belongs(datagram));
        let outgoing = queued.map(|datagram| Outgoing {
            bytes: self.queue.bytes(datagram, kept),
            to: Some((datagram.to.dst, ROCE_UDP_PORT)),
            scope,
            // A message with a class of its own would get the priority that the kernel derives from
            // the class.
            traffic_class: only_class.is_none().then_some(datagram.to.traffic_class),
            hop_limit: datagram.to.hop_limit,
            segment: segment_of(datagram),
        });
        headers
            .send(self.fd(), outgoing.take(SEND_BATCH))
            .map(Sent::Copies)
    }

    /// Sends the oldest datagram, and possibly more, from a flow's socket.
    fn send_through_flow(
        &self,
        index: FlowIndex,
        sender: &mut Sender,
        counters: &mut UdpCounters,
    ) -> io::Result<Sent> {
        let Sender {
            headers,
            flows,
            kept,
            splicer,
        } = sender;
        let (Some(socket), Some(first)) = (flows.get_mut(index), self.queue.iter().next()) else {
            return Err(ErrorKind::NotFound.into());
        };
        let bytes = self.queue.bytes(first, kept);
        if first.block().is_some() && splicer.sends_by_reference(first.len) {
            match send_by_reference(socket, splicer, first, bytes) {
                Ok(()) => return Ok(Sent::ByReference),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
                Err(error) => {
                    counters.tx_splice_refused += 1;
                    if may_mean_no_segmentation(&error) {
                        splicer.turn_off();
                    }
                    // The kernel may have counted the datagram, so a second attempt could leave
                    // with the next identification.
                    if first.to.src.is_ipv4() && !was_not_sent(&error) {
                        return Err(error);
                    }
                }
            }
        }
        let is_alone = self.queue.iter().len() == 1;
        if is_alone && first.segments == 1 && socket.leaves_unsegmented(first.len) {
            send_plain(socket.fd(), bytes, None, self.scope)?;
            return Ok(Sent::Copies(1));
        }
        let scope = self.scope;
        // A call for several datagrams hides the error of any but the first, and so whether the
        // kernel counted the datagram that failed.
        let batch = match first.to.src {
            IpAddr::V4(_) => 1,
            IpAddr::V6(_) => SEND_BATCH,
        };
        let mut position = 0;
        let belongs = |datagram: &&Datagram| {
            position += 1;
            datagram.flow == Some(index)
                && (position == 1
                    || datagram.block().is_none()
                    || !splicer.sends_by_reference(datagram.len))
        };
        let outgoing = self
            .queue
            .iter()
            .take_while(belongs)
            .map(|datagram| Outgoing {
                bytes: self.queue.bytes(datagram, kept),
                to: None,
                scope,
                traffic_class: None,
                hop_limit: 0,
                segment: segment_of(datagram)
                    .or_else(|| (!socket.leaves_unsegmented(datagram.len)).then_some(0)),
            });
        headers
            .send(socket.fd(), outgoing.take(batch))
            .map(Sent::Copies)
    }

    /// The only datagram in the queue, if it is a single packet with the default hop limit. Latency
    /// depends on such packets, so they have a path of their own.
    fn only_packet(&self) -> Option<Datagram> {
        let mut queued = self.queue.iter();
        let datagram = queued.next()?;
        let plain = datagram.segments == 1 && datagram.to.hop_limit == 0;
        (plain && queued.len() == 0).then_some(*datagram)
    }

    /// Sets `class` at the socket when two packets in a row have it. Packets of the socket's class
    /// need no control message.
    fn adopt_repeated_class(&mut self, class: u8) {
        if class != self.socket_class
            && class == self.last_single_class
            && set_class(&self.socket, self.address, class).is_ok()
        {
            self.socket_class = class;
        }
        self.last_single_class = class;
    }

    fn count_sent(&mut self, sender: &mut Sender, counters: &mut UdpCounters, by_reference: bool) {
        let Some(sent) = self.queue.pop() else {
            return;
        };
        if let Some(socket) = sent.flow.and_then(|index| sender.flows.get_mut(index)) {
            socket.note_sent();
        }
        if let Some(block) = sent.block() {
            sender.kept.note_sent(block, by_reference);
        }
        counters.tx_datagrams += 1;
        counters.tx_packets += sent.segments as u64;
        counters.tx_bytes += sent.len as u64;
        if by_reference {
            counters.tx_spliced_bytes += sent.len as u64;
        }
        if sent.cut > 0 {
            // The first packet was accepted alone, so the kernel had refused to segment.
            counters.drop_packets(TxDrop::NoSegmentation, sent.cut);
            self.queue.segmentation = false;
        }
    }

    /// Handles the kernel's refusal of the oldest datagram. The kernel answers EIO or EINVAL if it
    /// can't segment, as with an interface without checksum offload or with IPsec. It also answers
    /// EINVAL to an impossible destination. Sending the first packet alone tells the two cases
    /// apart.
    fn handle_refusal(
        &mut self,
        error: &io::Error,
        sender: &mut Sender,
        counters: &mut UdpCounters,
    ) {
        let Some(first) = self.queue.iter().next().copied() else {
            return;
        };
        let socket = first.flow.and_then(|index| sender.flows.get_mut(index));
        let consumes_id = first.to.src.is_ipv4() && socket.is_some();
        if let Some(socket) = socket
            && was_not_sent(error)
            && !std::mem::replace(&mut socket.retried, true)
        {
            // The error reports what happened to an earlier packet of the connected socket. This
            // datagram was not sent.
            socket.request_id_check();
            return;
        }
        if first.segments > 1 && may_mean_no_segmentation(error) {
            if !consumes_id {
                self.queue.cut_to_first();
                return;
            }
            // The kernel may have counted the datagram, so the identification of its first packet
            // may be wrong now.
            self.queue.segmentation = false;
        }
        self.drop_oldest(TxDrop::of(error), sender, counters);
    }

    /// Drops the oldest datagram.
    pub(crate) fn drop_oldest(
        &mut self,
        reason: TxDrop,
        sender: &mut Sender,
        counters: &mut UdpCounters,
    ) {
        let Some(dropped) = self.queue.pop() else {
            return;
        };
        counters.drop_packets(reason, dropped.segments + dropped.cut);
        if let Some(socket) = dropped.flow.and_then(|index| sender.flows.get_mut(index)) {
            socket.note_dropped();
        }
        if let Some(block) = dropped.block() {
            sender.kept.note_sent(block, false);
        }
    }
}

/// Whether the kernel may have refused a datagram because it can't segment it.
fn may_mean_no_segmentation(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

/// Whether an error of a connected socket means that the kernel did not begin to send. The error is
/// an ICMP report about an earlier packet, or the kernel could not accept the datagram.
fn was_not_sent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WriteZero
        || matches!(
            error.raw_os_error(),
            Some(
                libc::ECONNREFUSED
                    | libc::EHOSTUNREACH
                    | libc::EHOSTDOWN
                    | libc::EPROTO
                    | libc::EMSGSIZE
                    | libc::EMFILE
                    | libc::ENFILE
            )
        )
}

/// The length of a datagram's packets, if it has several.
fn segment_of(datagram: &Datagram) -> Option<u16> {
    (datagram.segments > 1)
        .then(|| u16::try_from(datagram.segment).ok())
        .flatten()
}

fn send_by_reference(
    socket: &mut FlowSocket,
    splicer: &mut Splicer,
    datagram: &Datagram,
    bytes: &[u8],
) -> io::Result<()> {
    let segment = segment_of(datagram);
    if segment.is_some() || !socket.leaves_unsegmented(datagram.len) {
        socket.set_segment_bytes(segment.unwrap_or(0))?;
    }
    splicer.send(socket.fd(), bytes)
}
