//! What the targets that drive a live NIC share: a port in memory, and hosts on it.

mod attributes;

pub use attributes::{QKEY, to_state};

use roce_stack::{
    Access, Buffer, Completion, CompletionQueue, CqId, Instant, IpCovered, Nic, NicConfig, PdId,
    QpInit, QpKind, QpState, QueueLimits, RemoteAddr, ReserveError, RxMeta, Sge, Transmit, TxMeta,
    TxSlot,
};
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{PathMtu, Psn, Qpn, UDP_PORT};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The largest packet that a [`MemPort`] takes.
pub const MAX_PACKET: usize = 1200;
/// The path MTU of all QPs: small, so that messages have several packets.
pub const MTU: PathMtu = PathMtu::Mtu256;
/// How many requests each queue takes.
pub const DEPTH: usize = 16;

const SRC_PORT: u16 = 0xc000;

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Frame {
    /// What the receiving port says of it.
    pub meta: RxMeta,
    /// BTH to ICRC.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Whether the ICRC is right.
    pub fn is_intact(&self) -> bool {
        let ip = ip_header(&self.meta);
        icrc::verify(&ip, self.meta.src_port, UDP_PORT, &self.bytes).is_ok()
    }
}

/// The address of host `n`.
pub fn address(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, n).into()
}

/// What a port says of packets from one host to another.
pub fn meta(from: u8, to: u8) -> RxMeta {
    RxMeta {
        src: address(from),
        dst: address(to),
        src_port: SRC_PORT,
        traffic_class: 0,
        ip: IpCovered::V4 {
            id: 0,
            flags_fragment: icrc::DONT_FRAGMENT,
        },
    }
}

/// Writes the right ICRC, whatever the bytes before it.
pub fn seal(meta: &RxMeta, bytes: &mut [u8]) {
    icrc::seal(&ip_header(meta), meta.src_port, UDP_PORT, bytes);
}

fn ip_header(meta: &RxMeta) -> IpHeader {
    let octets = |address| match address {
        IpAddr::V4(v4) => Ipv4Addr::octets(&v4),
        IpAddr::V6(_) => [0; 4],
    };
    IpHeader::V4 {
        src: octets(meta.src),
        dst: octets(meta.dst),
        id: 0,
        flags_fragment: icrc::DONT_FRAGMENT,
    }
}

/// A port whose packets wait in a list.
#[derive(Debug, Default)]
pub struct MemPort {
    slot: Vec<u8>,
    reserved: Option<TxMeta>,
    /// What was committed.
    pub out: Vec<Frame>,
}

impl Transmit for MemPort {
    fn reserve(
        &mut self,
        to: &TxMeta,
        _to_qp: Qpn,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        assert!(len <= MAX_PACKET, "a packet of {len} bytes");
        self.reserved = Some(*to);
        self.slot.clear();
        self.slot.resize(len, 0xa5);
        Ok(TxSlot {
            bytes: &mut self.slot,
            src_port: SRC_PORT,
            ip: meta(0, 0).ip,
        })
    }

    fn commit(&mut self) {
        let to = self.reserved.take().expect("a reservation to commit");
        let meta = RxMeta {
            src: to.src,
            dst: to.dst,
            traffic_class: to.traffic_class,
            ..meta(0, 0)
        };
        let bytes = self.slot.clone();
        let frame = Frame { meta, bytes };
        assert!(frame.is_intact(), "what is sent has the right ICRC");
        self.out.push(frame);
    }
}

/// A registered buffer.
#[derive(Clone, Debug)]
pub struct Mem {
    /// Its bytes.
    pub buffer: Arc<Buffer>,
    /// Its key.
    pub key: u32,
}

impl Mem {
    /// A stretch of it, for a request's list.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.buffer.addr().wrapping_add(offset),
            length,
            lkey: self.key,
        }
    }

    /// A place in it, as the peer names it.
    pub fn remote(&self, offset: u64) -> RemoteAddr {
        RemoteAddr {
            addr: self.buffer.addr().wrapping_add(offset),
            rkey: self.key,
        }
    }

    /// A copy of some of its bytes.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.buffer.read(offset, &mut bytes).expect("within");
        bytes
    }
}

/// A NIC on its port, with what its QPs use.
#[derive(Debug)]
pub struct Host {
    /// Its number, of which its address is made.
    pub number: u8,
    /// The NIC.
    pub nic: Nic,
    /// Its port.
    pub port: MemPort,
    /// The protection domain of its QPs.
    pub pd: PdId,
    /// Where sends complete.
    pub send_cq: Arc<CompletionQueue>,
    /// Where receives complete.
    pub recv_cq: Arc<CompletionQueue>,
}

impl Host {
    /// A NIC without QPs.
    pub fn new(number: u8) -> Self {
        let mut nic = Nic::new(&NicConfig {
            seed: [number; 32],
            max_packet_bytes: MAX_PACKET,
            window_bytes: 8 << 10,
        });
        let pd = nic.alloc_pd();
        Self {
            number,
            nic,
            port: MemPort::default(),
            pd,
            send_cq: Arc::new(CompletionQueue::new(CqId(1), 1 << 12)),
            recv_cq: Arc::new(CompletionQueue::new(CqId(2), 1 << 12)),
        }
    }

    /// What a QP of this kind is made with.
    pub fn qp_init(&self, kind: QpKind) -> QpInit {
        let size = QueueLimits {
            depth: DEPTH,
            max_sge: 2,
        };
        QpInit {
            kind,
            pd: self.pd,
            send_cq: Arc::clone(&self.send_cq),
            recv_cq: Arc::clone(&self.recv_cq),
            send: size,
            recv: size,
            signal_all: true,
            max_inline: 0,
        }
    }

    /// A registered buffer in a protection domain.
    pub fn mem(&mut self, pd: PdId, len: usize, access: Access) -> Mem {
        let buffer = Arc::new(Buffer::new(len).expect("a buffer"));
        let key = self
            .nic
            .register_buffer(pd, Arc::clone(&buffer), access)
            .expect("registered");
        Mem { buffer, key }
    }

    /// Takes a QP from RESET to `state`, connected to a QP of another host
    /// if it is of a kind that is.
    pub fn bring_to(&mut self, now: Instant, qpn: Qpn, kind: QpKind, peer: Peer, state: QpState) {
        let steps = [
            attributes::init(kind),
            attributes::rtr(kind, self.number, peer),
            attributes::rts(kind, peer),
        ];
        let order = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
        let last = order.iter().position(|s| *s == state).unwrap_or(3);
        for step in steps.iter().take(last) {
            self.nic.modify_qp(now, qpn, step).expect("legal");
        }
        if matches!(state, QpState::Sqd | QpState::Err) {
            self.nic
                .modify_qp(now, qpn, &to_state(state))
                .expect("legal");
        }
    }

    /// Lets it send all that it can now.
    pub fn transmit(&mut self, now: Instant) -> Vec<Frame> {
        for _ in 0..1_000 {
            if !self.nic.wants_to_send() {
                return std::mem::take(&mut self.port.out);
            }
            self.nic.transmit(now, &mut self.port);
        }
        panic!("endless sending");
    }

    /// The completions of sends, or of receives, that have come.
    pub fn completions(&self, of_sends: bool) -> Vec<Completion> {
        let cq = if of_sends {
            &self.send_cq
        } else {
            &self.recv_cq
        };
        std::iter::from_fn(|| cq.poll().expect("no overrun")).collect()
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The host's number.
    pub host: u8,
    /// Its QP.
    pub qpn: Qpn,
    /// The first PSN that it sends.
    pub psn: Psn,
    /// The first PSN that it expects.
    pub own_psn: Psn,
}
