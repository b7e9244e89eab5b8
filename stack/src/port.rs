//! What the stack needs from a network: the [`Port`] trait.
//!
//! A port carries *transport packets*: the bytes from the BTH to the ICRC, both
//! included, which is the payload of RoCEv2's UDP datagram, and of RoCE v1's GRH.
//! Whatever lies below (Ethernet, IP, UDP) is the port's business; it tells the stack
//! the few fields of it that the ICRC covers.
//!
//! # Contract
//!
//! - [`Port::receive`] hands out received packets as slices of the port's own
//!   buffers, each valid for the length of the call to the sink only.
//! - [`Port::reserve`] lends room for one packet. The caller fills all of
//!   [`TxSlot::bytes`] and calls [`Port::commit`]. A reservation that is not
//!   committed is forgotten at the next `reserve`, and nothing of it is sent; for the same
//!   destination and length that lends room with the same fields of the headers again.
//! - Committed packets leave at [`Port::flush`] at the latest, in order for each
//!   destination. What the network does not take at once stays queued inside the
//!   port for the next `flush`; the queue has a fixed bound, and when it is full
//!   `reserve` answers [`ReserveError::Full`].
//! - Nothing is allocated per packet.

use crate::fault::Suffered;
use roce_wire::Qpn;
use std::fmt;
use std::net::IpAddr;

/// What lies between the Ethernet header and the BTH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RoceVersion {
    /// A GRH: RoCE, which does not pass routers (IBTA 1.7, Annex A16).
    V1,
    /// IP and UDP: RoCEv2 (IBTA 1.7, Annex A17).
    #[default]
    V2,
}

/// The name by which the Linux kernel knows it in its GID tables.
impl fmt::Display for RoceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "IB/RoCE v1",
            Self::V2 => "RoCE v2",
        })
    }
}

/// An address as a GID: an IPv4 one in its IPv6-mapped form (RoCEv2 Annex A17.3.1).
pub(crate) fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The fields of the IPv4 header that a port may or may not see and that the ICRC
/// covers (RoCEv2 Annex A17.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpCovered {
    /// IPv6: nothing of the header beyond the addresses and the length is covered.
    V6,
    /// IPv4, header seen: the identification and the 16-bit field of flags and
    /// fragment offset, in host byte order.
    V4 {
        /// Identification.
        id: u16,
        /// Flags and fragment offset; `0x4000` is "don't fragment".
        flags_fragment: u16,
    },
    /// IPv4 through a socket that hides both fields.
    V4Hidden,
    /// RoCE v1's GRH, of whichever family the addresses in it are: nothing of it beyond
    /// them and the length is covered.
    Grh,
}

/// What a port says of a received packet besides its transport bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxMeta {
    /// The IP source address.
    pub src: IpAddr,
    /// The IP destination address: one of the port's own.
    pub dst: IpAddr,
    /// The UDP source port. (The destination port is 4791, or the port would not
    /// have handed the packet out.) RoCE v1 has none.
    pub src_port: u16,
    /// The type of service (IPv4) or traffic class (IPv6): DSCP in the upper six
    /// bits, ECN in the lower two.
    pub traffic_class: u8,
    /// The other covered fields of the IP header.
    pub ip: IpCovered,
}

impl RxMeta {
    /// Which version of RoCE carried the packet.
    // rule: A16-stack
    #[inline]
    pub fn version(&self) -> RoceVersion {
        match self.ip {
            IpCovered::Grh => RoceVersion::V1,
            IpCovered::V4 { .. } | IpCovered::V4Hidden | IpCovered::V6 => RoceVersion::V2,
        }
    }

    /// Whether a switch on the way marked the packet as having met congestion (RFC 3168).
    /// RoCEv1 has no such marks, and no answer to them.
    pub(crate) fn is_marked(&self) -> bool {
        self.version() == RoceVersion::V2 && self.traffic_class & 3 == 3
    }
}

/// Where a packet goes and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxMeta {
    /// The IP source address: one of the port's own, made usable by
    /// [`Port::activate`].
    pub src: IpAddr,
    /// The IP destination address, of the same family.
    pub dst: IpAddr,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Time to live or hop limit; 0 means the port's default.
    pub hop_limit: u8,
    /// Which version of RoCE carries the packet: one that the port
    /// [`carries`](Port::carries).
    pub version: RoceVersion,
}

/// Room for one packet, lent by [`Port::reserve`].
#[derive(Debug)]
pub struct TxSlot<'a> {
    /// Exactly as many bytes as asked for, BTH to ICRC; their contents are
    /// arbitrary until written.
    pub bytes: &'a mut [u8],
    /// The UDP source port that the packet will carry.
    pub src_port: u16,
    /// The covered fields of the IP header that the packet will carry; never
    /// [`IpCovered::V4Hidden`].
    pub ip: IpCovered,
}

/// Why [`Port::reserve`] lent nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The queue is full: flush, or come back when the network took some.
    Full,
    /// The packet is longer than the link allows, or addresses are unusable: it
    /// can never be sent. Counts as a drop.
    Unsendable,
}

/// A port's own failure, for instance that its interface has gone. What one packet
/// suffers (no route, no neighbour, no buffer) is no failure but a counted drop.
#[derive(Debug)]
pub struct PortError {
    /// What the port was doing and with what, in words.
    pub what: String,
    /// The operating system's error.
    pub source: std::io::Error,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Receives packets from [`Port::receive`].
pub trait RxSink {
    /// One packet: what is known of its IP header, and its bytes from BTH to ICRC
    /// (unchecked: any bytes at all, of any length).
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]);

    /// One packet that faults on purpose struck, as it is after them; also one that
    /// they lost, which must not be taken for received. Only those who tell of faults
    /// have to know more than [`RxSink::packet`].
    fn struck(&mut self, meta: &RxMeta, transport: &[u8], suffered: &Suffered) {
        if suffered.lost.is_none() {
            self.packet(meta, transport);
        }
    }
}

impl<F: FnMut(&RxMeta, &[u8])> RxSink for F {
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]) {
        self(meta, transport);
    }
}

/// What a port can do, and how much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCapabilities {
    /// The largest transport packet (BTH to ICRC) that [`Port::reserve`] lends
    /// room for, in bytes: the link's MTU less IP and UDP headers (IPv6's, if the
    /// port has addresses of that kind).
    pub max_packet_bytes: usize,
    /// About how many bytes the receiving side of such a port holds before it
    /// drops: the stack keeps what it has in flight below it.
    pub receive_buffer_bytes: usize,
}

/// A network port that carries transport packets. See the module's contract.
pub trait Port {
    /// What this port can do.
    fn capabilities(&self) -> PortCapabilities;

    /// Whether the port carries packets of this version of RoCE. Every port carries
    /// RoCEv2.
    fn carries(&self, version: RoceVersion) -> bool {
        version == RoceVersion::V2
    }

    /// Whether anything at all can be sent along this path, as far as that is known. RoCEv2
    /// leaves it to the network, which may change; RoCE v1 does not pass routers, so some
    /// destinations are beyond it. To be asked once, when a path is chosen.
    ///
    /// # Errors
    /// Why nothing can be sent, and what would change that.
    fn check(&mut self, _path: &TxMeta) -> Result<(), PortError> {
        Ok(())
    }

    /// Makes `address` usable as a source and starts to receive what is sent to
    /// it. Activating an address twice does nothing.
    ///
    /// # Errors
    /// Fails if the address isn't the interface's or UDP port 4791 is taken.
    fn activate(&mut self, address: IpAddr) -> Result<(), PortError>;

    /// Starts to receive what is sent to the multicast group, on the interface that
    /// the port stands for. What this host sends to the group, through this very port
    /// too, is received like what others send. Joining a group twice does nothing.
    ///
    /// # Errors
    /// Fails if the address is no group's, if the operating system refuses, and on a
    /// port that has no multicast.
    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        Err(PortError {
            what: format!("joining multicast group {group}: this port has no multicast"),
            source: std::io::ErrorKind::Unsupported.into(),
        })
    }

    /// Ends what [`Port::join`] began, if it did.
    fn leave(&mut self, _group: IpAddr) {}

    /// Hands up to about `budget` packets to `sink` and returns how many; 0 if
    /// none waits. Never blocks.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError>;

    /// Lends room for a packet of exactly `len` bytes (BTH to ICRC) to the QP `to_qp`. A
    /// port that joins packets joins none that different processes may be to get.
    ///
    /// # Errors
    /// See [`ReserveError`].
    fn reserve(&mut self, to: &TxMeta, to_qp: Qpn, len: usize) -> Result<TxSlot<'_>, ReserveError>;

    /// Queues the packet that was reserved last.
    fn commit(&mut self);

    /// Queues the packet that was reserved last, and no other follows for now: a port may
    /// send what it has queued at once, so that the packet need not wait for what the caller
    /// does before it calls [`Port::flush`], which it does all the same.
    fn commit_last(&mut self) {
        self.commit();
    }

    /// Sends what is queued, as far as the network takes it. Never blocks.
    /// Returns whether nothing remains queued.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn flush(&mut self) -> Result<bool, PortError>;
}
