//! Sending the queued packets.

use std::io::{self, ErrorKind};

use super::{PortSocket, priority};
use crate::ROCE_UDP_PORT;
use crate::counters::{TxDrop, UdpCounters};
use crate::queue::Datagram;
use crate::sys::send::{Outgoing, SEND_BATCH, SendHeaders, send_plain};

/// How [`PortSocket::flush`] ended.
#[derive(Debug)]
pub(crate) enum Flushed {
    /// The queue is empty.
    Empty,
    /// The kernel accepts no more for now.
    Blocked,
    /// The queue is empty, and some packets were dropped with an error that a missing interface
    /// would cause.
    Suspicious,
}

impl PortSocket {
    /// Sends queued packets until the kernel accepts no more.
    pub(crate) fn flush(
        &mut self,
        headers: &mut SendHeaders,
        counters: &mut UdpCounters,
    ) -> Flushed {
        let mut suspicious = false;
        while !self.queue.is_empty() {
            match self.send_some(headers) {
                Ok(sent) => {
                    for _ in 0..sent {
                        self.count_sent(counters);
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        counters.tx_blocked += 1;
                        return Flushed::Blocked;
                    }
                    _ => {
                        self.refused(&error, counters);
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

    /// Makes one system call. Returns the number of datagrams that the kernel accepted.
    fn send_some(&mut self, headers: &mut SendHeaders) -> io::Result<usize> {
        let only = self.settle_priority();
        if let Some(lone) = self.lone() {
            self.settle_class(lone.to.traffic_class);
            if lone.to.traffic_class == self.own_class
                && let Some((datagram, bytes)) = self.queue.iter().next()
            {
                let fd = self.fd();
                send_plain(fd, bytes, datagram.to.dst, ROCE_UDP_PORT, self.scope)?;
                return Ok(1);
            }
        }
        let scope = self.scope;
        let now = |datagram: &Datagram| only.is_none_or(|only| datagram.to.traffic_class == only);
        let queued = self.queue.iter().take_while(|(datagram, _)| now(datagram));
        let outgoing = queued.map(|(datagram, bytes)| Outgoing {
            bytes,
            dst: datagram.to.dst,
            port: ROCE_UDP_PORT,
            scope,
            // A message with a class of its own gets the priority that the kernel derives from it.
            traffic_class: only.is_none().then_some(datagram.to.traffic_class),
            hop_limit: datagram.to.hop_limit,
            segment: (datagram.segments > 1)
                .then(|| u16::try_from(datagram.segment).ok())
                .flatten(),
        });
        headers.send(self.fd(), outgoing.take(SEND_BATCH))
    }

    /// The only datagram in the queue, if it is a single packet with the default hop limit. Such a
    /// packet takes the path that determines latency.
    fn lone(&self) -> Option<Datagram> {
        let mut queued = self.queue.iter();
        let (datagram, _) = queued.next()?;
        let plain = datagram.segments == 1 && datagram.to.hop_limit == 0;
        (plain && queued.len() == 0).then_some(*datagram)
    }

    /// Makes `class` the socket's own when two packets in a row have it. Packets of the socket's
    /// own class need no control message.
    fn settle_class(&mut self, class: u8) {
        if class != self.own_class
            && class == self.lone_class
            && priority::set_class(&self.socket, self.address, class).is_ok()
        {
            self.own_class = class;
        }
        self.lone_class = class;
    }

    fn count_sent(&mut self, counters: &mut UdpCounters) {
        if let Some(sent) = self.queue.pop() {
            counters.tx_datagrams += 1;
            counters.tx_packets += sent.segments as u64;
            counters.tx_bytes += sent.len as u64;
            if sent.cut > 0 {
                // The packet left alone, so the kernel had refused to segment.
                counters.drop_packets(TxDrop::NoSegmentation, sent.cut);
                self.queue.segmentation = false;
            }
        }
    }

    /// Handles the kernel's refusal of the oldest datagram. The kernel answers EIO or EINVAL if it
    /// can't segment, as with an interface without checksum offload or with IPsec. It also answers
    /// EINVAL to an impossible destination. Sending the first packet alone tells the two cases
    /// apart.
    fn refused(&mut self, error: &io::Error, counters: &mut UdpCounters) {
        let may_be_segmentation = matches!(
            error.raw_os_error(),
            Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
        );
        let segmented = self
            .queue
            .iter()
            .next()
            .is_some_and(|(first, _)| first.segments > 1);
        if segmented && may_be_segmentation {
            self.queue.cut_to_first();
        } else if let Some(dropped) = self.queue.pop() {
            counters.drop_packets(TxDrop::of(error), dropped.segments + dropped.cut);
        }
    }
}
