//! Captures for tests: frames, and files around them.

use std::time::Duration;

use roce_wire::icrc::{self, DONT_FRAGMENT};
use roce_wire::{
    Aeth, Bth, ExtHeaders, FrameRepr, Link, NetworkHeader, Opcode, PacketRepr, Psn, Qpn, Reth,
    Syndrome, UDP_PORT, UdpHeader, VlanTag,
};

/// Makes frames from one host to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) link: Option<Link>,
    pub(super) network: NetworkHeader<'static>,
    pub(super) ports: (u16, u16),
}

impl Sender {
    /// From 10.0.0.1 to 10.0.0.2, or the opposite direction, over Ethernet.
    pub(super) fn v4(back: bool) -> Sender {
        let (src, dst) = if back { (2, 1) } else { (1, 2) };
        Sender {
            link: Some(Link {
                dst: [2, 0, 0, 0, 0, dst],
                src: [2, 0, 0, 0, 0, src],
                vlans: [None; 2],
            }),
            network: NetworkHeader::V4 {
                src: [10, 0, 0, src],
                dst: [10, 0, 0, dst],
                tos: 2,
                ttl: 64,
                id: 0,
                flags_fragment: DONT_FRAGMENT,
                options: &[],
            },
            ports: (0xc000 + u16::from(src), UDP_PORT),
        }
    }

    /// From fe80::1 to fe80::2, or the opposite direction, over Ethernet.
    pub(super) fn v6(back: bool) -> Sender {
        let address = |last| {
            let mut address = [0; 16];
            address[..2].copy_from_slice(&[0xfe, 0x80]);
            address[15] = last;
            address
        };
        let (src, dst) = if back { (2, 1) } else { (1, 2) };
        Sender {
            network: NetworkHeader::V6 {
                src: address(src),
                dst: address(dst),
                traffic_class: 0,
                flow_label: 0xabcde,
                hop_limit: 64,
            },
            ..Sender::v4(back)
        }
    }

    /// The same in a VLAN.
    pub(super) fn in_vlan(mut self, vid: u16) -> Sender {
        let tag = VlanTag {
            tpid: 0x8100,
            tci: vid,
        };
        if let Some(link) = &mut self.link {
            link.vlans[0] = Some(tag);
        }
        self
    }

    /// The same without a link header.
    pub(super) fn raw(mut self) -> Sender {
        self.link = None;
        self
    }

    /// A frame around a packet with these headers and `payload_len` bytes.
    pub(super) fn frame(&self, repr: PacketRepr, payload_len: usize) -> Vec<u8> {
        self.around(&self.sealed(repr, payload_len, 0))
    }

    /// A super-packet: one frame around packets that are sealed as its segments.
    pub(super) fn super_frame(&self, packets: &[(PacketRepr, usize)]) -> Vec<u8> {
        let segments = packets.iter().zip(0..);
        let all: Vec<u8> = segments
            .flat_map(|(&(repr, payload_len), i)| self.sealed(repr, payload_len, i))
            .collect();
        self.around(&all)
    }

    fn sealed(&self, repr: PacketRepr, payload_len: usize, index: u16) -> Vec<u8> {
        let mut transport = vec![0; repr.buffer_len(payload_len)];
        let at = repr.emit_headers(&mut transport, payload_len);
        for (i, byte) in transport[at..][..payload_len].iter_mut().enumerate() {
            *byte = i as u8;
        }
        let mut ip = self.network.ip_header().unwrap();
        if let icrc::IpHeader::V4 { id, .. } = &mut ip {
            *id += index;
        }
        icrc::seal(&ip, self.ports.0, self.ports.1, &mut transport);
        transport
    }

    fn around(&self, transport: &[u8]) -> Vec<u8> {
        let repr = FrameRepr {
            link: self.link,
            network: self.network,
            udp: Some(UdpHeader {
                src_port: self.ports.0,
                dst_port: self.ports.1,
                checksum: 0,
            }),
        };
        let mut frame = vec![0; repr.buffer_len(transport.len())];
        repr.emit(&mut frame, transport);
        frame
    }
}

/// A packet's headers without extended ones.
pub(super) fn packet(opcode: Opcode, qpn: u32, psn: u32) -> PacketRepr {
    PacketRepr {
        bth: Bth::new(opcode, Qpn::new(qpn).unwrap(), Psn::new(psn)),
        ext: ExtHeaders::NONE,
    }
}

/// A request for memory: an RDMA READ or WRITE.
pub(super) fn request(opcode: Opcode, qpn: u32, psn: u32, dma_len: u32) -> PacketRepr {
    let mut repr = packet(opcode, qpn, psn);
    repr.ext.reth = Some(Reth {
        va: 0x7f00_1234_5678,
        rkey: 0x1122_3344,
        dma_len,
    });
    repr
}

/// An acknowledgement or a response.
pub(super) fn response(opcode: Opcode, qpn: u32, psn: u32, syndrome: Syndrome) -> PacketRepr {
    let mut repr = packet(opcode, qpn, psn);
    repr.ext.aeth = Some(Aeth { syndrome, msn: 5 });
    repr
}

/// The first packet's time in these files, and the interval between packets.
const START: Duration = Duration::new(1_700_000_000, 1_000);
const STEP: Duration = Duration::from_micros(10);

/// The `i`th packet's time.
fn time(i: usize) -> Duration {
    START + STEP * u32::try_from(i).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    pub(super) fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    pub(super) fn i64(self, value: i64) -> [u8; 8] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }
}

/// A pcap file of whole packets.
pub(super) fn pcap(order: Order, is_nano: bool, link_type: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let whole: Vec<(&[u8], usize)> = packets.iter().map(|p| (&p[..], p.len())).collect();
    pcap_cut(order, is_nano, link_type, &whole)
}

/// A pcap file of packets with their lengths on the wire.
pub(super) fn pcap_cut(
    order: Order,
    is_nano: bool,
    link_type: u32,
    packets: &[(&[u8], usize)],
) -> Vec<u8> {
    let magic = if is_nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut file = order.u32(magic).to_vec();
    file.extend(order.u16(2));
    file.extend(order.u16(4));
    file.extend([0; 8]);
    file.extend(order.u32(262_144));
    file.extend(order.u32(link_type));
    for (i, (packet, wire_len)) in packets.iter().enumerate() {
        let fraction = match is_nano {
            true => time(i).subsec_nanos(),
            false => time(i).subsec_micros(),
        };
        file.extend(order.u32(u32::try_from(time(i).as_secs()).unwrap()));
        file.extend(order.u32(fraction));
        file.extend(order.u32(packet.len() as u32));
        file.extend(order.u32(*wire_len as u32));
        file.extend(*packet);
    }
    file
}

/// Ethernet, microseconds, little-endian: what tcpdump writes.
pub(super) fn usual_pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    pcap(Order::Little, false, 1, packets)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks(pub(super) Order);

impl Blocks {
    pub(super) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let len = self.0.u32((12 + body.len().next_multiple_of(4)) as u32);
        let mut block = self.0.u32(kind).to_vec();
        block.extend(len);
        block.extend(body);
        block.resize(block.len().next_multiple_of(4), 0);
        block.extend(len);
        block
    }

    pub(super) fn section(self) -> Vec<u8> {
        let mut body = self.0.u32(0x1a2b_3c4d).to_vec();
        body.extend(self.0.u16(1));
        body.extend(self.0.u16(0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body)
    }

    /// An interface, with options as code and value.
    pub(super) fn interface(self, link_type: u16, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = self.0.u16(link_type).to_vec();
        body.extend([0; 2]);
        body.extend(self.0.u32(0));
        for (code, value) in options {
            body.extend(self.0.u16(*code));
            body.extend(self.0.u16(value.len() as u16));
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    pub(super) fn packet(self, interface: u32, ticks: u64, packet: &[u8]) -> Vec<u8> {
        self.commented(interface, ticks, packet, &[])
    }

    /// One with options, as code and value.
    pub(super) fn commented(
        self,
        interface: u32,
        ticks: u64,
        packet: &[u8],
        options: &[(u16, &[u8])],
    ) -> Vec<u8> {
        let mut body = self.0.u32(interface).to_vec();
        body.extend(self.0.u32((ticks >> 32) as u32));
        body.extend(self.0.u32(ticks as u32));
        body.extend(self.0.u32(packet.len() as u32));
        body.extend(self.0.u32(packet.len() as u32));
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        for (code, value) in options {
            body.extend(self.0.u16(*code));
            body.extend(self.0.u16(value.len() as u16));
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(6, &body)
    }
}
