//! A host that may send any packet, and the packets that it forges.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Instant;

use roce_tests::veth::End;
use roce_verbs::prelude::*;
use roce_wire::cm::CmMad;
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{
    Bth, Deth, ExtHeaders, Frame, FrameRepr, MAD_LEN, NetworkHeader, Opcode, PacketRepr, QKey,
    Reth, UDP_PORT, UdpHeader,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::scene::{TIMEOUT, wait_for};

/// All that a forged packet has besides what it does.
pub(super) struct Disguise {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) source_port: u16,
    /// The identification of the last packet, for IPv4.
    id: AtomicU16,
}

impl Disguise {
    /// `id` is the identification of the last packet, for IPv4.
    pub(super) fn new(from: IpAddr, to: IpAddr, source_port: u16, id: u16) -> Self {
        Self {
            from,
            to,
            source_port,
            id: id.into(),
        }
    }

    /// The same packets from another address.
    pub(super) fn with_address(&self, from: IpAddr) -> Self {
        let id = self.id.load(Ordering::Relaxed);
        Self::new(from, self.to, self.source_port, id)
    }
}

/// What a forged packet does.
#[derive(Clone, Debug)]
pub(super) struct Forged {
    pub(super) bth: Bth,
    pub(super) ext: ExtHeaders,
    pub(super) payload: Vec<u8>,
    /// DSCP and ECN.
    pub(super) traffic_class: u8,
}

impl Forged {
    pub(super) fn new(opcode: Opcode, to: Qpn, psn: u32, ext: ExtHeaders, payload: &[u8]) -> Self {
        Self {
            bth: Bth::new(opcode, to, Psn::new(psn)),
            ext,
            payload: payload.to_vec(),
            // ECN-capable, as usual.
            traffic_class: 2,
        }
    }

    /// A WRITE of these bytes.
    pub(super) fn write(opcode: Opcode, to: Qpn, psn: u32, at: RemoteAddr, payload: &[u8]) -> Self {
        let reth = Reth {
            va: at.addr,
            rkey: at.rkey,
            dma_len: payload.len() as u32,
        };
        let ext = ExtHeaders {
            reth: Some(reth),
            ..ExtHeaders::NONE
        };
        Self::new(opcode, to, psn, ext, payload)
    }

    /// A message to the connection manager.
    pub(super) fn mad(mad: &[u8; MAD_LEN]) -> Self {
        // The key of QP1 (IBTA 1.7, 10.2.5).
        let deth = Deth {
            qkey: QKey(0x8001_0000),
            src_qpn: Qpn::QP1,
        };
        let ext = ExtHeaders {
            deth: Some(deth),
            ..ExtHeaders::NONE
        };
        Self::new(Opcode::UD_SEND_ONLY, Qpn::QP1, 0, ext, mad)
    }

    /// The BTH, for another QP.
    pub(super) fn header_for(&self, to: Qpn) -> [u8; Bth::LEN] {
        let bth = Bth {
            dest_qpn: to,
            ..self.bth
        };
        let mut bytes = [0; Bth::LEN];
        bth.emit(&mut bytes);
        bytes
    }

    /// The bytes from the BTH to the ICRC, which is not computed yet.
    fn transport(&self) -> Vec<u8> {
        let repr = PacketRepr {
            bth: self.bth,
            ext: self.ext,
        };
        let mut bytes = vec![0; repr.buffer_len(self.payload.len())];
        let at = repr.emit_headers(&mut bytes, self.payload.len());
        bytes[at..][..self.payload.len()].copy_from_slice(&self.payload);
        bytes
    }
}

/// The message of communication management in a frame.
pub(super) fn mad_of<T>(
    frame: &Frame<'_>,
    find: impl FnOnce(&CmMad<'_>) -> Option<T>,
) -> Option<T> {
    let packet = frame.packet().ok()?;
    let mad = CmMad::parse(packet.payload).ok();
    find(&mad.filter(|_| packet.bth.dest_qpn == Qpn::QP1)?)
}

/// A host that may send anything.
pub(super) struct Attacker<'a> {
    end: &'a End,
    v4: Socket,
    v6: Socket,
}

/// The number of packets after which a flood waits until the victim has seen them.
const BURST: u64 = 128;

impl<'a> Attacker<'a> {
    /// The attacker at this host.
    pub(super) fn at(end: &'a End) -> Self {
        let raw = |domain| {
            // The sender provides the whole packet, from the IP header on.
            let protocol = Protocol::from(libc::IPPROTO_RAW);
            Socket::new(domain, Type::RAW, Some(protocol)).expect("root may")
        };
        end.enter(|| Self {
            end,
            v4: raw(Domain::IPV4),
            v6: raw(Domain::IPV6),
        })
    }

    /// Its own address.
    pub(super) fn address(&self, ipv6: bool) -> IpAddr {
        self.end.address(ipv6)
    }

    /// Sends a packet with a correct ICRC.
    pub(super) fn send(&self, disguise: &Disguise, forged: &Forged) {
        let (from, to) = (disguise.from, disguise.to);
        let id = disguise.id.fetch_add(1, Ordering::Relaxed);
        // The kernel would replace 0.
        let id = id.wrapping_add(1).max(1);
        let mut transport = forged.transport();
        let (network, covered) = match (from, to) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst, flags_fragment) = (src.octets(), dst.octets(), 0x4000);
                let network = NetworkHeader::V4 {
                    src,
                    dst,
                    tos: forged.traffic_class,
                    ttl: 64,
                    id,
                    flags_fragment,
                    options: &[],
                };
                let covered = IpHeader::V4 {
                    src,
                    dst,
                    id,
                    flags_fragment,
                };
                (network, covered)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (src, dst) = (src.octets(), dst.octets());
                let network = NetworkHeader::V6 {
                    src,
                    dst,
                    traffic_class: forged.traffic_class,
                    flow_label: 0,
                    hop_limit: 64,
                };
                (network, IpHeader::V6 { src, dst })
            }
            _ => panic!("{from} and {to} are of different families"),
        };
        icrc::seal(&covered, disguise.source_port, UDP_PORT, &mut transport);
        self.emit(to, network, disguise.source_port, &transport);
    }

    /// Sends these bytes to the RoCE port, whatever they are.
    pub(super) fn send_bytes(&self, disguise: &Disguise, bytes: &[u8]) {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (disguise.from, disguise.to) else {
            panic!("over IPv4 only");
        };
        let network = NetworkHeader::V4 {
            src: src.octets(),
            dst: dst.octets(),
            tos: 2,
            ttl: 64,
            id: 1,
            flags_fragment: 0x4000,
            options: &[],
        };
        self.emit(disguise.to, network, disguise.source_port, bytes);
    }

    fn emit(&self, to: IpAddr, network: NetworkHeader<'_>, src_port: u16, transport: &[u8]) {
        let mut frame = FrameRepr {
            link: None,
            network,
            udp: Some(UdpHeader {
                src_port,
                dst_port: UDP_PORT,
                checksum: 0,
            }),
        };
        let checksum = frame.udp_checksum(transport).expect("it has UDP");
        frame.udp = frame.udp.map(|udp| UdpHeader { checksum, ..udp });
        let mut bytes = vec![0; frame.buffer_len(transport.len())];
        frame.emit(&mut bytes, transport);
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        let end = Instant::now() + TIMEOUT;
        // Its own queue may be full for a moment.
        while let Err(error) = socket.send_to(&bytes, &SocketAddr::new(to, 0).into()) {
            let full = error.raw_os_error() == Some(libc::ENOBUFS);
            assert!(full && Instant::now() < end, "{to}: {error}");
            thread::yield_now();
        }
    }

    /// Sends the packets no faster than the victim takes them. `seen` returns how many it has seen.
    pub(super) fn flood(
        &self,
        disguise: &Disguise,
        packets: impl IntoIterator<Item = Forged>,
        seen: impl Fn() -> u64,
    ) {
        let (before, mut sent) = (seen(), 0);
        for packet in packets {
            self.send(disguise, &packet);
            sent += 1;
            if sent % BURST == 0 {
                wait_for("a burst arrives", || seen() - before >= sent);
            }
        }
        wait_for("the last burst arrives", || seen() - before >= sent);
    }
}
