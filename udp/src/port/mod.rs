//! [`UdpPort`], which implements the [`Port`] trait with UDP sockets.

mod steering;

use std::hint::cold_path;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use roce_port::{
    Neighbours, NotAccepted, Offered, Offers, Port, PortCapabilities, PortError, PortFd, Refusal,
    RxSink, Steering,
};
use roce_stack::{
    Acknowledged, Duration, Flow, Instant, Position, QpnRange, ReserveError, Sequenced, Transmit,
    TxMeta, TxSlot,
};
use roce_wire::Qpn;

use crate::ROCE_UDP_PORT;
use crate::config::{SocketOffer, UdpPortConfig};
use crate::counters::{TxDrop, UdpCounters};
use crate::flow::{Flows, Splicer};
use crate::kept::KeptBlocks;
use crate::queue::{ReserveRequest, Via};
use crate::share::{self, Namespace, Services};
use crate::socket::{Flushed, PortSocket, Sender, max_datagram_bytes, open, probe};
use crate::sys::options::interface_exists;
use crate::sys::receive::ReceiveRing;
use crate::sys::send::SendHeaders;

/// While a socket is busy, every `QUIET_POLL_INTERVAL`th call of `receive` polls a quiet one.
const QUIET_POLL_INTERVAL: u32 = 8;

/// The number of calls of `receive` in a row that find nothing after which a port counts as silent.
const EMPTY_CALLS: u32 = 64;

/// A silent port asks the kernel once in this time: an empty look costs about a microsecond.
const SILENT_INTERVAL: Duration = Duration::from_micros(1);

/// A port over UDP sockets. See the crate's documentation, and [`Port`] for the
/// contract.
///
/// One call of [`Port::receive`] makes one system call for each address that has received packets
/// lately. Polling an empty socket costs about half as much as sending a packet. The port therefore
/// polls at most one quiet socket in a call, and only in every eighth call while others are busy. A
/// call may therefore return 0 while a packet waits. Polling the descriptors of [`UdpPort::fds`]
/// reports that packet.
///
/// [`Port::flush`] makes one system call for up to 64 datagrams of up to 64 packets
/// each.
///
/// A driver without work sleeps until a descriptor of [`UdpPort::fds`] is ready.
pub struct UdpPort {
    config: UdpPortConfig,
    sockets: Vec<PortSocket>,
    /// The socket that the next call receives from first.
    next_socket: usize,
    /// The quiet socket that was polled last.
    last_polled_quiet: usize,
    /// The number of calls of `receive`.
    calls: u32,
    /// The number of them in a row that have found nothing.
    empty_calls: u32,
    /// The time, if the driver gives it.
    now: Option<Instant>,
    /// When the kernel was asked last.
    asked_at: Instant,
    /// The socket of the last reservation, which the next one tries first.
    reserved_socket: usize,
    ring: ReceiveRing,
    sender: Sender,
    /// The flow of the last reservation and the position of its last packet, if the memory is to be
    /// kept.
    to_keep: Option<(Flow, Position)>,
    counters: UdpCounters,
    offer: SocketOffer,
    services: Services,
    /// What other open devices offer goes there.
    offers: Option<Arc<dyn Offers>>,
    /// The network namespace of the device, if offers are taken.
    namespace: Option<Namespace>,
}

impl UdpPort {
    /// A port for the interface of `config`, with no address activated yet.
    pub fn new(config: UdpPortConfig) -> Self {
        let sender = Sender {
            headers: SendHeaders::new(),
            flows: Flows::new(config.flow_sockets),
            kept: KeptBlocks::new(config.kept_bytes),
            splicer: Splicer::new(config.splice),
        };
        let offer = SocketOffer {
            flow_sockets: sender.flows.max_sockets(),
            why_copied: match sender.flows.max_sockets() {
                0 => Some("flows have no sockets of their own"),
                _ => sender.splicer.off_reason(),
            },
            ..probe(&config)
        };
        Self {
            offer,
            config,
            sockets: Vec::new(),
            next_socket: 0,
            last_polled_quiet: 0,
            calls: 0,
            empty_calls: 0,
            now: None,
            asked_at: Instant::ZERO,
            reserved_socket: 0,
            ring: ReceiveRing::new(),
            sender,
            to_keep: None,
            counters: UdpCounters::default(),
            services: Services::default(),
            offers: None,
            namespace: None,
        }
    }

    /// The configuration of the port.
    pub fn config(&self) -> &UdpPortConfig {
        &self.config
    }

    /// The buffer sizes and offloads that the kernel grants the port's sockets.
    pub fn offer(&self) -> SocketOffer {
        self.offer
    }

    /// The number of memory blocks, of 64 KiB each, that are not free. Such a block has a queued
    /// datagram, or packets that were sent without a copy and are not acknowledged, or is unusable
    /// because the kernel refused new pages for it.
    pub fn kept_blocks(&self) -> usize {
        self.sender.kept.in_use()
    }

    /// The packets that the port has sent, received and dropped so far.
    pub fn counters(&self) -> &UdpCounters {
        &self.counters
    }

    /// The file descriptors of the sockets: one for each activated address and each joined group.
    /// [`Port::activate`], [`Port::join`], [`Port::leave`] and [`Port::set_addresses`] change them.
    /// A flow's socket is among them while its send buffer is full.
    pub fn fds(&self) -> impl ExactSizeIterator<Item = PortFd<'_>> {
        let mut fds = Vec::with_capacity(self.sockets.len());
        for socket in &self.sockets {
            let oldest = socket.queue.iter().next();
            let flow = oldest.and_then(|oldest| self.sender.flows.get(oldest.flow?));
            fds.push(PortFd {
                fd: socket.fd(),
                wants_write: oldest.is_some() && flow.is_none(),
            });
            fds.extend(flow.map(|flow| PortFd {
                fd: flow.fd(),
                wants_write: true,
            }));
        }
        fds.into_iter()
    }

    /// Checks that the interface still exists. The sockets report its removal only when they send,
    /// so a driver should call this from time to time.
    ///
    /// # Errors
    /// If the kernel has no interface with that index.
    pub fn check_interface(&self) -> Result<(), PortError> {
        let UdpPortConfig {
            interface,
            interface_index: index,
            ..
        } = &self.config;
        let exists = match self.sockets.first() {
            Some(socket) => interface_exists(socket.fd(), *index),
            None => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
                .is_ok_and(|socket| interface_exists(socket.as_fd(), *index)),
        };
        if exists {
            return Ok(());
        }
        Err(PortError {
            what: format!("interface {interface} (index {index}) is gone"),
            source: io::Error::from_raw_os_error(libc::ENODEV),
        })
    }

    /// The quiet socket to poll in this call, in rotation; `None` in most calls while others are
    /// busy.
    fn quiet_socket(&mut self) -> Option<usize> {
        let count = self.sockets.len();
        if count == 1 {
            return Some(0);
        }
        self.calls = self.calls.wrapping_add(1);
        let busy = self.sockets.iter().any(|socket| !socket.is_quiet());
        if busy && !self.calls.is_multiple_of(QUIET_POLL_INTERVAL) {
            return None;
        }
        let found = (1..=count)
            .map(|step| (self.last_polled_quiet + step) % count)
            .find(|&index| self.sockets[index].is_quiet())?;
        self.last_polled_quiet = found;
        Some(found)
    }

    fn socket_of(&self, address: IpAddr) -> Option<usize> {
        let has_address = |socket: &PortSocket| socket.address == address;
        if self
            .sockets
            .get(self.reserved_socket)
            .is_some_and(has_address)
        {
            return Some(self.reserved_socket);
        }
        self.sockets.iter().position(has_address)
    }

    /// Drops the reservation if it was not committed.
    fn cancel_reservation(&mut self) {
        if let Some(socket) = self.sockets.get_mut(self.reserved_socket) {
            socket.queue.cancel_reservation();
        }
    }
}

impl Transmit for UdpPort {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.cancel_reservation();
        let ipv6 = to.src.is_ipv6();
        let sendable = (1..=self.config.max_packet_bytes(ipv6)).contains(&len)
            && to.dst.is_ipv6() == ipv6
            && self.carries(to.version);
        let Some(index) = self.socket_of(to.src).filter(|_| sendable) else {
            self.counters.tx_unsendable += 1;
            return Err(ReserveError::Unsendable);
        };
        self.reserved_socket = index;
        let Sender {
            flows,
            kept,
            splicer,
            ..
        } = &mut self.sender;
        let address_socket = self.sockets[index].fd();
        let chosen = flows.choose(&self.config, address_socket, to, flow, &mut self.counters);
        let (via, src_port) = chosen.unwrap_or((Via::ADDRESS_SOCKET, ROCE_UDP_PORT));
        if sequenced.is_some_and(|packet| packet.is_retransmission) {
            cold_path();
            kept.note_retransmission(flow);
        }
        let first_transmission = sequenced.filter(|packet| !packet.is_retransmission);
        let may_keep = chosen.is_some() && first_transmission.is_some();
        if may_keep && splicer.may_begin_block(len) && self.sockets[index].queue.is_empty() {
            splicer.begin_burst();
        }
        let request = ReserveRequest {
            to,
            part: joinable_part(flow.to_qp),
            len,
            count,
            max_datagram_bytes: max_datagram_bytes(ipv6),
            via,
            may_keep,
            begins_block: splicer.begins_block_with(len),
        };
        match self.sockets[index].queue.reserve(&request, kept) {
            Some(space) => {
                self.to_keep = first_transmission
                    .filter(|_| space.kept)
                    .map(|packet| (flow, packet.position.plus(space.bytes.len() / len - 1)));
                Ok(TxSlot {
                    bytes: space.bytes,
                    src_port,
                    ip: space.ip,
                    kept: space.kept,
                })
            }
            None => {
                self.counters.tx_queue_full += 1;
                Err(ReserveError::Full)
            }
        }
    }

    fn commit(&mut self) {
        let Some(socket) = self.sockets.get_mut(self.reserved_socket) else {
            return;
        };
        let Sender { flows, kept, .. } = &mut self.sender;
        let committed = socket.queue.commit(kept);
        if let Some(index) = committed.begun {
            flows.note_datagram_begun(index);
        }
        if let (Some(block), Some((flow, position))) = (committed.block, self.to_keep.take()) {
            kept.add_packet(flow, position, block);
        }
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.sender.kept.acknowledged(flow, which);
    }
}

impl Port for UdpPort {
    fn capabilities(&self) -> PortCapabilities {
        let ipv6 = self.config.addresses.iter().any(IpAddr::is_ipv6);
        PortCapabilities {
            max_packet_bytes: self.config.max_packet_bytes(ipv6),
            receive_buffer_bytes: self.offer.receive_buffer_bytes,
        }
    }

    fn reserved(&mut self) -> &[u8] {
        match self.sockets.get(self.reserved_socket) {
            Some(socket) => socket.queue.reserved(&self.sender.kept),
            None => &[],
        }
    }

    fn activate(&mut self, address: IpAddr) -> Result<(), PortError> {
        if self.socket_of(address).is_some() {
            return Ok(());
        }
        if !self.config.addresses.contains(&address) {
            return Err(not_an_address(&self.config, address));
        }
        let mut socket = open(&self.config, address, self.offers.as_ref())?;
        if self.services.is_open {
            socket
                .announce(&self.services)
                .map_err(|source| PortError {
                    what: format!("steering management datagrams to {address} to this process"),
                    source,
                })?;
        }
        self.sockets.push(socket);
        Ok(())
    }

    /// Closes the socket of each address that is not in the new list, and drops and counts its
    /// queued packets. The port stays in its multicast groups.
    fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        self.cancel_reservation();
        let (sender, counters) = (&mut self.sender, &mut self.counters);
        self.sockets.retain_mut(|socket| {
            let remains = socket.address.is_multicast() || addresses.contains(&socket.address);
            while !remains && !socket.queue.is_empty() {
                socket.drop_oldest(TxDrop::AddressGone, sender, counters);
            }
            remains
        });
        let is_there = |address: IpAddr| addresses.contains(&address);
        self.sender.flows.retain_addresses(is_there);
        self.config.addresses = addresses;
    }

    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        if self.socket_of(group).is_some() {
            return Ok(());
        }
        if !group.is_multicast() {
            return Err(PortError {
                what: format!("joining {group}: it is not a multicast address"),
                source: io::ErrorKind::InvalidInput.into(),
            });
        }
        self.sockets.push(open(&self.config, group, None)?);
        Ok(())
    }

    fn leave(&mut self, group: IpAddr) {
        if group.is_multicast() {
            self.cancel_reservation();
            self.sockets.retain(|socket| socket.address != group);
        }
    }

    #[inline]
    fn note_time(&mut self, now: Option<Instant>) {
        self.now = now;
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError> {
        if let Some(now) = self.now {
            let silent = self.empty_calls >= EMPTY_CALLS;
            if silent && now.saturating_duration_since(self.asked_at) < SILENT_INTERVAL {
                return Ok(0);
            }
            self.asked_at = now;
        }
        let count = self.sockets.len();
        let quiet = self.quiet_socket();
        let mut packets = 0;
        for _ in 0..count {
            if packets >= budget {
                break;
            }
            let index = self.next_socket % count;
            self.next_socket = index + 1;
            let socket = &mut self.sockets[index];
            if socket.is_quiet() && quiet != Some(index) {
                continue;
            }
            packets += socket
                .receive(budget - packets, &mut self.ring, &mut self.counters, sink)
                .map_err(|source| PortError {
                    what: format!(
                        "receiving at {} of {}, UDP port {ROCE_UDP_PORT}",
                        socket.address, self.config.interface
                    ),
                    source,
                })?;
        }
        self.empty_calls = match packets {
            0 => self.empty_calls.saturating_add(1),
            _ => 0,
        };
        Ok(packets)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        let mut empty = true;
        let mut suspicious = false;
        self.sender.flows.note_flush();
        let before = (self.counters.tx_bytes, self.counters.tx_spliced_bytes);
        for socket in &mut self.sockets {
            match socket.flush(&mut self.sender, &mut self.counters) {
                Flushed::Empty => {}
                Flushed::Blocked => empty = false,
                Flushed::Suspicious => suspicious = true,
            }
        }
        self.sender.splicer.end_burst(
            self.counters.tx_bytes - before.0,
            self.counters.tx_spliced_bytes - before.1,
        );
        if suspicious {
            self.check_interface()?;
        }
        Ok(empty)
    }

    fn queued(&self) -> usize {
        self.sockets
            .iter()
            .map(|socket| socket.queue.packets())
            .sum()
    }

    fn packet_fds(&self) -> Vec<PortFd<'_>> {
        self.fds().collect()
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        self.counters.each().collect()
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        match self.config.part {
            Some(_) => Some(self),
            None => None,
        }
    }

    fn steering(&mut self) -> Option<&mut dyn Steering> {
        Some(self)
    }
}

impl Neighbours for UdpPort {
    fn is_here(&self, address: IpAddr) -> bool {
        // The thread may have moved to another namespace, where other devices have the same addresses.
        let same_namespace = self.namespace.is_some() && share::namespace() == self.namespace;
        same_namespace && is_address_of_host(&self.config, address)
    }

    fn offer(
        &mut self,
        to: IpAddr,
        part: QpnRange,
        file: BorrowedFd<'_>,
    ) -> Result<Offered, Refusal> {
        match self.config.part.filter(|_| self.is_here(to)) {
            Some(own) => share::offer(to, self.config.interface_index, part, own, file),
            None => Err(NotAccepted::Nobody.into()),
        }
    }

    fn answer(&mut self, connection: OwnedFd) -> Result<Offered, Refusal> {
        share::answer_over(connection.into())
    }

    fn take_offers(&mut self, offers: Arc<dyn Offers>) {
        self.namespace = share::namespace();
        self.offers = Some(offers);
    }
}

/// The part whose packets may share one datagram with a packet to `to_qp`. A management datagram
/// never shares a datagram, because the sender can't tell which process receives it.
fn joinable_part(to_qp: Qpn) -> Option<QpnRange> {
    (to_qp != Qpn::QP1).then(|| QpnRange::of(to_qp))
}

/// Whether a socket can have the address: then it is one of this host's.
fn is_address_of_host(config: &UdpPortConfig, address: IpAddr) -> bool {
    let address = match address {
        IpAddr::V4(address) => SocketAddr::from((address, 0)),
        IpAddr::V6(address) => SocketAddrV6::new(address, 0, 0, config.interface_index).into(),
    };
    UdpSocket::bind(address).is_ok()
}

fn not_an_address(config: &UdpPortConfig, address: IpAddr) -> PortError {
    let addresses: Vec<String> = config.addresses.iter().map(IpAddr::to_string).collect();
    let addresses = if addresses.is_empty() {
        "none".to_owned()
    } else {
        addresses.join(", ")
    };
    PortError {
        what: format!(
            "activating {address} for UDP port {ROCE_UDP_PORT}: it is no address of {}, whose \
             addresses are: {addresses}",
            config.interface
        ),
        source: io::Error::from_raw_os_error(libc::EADDRNOTAVAIL),
    }
}
