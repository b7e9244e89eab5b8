//! One NIC, and a test that plays its peer with packets written by hand.

use super::node::{Mem, Node};
use super::pair::Setup;
use super::port::{Frame, Ip, SRC_PORT};
use roce_stack::{
    DropReason, Instant, IpCovered, QpAttributes, QpState, RecvRequest, RxMeta, SendFlags, SendOp,
    SendRequest, Sge, Stat,
};
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{
    Aeth, Bth, ExtHeaders, NakCode, Opcode, Packet, PacketRepr, Psn, Qpn, Syndrome, UDP_PORT,
};
use std::net::IpAddr;

/// The QPN of the peer that the test plays.
pub(crate) const PEER_QPN: Qpn = Qpn::from_bits(0x123_456);

/// A packet that the NIC sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) bth: Bth,
    pub(crate) ext: ExtHeaders,
    pub(crate) payload: Vec<u8>,
}

impl Out {
    pub(crate) fn opcode(&self) -> Opcode {
        self.bth.opcode
    }

    pub(crate) fn psn(&self) -> u32 {
        self.bth.psn.get()
    }

    pub(crate) fn syndrome(&self) -> Option<Syndrome> {
        self.ext.aeth.map(|aeth| aeth.syndrome)
    }
}

pub(crate) struct Hand {
    pub(crate) setup: Setup,
    pub(crate) node: Node,
    pub(crate) now: Instant,
    /// The next PSN that the test sends.
    pub(crate) psn: u32,
}

impl Hand {
    /// A NIC whose QP is in RTS: it sends from `setup.psn[0]` and expects `setup.psn[1]`.
    pub(crate) fn new(setup: Setup) -> Self {
        let mut hand = Self::in_reset(setup);
        hand.advance_to(QpState::Rts);
        hand
    }

    pub(crate) fn in_reset(setup: Setup) -> Self {
        Self {
            setup,
            node: Node::new(&setup.node(1)),
            now: Instant::from_nanos(1_000_000),
            psn: setup.psn[1],
        }
    }

    /// Moves through the states up to `state`, one of INIT, RTR, RTS.
    pub(crate) fn advance_to(&mut self, state: QpState) {
        let path = self.setup.path();
        let steps = [
            (QpState::Reset, self.setup.init()),
            (
                QpState::Init,
                self.setup.rtr(path, PEER_QPN, self.setup.psn[1]),
            ),
            (QpState::Rtr, self.setup.rts(self.setup.psn[0])),
        ];
        for (from, step) in steps {
            if self.state() == from && from != state {
                let (nic, qpn) = (&mut self.node.nic, self.node.qpn);
                nic.modify_qp(self.now, qpn, &step).expect("legal");
            }
        }
        assert_eq!(self.state(), state);
    }

    /// Changes only the QP's state.
    pub(crate) fn modify(&mut self, state: QpState) {
        let step = QpAttributes {
            state: Some(state),
            ..QpAttributes::default()
        };
        let (nic, qpn) = (&mut self.node.nic, self.node.qpn);
        nic.modify_qp(self.now, qpn, &step).expect("legal");
    }

    pub(crate) fn mem(&mut self, len: usize) -> Mem {
        self.node.mem(len)
    }

    pub(crate) fn post(&mut self, wr_id: u64, op: SendOp, sges: &[Sge]) {
        self.post_with(wr_id, op, sges, SendFlags::SIGNALED);
    }

    pub(crate) fn post_with(&mut self, wr_id: u64, op: SendOp, sges: &[Sge], flags: SendFlags) {
        self.post_request(&SendRequest::new(wr_id, op, sges).with_flags(flags));
    }

    pub(crate) fn post_request(&mut self, request: &SendRequest<'_>) {
        self.node
            .nic
            .post_send(self.now, self.node.qpn, request)
            .expect("posted");
    }

    pub(crate) fn post_recv(&mut self, wr_id: u64, sges: &[Sge]) {
        let wr = RecvRequest { wr_id, sges };
        self.node
            .nic
            .post_recv(self.now, self.node.qpn, &wr)
            .expect("posted");
    }

    /// The metadata that the port reports for a packet from the peer.
    pub(crate) fn meta(&self) -> RxMeta {
        RxMeta {
            src: self.setup.ip.address(2),
            dst: self.setup.ip.address(1),
            src_port: SRC_PORT,
            traffic_class: 0,
            ip: match self.setup.ip {
                Ip::V4 => IpCovered::V4 {
                    id: 7,
                    flags_fragment: 0x4000,
                },
                Ip::V4Hidden => IpCovered::V4Hidden,
                Ip::V6 => IpCovered::V6,
                Ip::Grh => IpCovered::Grh,
            },
        }
    }

    /// A header for the NIC's QP.
    pub(crate) fn bth(&self, opcode: Opcode, psn: u32) -> Bth {
        let mut bth = Bth::new(opcode, self.node.qpn, Psn::new(psn));
        bth.ack_req = opcode.is_request();
        bth
    }

    /// Delivers a request with the next PSN.
    pub(crate) fn request(&mut self, opcode: Opcode, ext: ExtHeaders, payload: &[u8]) {
        let bth = self.bth(opcode, self.psn);
        self.psn = Psn::new(self.psn).next().get();
        self.deliver(bth, ext, payload);
    }

    /// Delivers a packet as given, with the right ICRC.
    pub(crate) fn deliver(&mut self, bth: Bth, ext: ExtHeaders, payload: &[u8]) {
        let meta = self.meta();
        self.deliver_from(meta, bth, ext, payload);
    }

    pub(crate) fn deliver_from(&mut self, meta: RxMeta, bth: Bth, ext: ExtHeaders, payload: &[u8]) {
        let frame = frame(meta, bth, ext, payload);
        self.node.nic.receive(self.now, &frame.meta, &frame.bytes);
        self.node.take_events();
    }

    /// Delivers an acknowledge packet.
    pub(crate) fn answer(&mut self, psn: u32, syndrome: Syndrome) {
        let ext = ExtHeaders {
            aeth: Some(Aeth { syndrome, msn: 0 }),
            ..ExtHeaders::NONE
        };
        self.deliver(self.bth(Opcode::RC_ACKNOWLEDGE, psn), ext, &[]);
    }

    /// A positive acknowledgement without credits.
    pub(crate) fn ack(&mut self, psn: u32) {
        self.answer(psn, Syndrome::default());
    }

    pub(crate) fn nak(&mut self, psn: u32, code: NakCode) {
        self.answer(psn, Syndrome::Nak(code));
    }

    /// The packets that the NIC sends now.
    pub(crate) fn out(&mut self) -> Vec<Out> {
        let Self { node, now, .. } = self;
        for _ in 0..10_000 {
            if !node.nic.wants_to_send() || node.port.out.len() >= node.port.max_queued {
                break;
            }
            node.nic.transmit(*now, &mut node.port);
        }
        node.take_events();
        let mut sent = std::mem::take(&mut node.port.out);
        for frame in &mut sent {
            node.port.arrive(frame);
        }
        let parse = |frame: Frame| {
            let packet = Packet::parse(&frame.bytes).expect("well-formed");
            Out {
                bth: packet.bth,
                ext: packet.ext,
                payload: packet.payload.to_vec(),
            }
        };
        sent.into_iter().map(parse).collect()
    }

    /// The PSNs of the packets that the NIC sends now.
    pub(crate) fn out_psns(&mut self) -> Vec<u32> {
        self.out().iter().map(Out::psn).collect()
    }

    /// The only packet that the NIC sends now.
    #[track_caller]
    pub(crate) fn out_one(&mut self) -> Out {
        let mut out = self.out();
        assert_eq!(out.len(), 1, "one packet expected: {out:#?}");
        out.remove(0)
    }

    /// Advances the time to the next timeout, and runs it.
    #[track_caller]
    pub(crate) fn timeout(&mut self) {
        let at = self.node.nic.next_timeout().expect("a timer runs");
        self.now = self.now.max(at);
        self.node.nic.handle_timeouts(self.now);
        self.node.take_events();
    }

    pub(crate) fn state(&self) -> QpState {
        self.node.nic.query_qp(self.node.qpn).expect("a QP").0
    }

    pub(crate) fn drops(&self, reason: DropReason) -> u64 {
        self.node.nic.counters().drops(reason)
    }

    pub(crate) fn stat(&self, stat: Stat) -> u64 {
        self.node.nic.counters().stat(stat)
    }
}

/// A packet with the right ICRC for `meta`.
pub(crate) fn frame(meta: RxMeta, bth: Bth, ext: ExtHeaders, payload: &[u8]) -> Frame {
    let repr = PacketRepr { bth, ext };
    let mut bytes = vec![0; repr.buffer_len(payload.len())];
    let at = repr.emit_headers(&mut bytes, payload.len());
    bytes[at..][..payload.len()].copy_from_slice(payload);
    seal(&meta, &mut bytes);
    Frame::new(meta, bytes)
}

/// Writes the right ICRC, for any bytes before it.
pub(crate) fn seal(meta: &RxMeta, bytes: &mut [u8]) {
    icrc::seal(&ip_header(meta), meta.src_port, UDP_PORT, bytes);
}

fn ip_header(meta: &RxMeta) -> IpHeader {
    let (id, flags_fragment) = match meta.ip {
        IpCovered::V4 { id, flags_fragment } => (id, flags_fragment),
        // Any value works: the receiver can't see them.
        IpCovered::V4Hidden | IpCovered::V6 | IpCovered::Grh | IpCovered::OnHost => {
            (0x1234, 0x4000)
        }
    };
    if let (IpAddr::V4(src), IpAddr::V4(dst), IpCovered::Grh) = (meta.src, meta.dst, meta.ip) {
        return IpHeader::Grh {
            sgid: src.to_ipv6_mapped().octets(),
            dgid: dst.to_ipv6_mapped().octets(),
        };
    }
    match (meta.src, meta.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => IpHeader::V4 {
            src: src.octets(),
            dst: dst.octets(),
            id,
            flags_fragment,
        },
        (IpAddr::V6(src), IpAddr::V6(dst)) => IpHeader::V6 {
            src: src.octets(),
            dst: dst.octets(),
        },
        (src, dst) => panic!("two families: {src}, {dst}"),
    }
}
