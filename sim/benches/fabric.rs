//! How many packets a second the fabric carries on one core, NICs included.

use roce_sim::connect::{ConnectSpec, connect};
use roce_sim::fabric::{Fabric, FabricBuilder, HostId, HostSpec, LinkSpec, SwitchSpec};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Duration, QpInit, QpKind, QueueLimits, RemoteAddr,
    SendFlags, SendOp, SendWr, Sge,
};
use std::sync::Arc;
use std::time::Instant;

const DEPTH: usize = 64;

fn main() {
    for (name, length) in [("64 bytes", 64), ("1024 bytes", 1024), ("64 KiB", 65_536)] {
        let (packets, events, seconds) = measure(length);
        println!(
            "WRITE of {name:>10} through a switch: {:.2} M packets/s, {events} deliveries",
            packets as f64 / seconds / 1e6,
        );
    }
}

/// Sends for about a second; gives packets sent, packets delivered and seconds.
fn measure(length: u32) -> (u64, u64, f64) {
    let mut builder = FabricBuilder::new();
    let switch = builder.switch(SwitchSpec::default());
    let link = LinkSpec {
        bits_per_sec: 100_000_000_000,
        ..LinkSpec::default()
    };
    for seed in [1, 2] {
        let host = builder.host(HostSpec {
            seed,
            ..HostSpec::default()
        });
        builder.cable(host, switch, link);
    }
    let mut fabric = builder.build(1);
    let mut ends = [0, 1].map(|host| End::new(&mut fabric, HostId(host)));
    let pair = [(HostId(0), ends[0].qpn), (HostId(1), ends[1].qpn)];
    connect(&mut fabric, pair, &ConnectSpec::default()).expect("connected");
    let peer = RemoteAddr {
        addr: ends[1].buffer.addr(),
        rkey: ends[1].key,
    };
    for _ in 0..DEPTH {
        ends[0].post(&mut fabric, peer, length);
    }
    let begin = Instant::now();
    let never = fabric.now() + Duration::from_secs(1_000_000);
    let mut steps = 0_u32;
    while fabric.step(never).is_some() {
        steps += 1;
        if steps.is_multiple_of(4096) && begin.elapsed().as_secs_f64() > 1.0 {
            break;
        }
        while let Ok(Some(_)) = ends[0].cq.poll() {
            ends[0].post(&mut fabric, peer, length);
        }
    }
    let counters = fabric.counters();
    (
        counters.sent,
        counters.delivered,
        begin.elapsed().as_secs_f64(),
    )
}

struct End {
    host: HostId,
    qpn: roce_wire::Qpn,
    cq: Arc<CompletionQueue>,
    buffer: Arc<Buffer>,
    key: u32,
}

impl End {
    fn new(fabric: &mut Fabric, host: HostId) -> Self {
        let nic = fabric.nic(host);
        let pd = nic.alloc_pd();
        let cq = Arc::new(CompletionQueue::new(CqId(0), 2 * DEPTH));
        let limits = QueueLimits {
            depth: DEPTH,
            max_sge: 1,
        };
        let qpn = nic.create_qp(QpInit {
            kind: QpKind::Rc,
            pd,
            send_cq: Arc::clone(&cq),
            recv_cq: Arc::clone(&cq),
            send: limits,
            recv: limits,
            max_inline: 0,
            signal_all: true,
        });
        let buffer = Arc::new(Buffer::new(1 << 20).expect("a buffer"));
        let key = nic
            .register_buffer(pd, Arc::clone(&buffer), Access::all())
            .expect("registered");
        Self {
            host,
            qpn,
            cq,
            buffer,
            key,
        }
    }

    fn post(&mut self, fabric: &mut Fabric, peer: RemoteAddr, length: u32) {
        let sge = Sge {
            addr: self.buffer.addr(),
            length,
            lkey: self.key,
        };
        let wr = SendWr {
            wr_id: 1,
            op: SendOp::Write(peer),
            sges: &[sge],
            flags: SendFlags::empty(),
        };
        let now = fabric.now();
        let posted = fabric.nic(self.host).post_send(now, self.qpn, &wr);
        posted.expect("posted");
        fabric.drive(self.host);
    }
}
