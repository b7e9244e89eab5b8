//! A port in memory, for benches, fuzz targets and tests.

use crate::error::PortError;
use crate::port::{Port, PortCapabilities, PortFd, RxSink};
use crate::sent::{SentMemory, SentRef};
use roce_stack::{
    Acknowledged, Flow, IpCovered, ReserveError, RoceVersion, RxMeta, Sequenced, Transmit, TxMeta,
    TxSlot,
};
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;

/// The UDP source port of all packets.
pub const SRC_PORT: u16 = 0xc000;

const DONT_FRAGMENT: u16 = 0x4000;

/// The byte with which a poisoned port fills the buffers that it reserves.
const POISON: u8 = 0xa5;

/// The network header in front of the BTH, and whether the receiving port sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryIp {
    /// IPv4, visible to the receiver. The identification is always 0.
    #[default]
    V4,
    /// IPv4, visible to the receiver. The identification increments from 0xfff0, so it soon wraps.
    V4Numbered,
    /// As [`MemoryIp::V4Numbered`], but invisible to the receiver, as with a socket.
    V4Hidden,
    /// IPv6.
    V6,
    /// RoCE v1's GRH.
    Grh,
}

/// A packet between two ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The metadata that the receiving port reports.
    pub meta: RxMeta,
    /// BTH to ICRC.
    pub bytes: Vec<u8>,
    /// The memory that the packet refers to, if its sender keeps it.
    pub sent: Option<SentRef>,
}

impl Frame {
    /// A packet that refers to nobody's memory.
    pub fn new(meta: RxMeta, bytes: Vec<u8>) -> Self {
        Self {
            meta,
            bytes,
            sent: None,
        }
    }
}

/// A port whose owner plays the network: the owner takes packets from
/// [`out`](MemoryPort::out) and puts packets into [`arrived`](MemoryPort::arrived).
///
/// The port neither loses, delays nor reorders packets. An owner that needs a rate, a delay or a
/// limit wraps the port and its [`Transmit`].
#[derive(Debug, Default)]
pub struct MemoryPort {
    /// Packets that were committed, oldest first. If the owner returns their buffers with
    /// [`MemoryPort::recycle`], the port allocates none for the next packets.
    pub out: Vec<Frame>,
    /// Packets that wait for [`Port::receive`].
    pub arrived: VecDeque<Frame>,
    /// The maximum number of packets in `out`. At this number, `reserve_run` returns
    /// [`ReserveError::Full`].
    pub max_queued: usize,
    /// Whether [`Transmit::reserve_run`] reports every packet as unsendable, as it does without a
    /// route.
    pub unsendable: bool,
    /// Whether the port keeps the memory of [sequenced](Sequenced) packets until they are
    /// acknowledged. If so, the owner calls [`MemoryPort::arrive`] for each packet that it delivers.
    pub keeps: bool,
    sent: SentMemory,
    ip: MemoryIp,
    max_packet_bytes: usize,
    poisoned: bool,
    next_id: u16,
    reserved: Option<Reserved>,
    slot: Vec<u8>,
    spare: Vec<Vec<u8>>,
    addresses: Vec<IpAddr>,
    counters: MemoryCounters,
}

/// A reserved packet.
#[derive(Debug)]
struct Reserved {
    meta: RxMeta,
    kept: Option<(Flow, Sequenced)>,
}

/// The counters of a port in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounters {
    /// Packets committed.
    pub tx_packets: u64,
    /// Reservations that failed because the port was full.
    pub tx_queue_full: u64,
    /// Reservations that failed because the packet can't be sent.
    pub tx_unsendable: u64,
    /// Packets passed to the sink.
    pub rx_packets: u64,
    /// Packets dropped because their destination was neither activated nor joined.
    pub rx_foreign: u64,
}

impl MemoryPort {
    /// A port with room for any number of packets of up to `max_packet_bytes` bytes (BTH to ICRC).
    pub fn new(ip: MemoryIp, max_packet_bytes: usize) -> Self {
        let sent = match ip {
            MemoryIp::V4Hidden => SentMemory::given_away(),
            _ => SentMemory::default(),
        };
        Self {
            max_queued: usize::MAX,
            sent,
            ip,
            max_packet_bytes,
            next_id: 0xfff0,
            ..Self::default()
        }
    }

    /// Makes the port fill each reserved buffer with a pattern, which reveals bytes that the sender
    /// does not write.
    pub fn poisoned(mut self) -> Self {
        self.poisoned = true;
        self
    }

    /// Called when a packet of this port arrives at its destination. If the port has used the
    /// packet's memory again, replaces the packet's bytes by what is there now.
    pub fn arrive(&mut self, frame: &mut Frame) {
        if let Some(sent) = frame.sent {
            self.sent.arrive(sent, &mut frame.bytes);
        }
    }

    /// The memory of sent packets that the port keeps.
    pub fn sent(&self) -> &SentMemory {
        &self.sent
    }

    /// The counters so far.
    pub fn counters(&self) -> MemoryCounters {
        self.counters
    }

    /// The kind of IP header in front of this port's packets.
    pub fn ip(&self) -> MemoryIp {
        self.ip
    }

    /// Gives the buffer of a packet back to the port, which reuses it.
    #[inline]
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    fn version(&self) -> RoceVersion {
        match self.ip {
            MemoryIp::Grh => RoceVersion::V1,
            _ => RoceVersion::V2,
        }
    }

    /// The fields of the next packet's IP header that the ICRC covers.
    fn covered(&self) -> IpCovered {
        let id = match self.ip {
            MemoryIp::V6 => return IpCovered::V6,
            MemoryIp::Grh => return IpCovered::Grh,
            MemoryIp::V4 => 0,
            MemoryIp::V4Numbered | MemoryIp::V4Hidden => self.next_id,
        };
        IpCovered::V4 {
            id,
            flags_fragment: DONT_FRAGMENT,
        }
    }
}

impl Transmit for MemoryPort {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.reserved = None;
        if self.out.len() >= self.max_queued {
            self.counters.tx_queue_full += 1;
            return Err(ReserveError::Full);
        }
        if self.unsendable || len > self.max_packet_bytes || to.version != self.version() {
            self.counters.tx_unsendable += 1;
            return Err(ReserveError::Unsendable);
        }
        let ip = self.covered();
        let meta = RxMeta {
            src: to.src,
            dst: to.dst,
            src_port: SRC_PORT,
            traffic_class: to.traffic_class,
            ip: match self.ip {
                MemoryIp::V4Hidden => IpCovered::V4Hidden,
                _ => ip,
            },
        };
        let kept = sequenced.filter(|_| self.keeps);
        self.reserved = Some(Reserved {
            meta,
            kept: kept.map(|sequenced| (flow, sequenced)),
        });
        if self.slot.capacity() == 0 {
            self.slot = self.spare.pop().unwrap_or_default();
        }
        self.slot.resize(len, 0);
        if self.poisoned {
            self.slot.fill(POISON);
        }
        Ok(TxSlot {
            bytes: &mut self.slot,
            src_port: SRC_PORT,
            ip,
            kept: kept.is_some(),
        })
    }

    fn commit(&mut self) {
        let Some(Reserved { meta, kept }) = self.reserved.take() else {
            return;
        };
        self.counters.tx_packets += 1;
        self.next_id = self.next_id.wrapping_add(1);
        let bytes = std::mem::take(&mut self.slot);
        let sent = kept.map(|(flow, sequenced)| self.sent.keep(flow, sequenced, &bytes));
        self.out.push(Frame { meta, bytes, sent });
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.sent.acknowledged(flow, which);
    }
}

impl Port for MemoryPort {
    fn capabilities(&self) -> PortCapabilities {
        PortCapabilities {
            max_packet_bytes: self.max_packet_bytes,
            receive_buffer_bytes: 1 << 20,
        }
    }

    fn reserved(&mut self) -> &[u8] {
        match self.reserved {
            Some(_) => &self.slot,
            None => &[],
        }
    }

    fn carries(&self, version: RoceVersion) -> bool {
        version == self.version()
    }

    fn activate(&mut self, address: IpAddr) -> Result<(), PortError> {
        if !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
        Ok(())
    }

    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        if !group.is_multicast() {
            return Err(PortError {
                what: format!("joining {group}: it is not a multicast address"),
                source: io::ErrorKind::InvalidInput.into(),
            });
        }
        self.activate(group)
    }

    fn leave(&mut self, group: IpAddr) {
        self.addresses
            .retain(|address| *address != group || !group.is_multicast());
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError> {
        let mut packets = 0;
        while packets < budget
            && let Some(Frame { meta, bytes, .. }) = self.arrived.pop_front()
        {
            if self.addresses.contains(&meta.dst) {
                self.counters.rx_packets += 1;
                packets += 1;
                sink.packet(&meta, &bytes);
            } else {
                self.counters.rx_foreign += 1;
            }
            self.recycle(bytes);
        }
        Ok(packets)
    }

    /// Does nothing: the owner takes the packets from `out`.
    fn flush(&mut self) -> Result<bool, PortError> {
        Ok(self.out.is_empty())
    }

    fn queued(&self) -> usize {
        self.out.len()
    }

    fn has_looped(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// No descriptors: the owner knows when it has added packets.
    fn packet_fds(&self) -> Vec<PortFd<'_>> {
        Vec::new()
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        let MemoryCounters {
            tx_packets,
            tx_queue_full,
            tx_unsendable,
            rx_packets,
            rx_foreign,
        } = self.counters;
        vec![
            ("tx_packets", tx_packets),
            ("tx_queue_full", tx_queue_full),
            ("tx_unsendable", tx_unsendable),
            ("rx_packets", rx_packets),
            ("rx_foreign", rx_foreign),
        ]
    }
}

#[cfg(test)]
mod tests;
