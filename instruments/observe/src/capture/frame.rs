//! Whole packets, from the IP header or RoCE v1's GRH on, rebuilt from a port's metadata.

use roce_stack::{IpCovered, RxMeta, TxMeta};
use roce_wire::cm::gid_of;
use roce_wire::{ETHERTYPE_ROCE_V1, FrameRepr, Grh, NetworkHeader, UDP_PORT, UdpHeader, icrc};
use std::net::IpAddr;

/// The time to live in the rebuilt header if the port does not report it.
const UNKNOWN_TTL: u8 = 64;

const DONT_FRAGMENT: u16 = 0x4000;

/// The length of the longest transport packet that fits in an IPv4 packet after the IP and UDP
/// headers. It fits in an IPv6 packet too.
const MAX_TRANSPORT_BYTES: usize = 65_535 - 20 - 8;

/// The link type of packets of RoCE v1: Linux's pseudo-header.
pub(super) const LINKTYPE_LINUX_SLL: u16 = 113;

/// The header of [`LINKTYPE_LINUX_SLL`]: direction, hardware type Ethernet, an address of length 0
/// and its 8 bytes of padding, EtherType.
const fn cooked_header(direction: u8) -> [u8; 16] {
    let [high, low] = ETHERTYPE_ROCE_V1.to_be_bytes();
    [0, direction, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low]
}

const PACKET_HOST: u8 = 0;
const PACKET_OUTGOING: u8 = 4;

/// A reusable buffer for a packet.
#[derive(Debug, Default)]
pub(super) struct Frame(Vec<u8>);

struct Headers {
    src: IpAddr,
    dst: IpAddr,
    src_port: u16,
    traffic_class: u8,
    hop_limit: u8,
    ip: IpCovered,
    /// The direction, as Linux's packet type: [`PACKET_HOST`] or [`PACKET_OUTGOING`].
    direction: u8,
}

impl Frame {
    /// The packet that was built last.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn received(&mut self, meta: &RxMeta, transport: &[u8]) -> &[u8] {
        self.build(
            &Headers {
                src: meta.src,
                dst: meta.dst,
                src_port: meta.src_port,
                traffic_class: meta.traffic_class,
                hop_limit: UNKNOWN_TTL,
                ip: meta.ip,
                direction: PACKET_HOST,
            },
            transport,
        )
    }

    pub(super) fn sent(
        &mut self,
        to: &TxMeta,
        src_port: u16,
        ip: IpCovered,
        transport: &[u8],
    ) -> &[u8] {
        self.build(
            &Headers {
                src: to.src,
                dst: to.dst,
                src_port,
                traffic_class: to.traffic_class,
                hop_limit: match to.hop_limit {
                    0 => UNKNOWN_TTL,
                    limit => limit,
                },
                ip,
                direction: PACKET_OUTGOING,
            },
            transport,
        )
    }

    fn build(&mut self, headers: &Headers, transport: &[u8]) -> &[u8] {
        self.0.clear();
        // No port delivers longer packets: they would not fit in a datagram.
        let transport = &transport[..transport.len().min(MAX_TRANSPORT_BYTES)];
        let Some(network) = headers.network(transport) else {
            return &self.0;
        };
        let mut repr = FrameRepr {
            link: None,
            network,
            udp: Some(UdpHeader {
                src_port: headers.src_port,
                dst_port: UDP_PORT,
                // Zero, which IPv4 allows: the original checksum is unknown.
                checksum: 0,
            }),
        };
        let mut at = 0;
        if headers.ip == IpCovered::Grh {
            self.0.extend(cooked_header(headers.direction));
            at = self.0.len();
        } else if headers.src.is_ipv6()
            && let Some(udp) = &mut repr.udp
        {
            let udp_header = *udp;
            repr.udp = Some(UdpHeader {
                checksum: repr.udp_checksum(transport).unwrap_or(0),
                ..udp_header
            });
        }
        self.0.resize(at + repr.buffer_len(transport.len()), 0);
        repr.emit(&mut self.0[at..], transport);
        &self.0
    }
}

impl Headers {
    /// The IP header, or the GRH; `None` if the port gives addresses of different families.
    fn network(&self, transport: &[u8]) -> Option<NetworkHeader<'static>> {
        match (self.src, self.dst) {
            (src, dst) if self.ip == IpCovered::Grh => Some(NetworkHeader::Grh(Grh {
                traffic_class: self.traffic_class,
                flow_label: 0,
                payload_len: 0,
                next_header: Grh::NEXT_HEADER_BTH,
                hop_limit: self.hop_limit,
                sgid: gid_of(src).octets(),
                dgid: gid_of(dst).octets(),
            })),
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst) = (src.octets(), dst.octets());
                let (id, flags_fragment) = match self.ip {
                    IpCovered::V4 { id, flags_fragment } => (id, flags_fragment),
                    _ => recover_hidden_fields(src, dst, self.src_port, transport),
                };
                Some(NetworkHeader::V4 {
                    src,
                    dst,
                    tos: self.traffic_class,
                    ttl: self.hop_limit,
                    id,
                    flags_fragment,
                    options: &[],
                })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(NetworkHeader::V6 {
                src: src.octets(),
                dst: dst.octets(),
                traffic_class: self.traffic_class,
                flow_label: 0,
                hop_limit: self.hop_limit,
            }),
            _ => None,
        }
    }
}

/// Recovers the IPv4 identification and flags, which a socket does not report: they are the values
/// for which the ICRC is valid. If there are none, the packet is damaged, and the function returns
/// fixed values.
fn recover_hidden_fields(
    src: [u8; 4],
    dst: [u8; 4],
    src_port: u16,
    transport: &[u8],
) -> (u16, u16) {
    match icrc::verify_hidden_v4(src, dst, src_port, UDP_PORT, transport) {
        Ok(found) if found.dont_fragment => (found.id, DONT_FRAGMENT),
        Ok(found) => (found.id, 0),
        Err(_) => (0, DONT_FRAGMENT),
    }
}
