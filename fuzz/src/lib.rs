//! Shared by the targets that drive a NIC: a port in memory, and hosts on it.

mod attributes;

pub use attributes::{QKEY, to_state};
pub use roce_port::memory::Frame;

use roce_port::MemoryPort;
use roce_port::memory::{MemoryIp, SRC_PORT};
use roce_stack::{
    Access, Buffer, Completion, CompletionQueue, CqId, Instant, IpCovered, Nic, NicConfig, PdId,
    QpInit, QpKind, QpState, QueueLimits, RemoteAddr, RxMeta, Sge,
};
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{PathMtu, Psn, Qpn, UDP_PORT};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The largest packet that a [`MemoryPort`] takes.
pub const MAX_PACKET: usize = 1200;
/// The path MTU of all QPs: small, so that messages have several packets.
pub const MTU: PathMtu = PathMtu::Mtu256;
/// The depth of each queue, in requests.
pub const DEPTH: usize = 16;

/// Whether the ICRC of a packet is right.
pub fn is_intact(frame: &Frame) -> bool {
    let ip = ip_header(&frame.meta);
    icrc::verify(&ip, frame.meta.src_port, UDP_PORT, &frame.bytes).is_ok()
}

/// The address of host `n`.
pub fn address(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, n).into()
}

/// The metadata that a port reports for packets from one host to another.
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

/// Writes the correct ICRC of `bytes` into its last four bytes.
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

/// A registered buffer.
#[derive(Clone, Debug)]
pub struct Mem {
    /// Its bytes.
    pub buffer: Arc<Buffer>,
    /// Its key.
    pub key: u32,
}

impl Mem {
    /// A range of it, as a scatter/gather element.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.buffer.addr().wrapping_add(offset),
            length,
            lkey: self.key,
        }
    }

    /// The remote address of a byte in it.
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

/// A NIC on its port, with the PD and the CQs of its QPs.
#[derive(Debug)]
pub struct Host {
    /// Its number, from which its address is derived.
    pub number: u8,
    /// The NIC.
    pub nic: Nic,
    /// Its port.
    pub port: MemoryPort,
    /// The protection domain of its QPs.
    pub pd: PdId,
    /// The CQ of the send queues.
    pub send_cq: Arc<CompletionQueue>,
    /// The CQ of the receive queues.
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
            port: MemoryPort::new(MemoryIp::V4, MAX_PACKET).poisoned(),
            pd,
            send_cq: Arc::new(CompletionQueue::new(CqId(1), 1 << 12)),
            recv_cq: Arc::new(CompletionQueue::new(CqId(2), 1 << 12)),
        }
    }

    /// The parameters of a new QP of this kind.
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

    /// Moves a QP from RESET to `state`. Connects it to a QP of another host if its kind is
    /// connected.
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

    /// Sends everything that the NIC can send now, and returns the packets.
    pub fn transmit(&mut self, now: Instant) -> Vec<Frame> {
        for _ in 0..1_000 {
            if !self.nic.wants_to_send() {
                let refused = self.port.counters().tx_unsendable;
                assert_eq!(refused, 0, "packets longer than {MAX_PACKET} bytes");
                let sent = std::mem::take(&mut self.port.out);
                assert!(sent.iter().all(is_intact), "a sent packet has a wrong ICRC");
                return sent;
            }
            self.nic.transmit(now, &mut self.port);
        }
        panic!("endless sending");
    }

    /// Polls all completions of sends, or of receives.
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
