//! Two NICs and the wire between them, stepped through virtual time.
//!
//! A run is a function of its [`Setup`]: the same seed gives the same packets at the same times. It
//! has an upper bound in packets and in virtual time; a test that exceeds it fails with the seed in
//! the message, so nothing can hang.

use super::link::Link;
use super::node::{Mem, Node, NodeSetup};
use super::port::Ip;
use roce_stack::{
    Access, Completion, Duration, Instant, QpAttributes, QpKind, QpState, QueueLimits, RecvRequest,
    SendFlags, SendOp, SendRequest, Sge, TxMeta, WcStatus,
};
use roce_wire::{PathMtu, Psn, QKey, Qpn, RnrTimer};

/// The end that initiates in most tests.
pub(crate) const A: usize = 0;
/// The other end.
pub(crate) const B: usize = 1;

/// The Q_Key of datagrams.
pub(crate) const QKEY: QKey = QKey(0x1234_5678);

/// The parameters of a [`Pair`]; the same for both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) kind: QpKind,
    pub(crate) seed: u64,
    pub(crate) ip: Ip,
    pub(crate) mtu: PathMtu,
    /// The first PSN that each end sends.
    pub(crate) psn: [u32; 2],
    pub(crate) access: Access,
    pub(crate) queue: QueueLimits,
    pub(crate) cq_entries: usize,
    pub(crate) max_inline: usize,
    pub(crate) signal_all: bool,
    pub(crate) window_bytes: usize,
    pub(crate) rd_atomic: u8,
    pub(crate) dest_rd_atomic: u8,
    /// 4.096 us x 2^timeout.
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) rnr_timer: u8,
    /// Whether the NICs record events.
    pub(crate) records: bool,
    pub(crate) max_packets: usize,
    pub(crate) max_time: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            kind: QpKind::Rc,
            seed: 1,
            ip: Ip::V4,
            mtu: PathMtu::Mtu1024,
            psn: [0x10, 0x80_0000],
            access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
            queue: QueueLimits {
                depth: 64,
                max_sge: 4,
            },
            cq_entries: 256,
            max_inline: 64,
            signal_all: true,
            window_bytes: 256 << 10,
            rd_atomic: 4,
            dest_rd_atomic: 4,
            timeout: 8, // about 1 ms
            retry_cnt: 7,
            rnr_retry: 7,
            rnr_timer: 1, // 10 us
            records: false,
            max_packets: 100_000,
            max_time: Duration::from_secs(60),
        }
    }
}

impl Setup {
    /// From the NIC under test to the peer that a test plays.
    pub(crate) fn path(&self) -> TxMeta {
        TxMeta {
            src: self.ip.address(1),
            dst: self.ip.address(2),
            traffic_class: 0,
            hop_limit: 64,
            version: self.ip.version(),
        }
    }

    pub(crate) fn node(&self, host: u8) -> NodeSetup {
        NodeSetup {
            kind: self.kind,
            seed: self.seed,
            ip: self.ip,
            host,
            max_packet_bytes: 4200,
            window_bytes: self.window_bytes,
            queue: self.queue,
            cq_entries: self.cq_entries,
            max_inline: self.max_inline,
            signal_all: self.signal_all,
            records: self.records,
        }
    }

    pub(crate) fn init(&self) -> QpAttributes {
        QpAttributes {
            state: Some(QpState::Init),
            access: self.kind.is_connected().then_some(self.access),
            qkey: (!self.kind.is_connected()).then_some(QKEY),
            ..QpAttributes::default()
        }
    }

    pub(crate) fn rtr(&self, path: TxMeta, dest: Qpn, rq_psn: u32) -> QpAttributes {
        if !self.kind.is_connected() {
            return to_state(QpState::Rtr);
        }
        QpAttributes {
            state: Some(QpState::Rtr),
            dest_qpn: Some(dest),
            path: Some(path),
            path_mtu: Some(self.mtu),
            rq_psn: Some(Psn::new(rq_psn)),
            max_dest_rd_atomic: self.if_rc(self.dest_rd_atomic),
            min_rnr_timer: RnrTimer::from_code(self.rnr_timer).and_then(|timer| self.if_rc(timer)),
            ..QpAttributes::default()
        }
    }

    /// An attribute that only RC has.
    fn if_rc<T>(&self, value: T) -> Option<T> {
        (self.kind == QpKind::Rc).then_some(value)
    }

    pub(crate) fn rts(&self, sq_psn: u32) -> QpAttributes {
        QpAttributes {
            state: Some(QpState::Rts),
            sq_psn: Some(Psn::new(sq_psn)),
            timeout: self.if_rc(self.timeout),
            retry_cnt: self.if_rc(self.retry_cnt),
            rnr_retry: self.if_rc(self.rnr_retry),
            max_rd_atomic: self.if_rc(self.rd_atomic),
            ..QpAttributes::default()
        }
    }
}

/// Attributes that change only the state.
pub(crate) fn to_state(state: QpState) -> QpAttributes {
    QpAttributes {
        state: Some(state),
        ..QpAttributes::default()
    }
}

pub(crate) struct Pair {
    pub(crate) setup: Setup,
    pub(crate) nodes: [Node; 2],
    /// `links[A]` carries the packets that A sends.
    pub(crate) links: [Link; 2],
    pub(crate) now: Instant,
    packets: usize,
}

impl Pair {
    /// Both ends in RTS.
    pub(crate) fn new(setup: Setup) -> Self {
        let mut pair = Self::unconnected(setup);
        for side in [A, B] {
            pair.connect(side);
        }
        pair
    }

    /// Both ends in RESET.
    pub(crate) fn unconnected(setup: Setup) -> Self {
        Self {
            setup,
            nodes: [Node::new(&setup.node(1)), Node::new(&setup.node(2))],
            links: [Link::new(setup.seed * 2), Link::new(setup.seed * 2 + 1)],
            now: Instant::from_nanos(1_000_000),
            packets: 0,
        }
    }

    /// RESET to RTS for one end.
    pub(crate) fn connect(&mut self, side: usize) {
        self.modify(side, &self.setup.init());
        self.connect_from_init(side);
    }

    /// INIT to RTS for one end.
    pub(crate) fn connect_from_init(&mut self, side: usize) {
        self.enter_rtr(side);
        self.modify(side, &self.setup.rts(self.setup.psn[side]));
    }

    /// INIT to RTR for one end.
    pub(crate) fn enter_rtr(&mut self, side: usize) {
        let path = self.path(side);
        let dest = self.nodes[1 - side].qpn;
        let rtr = self.setup.rtr(path, dest, self.setup.psn[1 - side]);
        self.modify(side, &rtr);
    }

    pub(crate) fn path(&self, side: usize) -> TxMeta {
        TxMeta {
            src: self.nodes[side].address,
            dst: self.nodes[1 - side].address,
            traffic_class: 0,
            hop_limit: 64,
            version: self.setup.ip.version(),
        }
    }

    pub(crate) fn modify(&mut self, side: usize, attributes: &QpAttributes) {
        let node = &mut self.nodes[side];
        node.nic
            .modify_qp(self.now, node.qpn, attributes)
            .expect("the transition is legal");
    }

    pub(crate) fn state(&self, side: usize) -> QpState {
        let node = &self.nodes[side];
        node.nic.query_qp(node.qpn).expect("the QP exists").0
    }

    pub(crate) fn mem(&mut self, side: usize, len: usize) -> Mem {
        self.nodes[side].mem(len)
    }

    pub(crate) fn post(&mut self, side: usize, wr_id: u64, op: SendOp, sges: &[Sge]) {
        self.post_with(side, wr_id, op, sges, SendFlags::SIGNALED);
    }

    pub(crate) fn post_with(
        &mut self,
        side: usize,
        wr_id: u64,
        op: SendOp,
        sges: &[Sge],
        flags: SendFlags,
    ) {
        let request = SendRequest::new(wr_id, op, sges).with_flags(flags);
        self.post_request(side, &request);
    }

    pub(crate) fn post_request(&mut self, side: usize, request: &SendRequest<'_>) {
        let node = &mut self.nodes[side];
        node.nic
            .post_send(self.now, node.qpn, request)
            .expect("posted for sending");
    }

    pub(crate) fn post_recv(&mut self, side: usize, wr_id: u64, sges: &[Sge]) {
        let wr = RecvRequest { wr_id, sges };
        let node = &mut self.nodes[side];
        node.nic
            .post_recv(self.now, node.qpn, &wr)
            .expect("posted for receiving");
    }

    /// Lets both ends transmit to the wire.
    pub(crate) fn pump(&mut self) {
        for side in [A, B] {
            let node = &mut self.nodes[side];
            for _ in 0..1_000_000 {
                if !node.nic.wants_to_send() {
                    break;
                }
                node.nic.transmit(self.now, &mut node.port);
                for frame in node.port.out.drain(..) {
                    self.packets += 1;
                    self.links[side].send(self.now, frame);
                }
                assert!(
                    self.packets <= self.setup.max_packets,
                    "too many packets: {:?}",
                    self.setup
                );
            }
            assert!(
                !node.nic.wants_to_send(),
                "endless sending: {:?}",
                self.setup
            );
            node.take_events();
        }
    }

    /// Advances to the next event. False if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.pump();
        let arrivals = self.links.iter().filter_map(Link::next_arrival);
        let timeouts = self.nodes.iter().filter_map(|node| node.nic.next_timeout());
        let Some(next) = arrivals.chain(timeouts).min() else {
            return false;
        };
        self.now = self.now.max(next);
        assert!(
            self.now.saturating_duration_since(Instant::ZERO) <= self.setup.max_time,
            "too late: {:?}",
            self.setup
        );
        for side in [A, B] {
            while let Some(mut frame) = self.links[side].arrival(self.now) {
                self.nodes[side].port.arrive(&mut frame);
                let node = &mut self.nodes[1 - side];
                node.nic.receive(self.now, &frame.meta, &frame.bytes);
            }
        }
        for node in &mut self.nodes {
            node.nic.handle_timeouts(self.now);
            node.take_events();
        }
        true
    }

    /// Advances until nothing happens any more.
    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    /// Advances until `done`; fails if nothing happens any more before.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            assert!(self.step(), "idle, but not done: {:?}", self.setup);
        }
    }

    /// Asserts that everything posted for sending by `side` has succeeded, in order, with these
    /// wr_ids.
    #[track_caller]
    pub(crate) fn assert_sent(&self, side: usize, wr_ids: &[u64]) -> Vec<Completion> {
        let done = self.nodes[side].sent();
        assert_outcomes(&done, &all(wr_ids, WcStatus::Success));
        done
    }

    /// The same for receives.
    #[track_caller]
    pub(crate) fn assert_received(&self, side: usize, wr_ids: &[u64]) -> Vec<Completion> {
        let done = self.nodes[side].received();
        assert_outcomes(&done, &all(wr_ids, WcStatus::Success));
        done
    }

    #[track_caller]
    pub(crate) fn assert_sent_as(&self, side: usize, expected: &[(u64, WcStatus)]) {
        assert_outcomes(&self.nodes[side].sent(), expected);
    }

    #[track_caller]
    pub(crate) fn assert_received_as(&self, side: usize, expected: &[(u64, WcStatus)]) {
        assert_outcomes(&self.nodes[side].received(), expected);
    }
}

fn all(wr_ids: &[u64], status: WcStatus) -> Vec<(u64, WcStatus)> {
    wr_ids.iter().map(|id| (*id, status)).collect()
}

#[track_caller]
pub(crate) fn assert_outcomes(done: &[Completion], expected: &[(u64, WcStatus)]) {
    let outcomes: Vec<_> = done.iter().map(|c| (c.wr_id, c.status)).collect();
    assert_eq!(outcomes, expected);
}
