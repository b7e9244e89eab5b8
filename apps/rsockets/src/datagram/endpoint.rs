//! A socket's UD QP at one local address.

use crate::error::{Error, OrErrno};
use crate::nic::{Nic, nics};
use crate::options::Sizes;
use crate::stream::Gather;
use crate::wire::{HeaderBytes, UdHeader};
use nix::errno::Errno;
use roce_verbs::completion::{Completion, CompletionChannel, Notify};
use roce_verbs::datagram::{AddressOptions, DatagramHeader, Destination};
use roce_verbs::qp::QKey;
use roce_verbs::{
    Access, CompletionQueue, MemoryRegion, QpKind, QpOptions, Qpn, QueuePair, RecvRequest,
    SendRequest, WcStatus,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Maximum length of a datagram with its header, as in rdma-core.
pub(super) const MAX_LEN: usize = 2048;

/// The Q_Key of the port space RDMA_PS_UDP.
const QKEY: QKey = QKey(0x0123_4567);

/// Length of the network header before each datagram.
const GRH_LEN: usize = DatagramHeader::LEN;

/// Length of each receive buffer.
const RECEIVE_LEN: usize = GRH_LEN + MAX_LEN;

/// Minimum number of requests in a queue.
const MIN_QUEUE: usize = 16;

/// Marks receives in the `wr_id`. The lower bits are the slot.
const RECEIVE: u64 = 1 << 32;

/// A UD QP with its memory, divided into slots of one datagram.
pub(super) struct Endpoint {
    nic: Arc<Nic>,
    local: SocketAddr,
    gid_index: u8,
    qp: QueuePair,
    queue: CompletionQueue,
    channel: CompletionChannel,
    /// The header of all datagrams sent from here.
    header: HeaderBytes,
    send: MemoryRegion,
    receive: MemoryRegion,
    /// The free slots of the send buffer.
    free: Vec<usize>,
    /// The number of slots of the send buffer.
    sends: usize,
    /// Maximum length of a datagram that fits into a packet.
    limit: usize,
    broken: bool,
}

/// An event at an endpoint.
pub(super) enum Event {
    /// A send has completed, or a datagram was dropped.
    Other,
    /// A datagram has arrived.
    Arrived {
        source: SocketAddr,
        slot: usize,
        /// Offset of the first byte in the endpoint's memory.
        start: usize,
        len: usize,
    },
}

impl Endpoint {
    /// Creates the QP at a local address with the socket's port.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if no device has the address; others if memory or descriptors run out.
    pub(super) fn new(local: SocketAddr, sizes: &Sizes) -> Result<Self, Error> {
        let nic = nics().with_address(local)?;
        let gid_index = nic
            .context
            .gid_index(local.ip())
            .or_errno(Errno::EADDRNOTAVAIL)?;
        let slots =
            |buffer: usize, queue: u16| (buffer / MAX_LEN).min(usize::from(queue)).max(MIN_QUEUE);
        let sends = slots(sizes.send_buffer, sizes.send_queue);
        let receives = slots(sizes.receive_buffer, sizes.receive_queue);
        let channel = nic.context.create_channel().or_errno(Errno::EMFILE)?;
        let queue = nic
            .context
            .create_cq_with_channel(sends + receives, &channel);
        let options = QpOptions {
            kind: QpKind::Ud,
            send_depth: sends,
            recv_depth: receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
            signal_all: true,
        };
        let qp = nic
            .pd
            .create_qp(&queue, &queue, &options)
            .or_errno(Errno::ENOMEM)?;
        let send = nic
            .pd
            .allocate(sends * MAX_LEN, Access::empty())
            .or_errno(Errno::ENOMEM)?;
        let receive = nic.pd.allocate(receives * RECEIVE_LEN, Access::LOCAL_WRITE);
        let header = UdHeader { source: local }.encode();
        let mtu = nic.context.device().active_mtu().bytes();
        let endpoint = Self {
            local,
            gid_index,
            qp,
            queue,
            channel,
            limit: mtu.min(MAX_LEN) - header.len(),
            header,
            send,
            receive: receive.or_errno(Errno::ENOMEM)?,
            free: (0..sends).collect(),
            sends,
            broken: false,
            nic,
        };
        endpoint
            .qp
            .activate(gid_index, QKEY)
            .or_errno(Errno::ENODEV)?;
        for slot in 0..receives {
            endpoint.post_receive(slot)?;
        }
        Ok(endpoint)
    }

    /// The local address.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn nic(&self) -> *const Nic {
        Arc::as_ptr(&self.nic)
    }

    pub(super) fn qpn(&self) -> u32 {
        self.qp.qpn().get()
    }

    /// Maximum length of a datagram that fits into a packet.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The number of receive slots.
    pub(super) fn receives(&self) -> usize {
        self.receive.len() / RECEIVE_LEN
    }

    /// Whether the QP has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn can_send(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether all datagrams have been sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.broken || self.free.len() == self.sends
    }

    /// The destination with a peer's address and QPN. `None` if it cannot be a socket's QP.
    pub(super) fn destination(&self, remote: IpAddr, qpn: u32) -> Option<Destination> {
        let qpn = Qpn::new(qpn)?;
        // A socket's QP never has these numbers.
        if [Qpn::QP0, Qpn::QP1, Qpn::MULTICAST].contains(&qpn) {
            return None;
        }
        let options = AddressOptions::default();
        let handle = self
            .nic
            .pd
            .create_ah(self.gid_index, remote.into(), &options);
        Some(handle.ok()?.to(qpn, QKEY))
    }

    /// Sends a datagram of at most [`limit`](Self::limit) bytes.
    ///
    /// # Errors
    /// EAGAIN if the send queue is full; others if the QP has failed.
    pub(super) fn send(&mut self, to: Destination, data: &mut Gather<'_>) -> Result<(), Error> {
        let slot = self.free.pop().ok_or(Errno::EAGAIN)?;
        let (start, header) = (slot * MAX_LEN, self.header.len());
        let len = header + data.left();
        // Cannot fail: both lie in the slot.
        let _ = self.send.write(start, &self.header);
        data.copy_to_region(&self.send, start + header..start + len);
        let sge = self.send.slice(start, len).or_errno(Errno::EMSGSIZE)?;
        let request = SendRequest::send(sge).id(slot as u64).to(to);
        if let Err(error) = self.qp.post_send(&request) {
            self.free.push(slot);
            return Err(Error::new(Errno::ENETDOWN, error));
        }
        Ok(())
    }

    /// Handles the next completion. With `drive`, drives the NIC first if there is none.
    pub(super) fn next(&mut self, drive: bool) -> Option<Event> {
        let next = if drive {
            self.queue.poll()
        } else {
            self.queue.take()
        };
        match next {
            Ok(completion) => completion.map(|completion| self.complete(&completion)),
            // The CQ has room for all requests of both queues, so it never overruns.
            Err(_) => {
                self.broken = true;
                None
            }
        }
    }

    fn complete(&mut self, completion: &Completion) -> Event {
        let slot = (completion.wr_id & (RECEIVE - 1)) as usize;
        self.broken |= completion.status != WcStatus::Success;
        if completion.wr_id & RECEIVE == 0 {
            self.free.push(slot);
            return Event::Other;
        }
        if self.broken {
            return Event::Other;
        }
        if let Some(event) = self.parse_arrival(completion, slot) {
            return event;
        }
        self.repost_receive(slot);
        Event::Other
    }

    /// Parses the datagram in a slot; `None` if an rsocket would not have sent it.
    fn parse_arrival(&self, completion: &Completion, slot: usize) -> Option<Event> {
        const HEADERS: usize = GRH_LEN + 24;
        let len = completion.byte_len as usize;
        let start = slot * RECEIVE_LEN;
        let mut bytes = [0; HEADERS];
        let bytes = &mut bytes[..len.min(HEADERS)];
        self.receive.read(start, bytes).ok()?;
        let (network, payload) = bytes.split_first_chunk::<GRH_LEN>()?;
        let (header, rest) = UdHeader::parse(payload).ok()?;
        let start_of_data = bytes.len() - rest.len();
        // The header must name the host that sent the packet.
        if header.source.ip().to_canonical() != DatagramHeader::parse(network)?.source {
            return None;
        }
        Some(Event::Arrived {
            source: self.with_scope(header.source),
            slot,
            start: start + start_of_data,
            len: len - start_of_data,
        })
    }

    /// A peer's address as the kernel reports it: canonical, with the scope of a link-local address.
    fn with_scope(&self, source: SocketAddr) -> SocketAddr {
        let ip = source.ip().to_canonical();
        let mut source = SocketAddr::new(ip, source.port());
        if let (SocketAddr::V6(source), SocketAddr::V6(local)) = (&mut source, self.local)
            && source.ip().is_unicast_link_local()
        {
            source.set_scope_id(local.scope_id());
        }
        source
    }

    /// Copies bytes of a received datagram.
    pub(super) fn read(&self, start: usize, out: &mut [u8]) {
        // Cannot fail: received bytes lie in the region.
        let _ = self.receive.read(start, out);
    }

    /// Reposts a receive.
    pub(super) fn repost_receive(&mut self, slot: usize) {
        self.broken |= self.post_receive(slot).is_err();
    }

    fn post_receive(&self, slot: usize) -> Result<(), Error> {
        let sge = self
            .receive
            .slice(slot * RECEIVE_LEN, RECEIVE_LEN)
            .or_errno(Errno::ENOMEM)?;
        let receive = RecvRequest {
            wr_id: RECEIVE | slot as u64,
            sges: &[sge],
        };
        self.qp.post_recv(&receive).or_errno(Errno::ENETDOWN)
    }

    /// Arms the descriptor for the next completion.
    pub(super) fn arm(&self) {
        while self.channel.poll().is_some() {}
        self.queue.request_notify(Notify::Next);
    }

    /// The descriptor that becomes readable after [`arm`](Self::arm).
    pub(super) fn descriptor(&self) -> RawFd {
        self.channel.as_raw_fd()
    }

    /// Hands the NIC over to its background thread while this one sleeps.
    pub(super) fn hand_over(&self) {
        self.nic.context.hand_over();
    }
}
