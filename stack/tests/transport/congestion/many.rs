//! One NIC with many QPs, and a test that plays their peers.

use crate::sim::{Frame, Mem, Node, SRC_PORT, Setup, frame};
use roce_stack::{
    CongestionControl, Instant, IpCovered, QpCongestion, QpInit, QpKind, QueueLimits, RxMeta,
    SendFlags, SendOp, SendRequest, TxMeta,
};
use roce_wire::{Bth, ExtHeaders, Opcode, Psn, Qpn};

pub(super) struct Many {
    pub(super) node: Node,
    pub(super) now: Instant,
    setup: Setup,
    qps: Vec<(Qpn, TxMeta)>,
    /// Packets of each QP that have left.
    pub(super) sent: Vec<u64>,
    mem: Mem,
}

/// The number of a QP's peer.
fn peer(index: usize) -> Qpn {
    Qpn::from_bits(u32::try_from(index).expect("not that many") + 0x10_0000)
}

impl Many {
    /// QPs of UC, one to each of these hosts.
    pub(super) fn new(control: CongestionControl, hosts: &[u8], bytes: usize) -> Self {
        let setup = Setup {
            kind: QpKind::Uc,
            queue: QueueLimits {
                depth: 2,
                max_sge: 1,
            },
            ..Setup::default()
        };
        let mut node = Node::new(&setup.node(1));
        node.nic.set_congestion_control(control);
        let mem = node.mem(bytes);
        let mut many = Self {
            node,
            now: Instant::from_nanos(1_000_000),
            setup,
            qps: Vec::new(),
            sent: Vec::new(),
            mem,
        };
        hosts.iter().for_each(|host| many.add(*host));
        many
    }

    fn add(&mut self, host: u8) {
        let Self { node, setup, .. } = self;
        let init = QpInit {
            signal_all: false,
            ..node.init(setup.kind, setup.queue)
        };
        let qpn = node.nic.create_qp(init).expect("QPNs are left");
        let path = TxMeta {
            src: setup.ip.address(1),
            dst: setup.ip.address(host),
            traffic_class: 0,
            hop_limit: 64,
            version: setup.ip.version(),
        };
        let dest = peer(self.qps.len());
        for step in [setup.init(), setup.rtr(path, dest, 0), setup.rts(0)] {
            node.nic.modify_qp(self.now, qpn, &step).expect("legal");
        }
        self.qps.push((qpn, path));
        self.sent.push(0);
    }

    /// Posts a message of all the memory.
    pub(super) fn post(&mut self, index: usize) {
        let sge = self.mem.sge(0, self.mem.buffer.len());
        let wr = SendRequest::new(1, SendOp::Send, sge).with_flags(SendFlags::empty());
        let posted = self.node.nic.post_send(self.now, self.qps[index].0, &wr);
        posted.expect("posted");
    }

    /// Delivers a packet from a host to the QP.
    pub(super) fn deliver(&mut self, index: usize, opcode: Opcode, psn: u32, from: u8, mark: u8) {
        let (qpn, path) = self.qps[index];
        let mut bth = Bth::new(opcode, qpn, Psn::new(psn));
        bth.becn = opcode == Opcode::CNP;
        let meta = RxMeta {
            src: self.setup.ip.address(from),
            dst: path.src,
            src_port: SRC_PORT,
            traffic_class: mark,
            ip: IpCovered::V4 {
                id: 7,
                flags_fragment: 0x4000,
            },
        };
        let Frame { meta, bytes, .. } = frame(meta, bth, ExtHeaders::NONE, &[]);
        self.node.nic.receive(self.now, &meta, &bytes);
    }

    /// Sends everything that may leave now. Returns the number of packets without data.
    pub(super) fn send(&mut self) -> usize {
        let mut notices = 0;
        while self.node.nic.wants_to_send() {
            self.node.nic.transmit(self.now, &mut self.node.port);
            for frame in self.node.port.out.drain(..) {
                let number =
                    u32::from_be_bytes([0, frame.bytes[5], frame.bytes[6], frame.bytes[7]]);
                let index = (number - 0x10_0000) as usize;
                if frame.bytes[0] == 0x81 {
                    notices += 1;
                } else {
                    self.sent[index] += 1;
                }
            }
        }
        self.node.take_events();
        notices
    }

    /// Advances the time to `end`, and runs all timers.
    pub(super) fn run_until(&mut self, end: Instant) {
        self.send();
        while let Some(at) = self.node.nic.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.node.nic.handle_timeouts(self.now);
            self.send();
        }
        self.now = end;
    }

    pub(super) fn destroy(&mut self, index: usize) {
        assert!(self.node.nic.destroy_qp(self.qps[index].0));
    }

    pub(super) fn told(&self, index: usize) -> QpCongestion {
        let told = self.node.nic.qp_congestion(self.now, self.qps[index].0);
        told.expect("a QP")
    }
}
