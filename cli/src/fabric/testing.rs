//! A simulated network for tests.

use super::names::Names;
use roce_sim::connect::{ConnectSpec, connect};
use roce_sim::fabric::{
    EcnSpec, Fabric, FabricBuilder, HostId, HostSpec, LinkSpec, NodeId, Port, SwitchSpec,
};
use roce_sim::record::{Limits, Recorder};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Duration, Instant, Memory, QpInit, QpKind, QueueLimits,
    RemoteAddr, SendOp, SendRequest, Sge,
};
use roce_wire::Qpn;
use std::sync::Arc;

const LEN: usize = 200_000;
const IOVA: u64 = 0x10_0000;

/// Hosts that send to the last host, through a switch that marks and drops.
pub(crate) struct Incast {
    pub(crate) fabric: Fabric,
    senders: usize,
    ends: Vec<[End; 2]>,
}

struct End {
    host: HostId,
    qpn: Qpn,
    key: u32,
}

/// The names of an incast from `senders` hosts.
pub(crate) fn names(senders: usize) -> Names {
    let mut names = Names::default();
    for host in 0..=senders {
        let address = roce_sim::fabric::Ip::V4.address(host + 1);
        names.set_address(address, HostId(host));
    }
    names
}

impl Incast {
    /// All hosts are at one switch.
    pub(crate) fn new(senders: usize) -> Self {
        Self::build(senders, false)
    }

    /// The receiver is at a second switch.
    pub(crate) fn with_two_switches(senders: usize) -> Self {
        Self::build(senders, true)
    }

    fn build(senders: usize, two_switches: bool) -> Self {
        let mut builder = FabricBuilder::new();
        let switch = builder.switch(SwitchSpec {
            ecn: Some(EcnSpec {
                kmin_bytes: 40 << 10,
                kmax_bytes: 80 << 10,
                pmax_percent: 20,
            }),
            ..SwitchSpec::default()
        });
        let link = LinkSpec {
            queue_bytes: 100 << 10,
            ..LinkSpec::default()
        };
        let mut last = switch;
        if two_switches {
            last = builder.switch(SwitchSpec::default());
            builder.cable(switch, last, link);
        }
        for seed in 0..=senders as u64 {
            let host = builder.host(HostSpec {
                seed,
                window_bytes: 64 << 10,
                ..HostSpec::default()
            });
            let is_receiver = seed == senders as u64;
            builder.cable(host, if is_receiver { last } else { switch }, link);
        }
        let mut fabric = builder.build(7);
        let pair = |sender| {
            let ends = [sender, senders].map(|host| End::new(&mut fabric, HostId(host)));
            let both = [(ends[0].host, ends[0].qpn), (ends[1].host, ends[1].qpn)];
            connect(&mut fabric, both, &ConnectSpec::default()).expect("connected");
            ends
        };
        let ends = (0..senders).map(pair).collect();
        Self {
            fabric,
            senders,
            ends,
        }
    }

    /// The switch's port to the receiver.
    pub(crate) fn port_to_receiver(&self) -> Port {
        let receiver = NodeId::Host(HostId(self.senders));
        let mut ports = self.fabric.ports();
        ports.find(|port| port.to == receiver).expect("its port")
    }

    /// Sends everything, the senders one after another, and calls `each` every 50 µs.
    pub(crate) fn run(&mut self, mut each: impl FnMut(&mut Fabric)) {
        let Self { fabric, ends, .. } = self;
        for (number, [from, to]) in ends.iter().enumerate() {
            for wr_id in 0..8 {
                let remote = RemoteAddr {
                    addr: IOVA,
                    rkey: to.key,
                };
                let sge = Sge {
                    addr: IOVA,
                    length: LEN as u32,
                    lkey: from.key,
                };
                let wr = SendRequest::new(wr_id, SendOp::Write(remote), sge);
                let now = fabric.now();
                let nic = fabric.nic(from.host);
                nic.post_send(now, from.qpn, &wr).expect("posted");
            }
            fabric.drive(from.host);
            advance(fabric, Duration::from_micros(50));
            each(fabric);
            if number + 1 == ends.len() {
                while fabric.pending_events() > 0 {
                    advance(fabric, Duration::from_micros(50));
                    each(fabric);
                }
            }
        }
    }

    /// As [`Incast::run`], with a recorder.
    pub(crate) fn record(&mut self) -> Recorder {
        let mut recorder = Recorder::new(&mut self.fabric, Limits::default());
        let mut seen = roce_sim::fabric::SeenPackets::default();
        self.run(|fabric| {
            fabric.take_seen(&mut seen);
            recorder.add(&seen);
            recorder.step(fabric);
        });
        recorder
    }
}

fn advance(fabric: &mut Fabric, by: Duration) {
    let until: Instant = fabric.now() + by;
    fabric.call_at(until, 0);
    while fabric.step(until).is_some() {}
}

impl End {
    fn new(fabric: &mut Fabric, host: HostId) -> Self {
        let nic = fabric.nic(host);
        let pd = nic.alloc_pd();
        let cq = Arc::new(CompletionQueue::new(CqId(0), 64));
        let limits = QueueLimits {
            depth: 16,
            max_sge: 1,
        };
        let init = QpInit {
            kind: QpKind::Rc,
            pd,
            send_cq: Arc::clone(&cq),
            recv_cq: cq,
            send: limits,
            recv: limits,
            max_inline: 0,
            signal_all: false,
        };
        let qpn = nic.create_qp(init).expect("a QP");
        let buffer = Arc::new(Buffer::new(LEN).expect("a buffer"));
        let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let memory = nic.register_memory(pd, Memory::buffer(buffer), Some(IOVA), all);
        let key = memory.expect("registered");
        Self { host, qpn, key }
    }
}
