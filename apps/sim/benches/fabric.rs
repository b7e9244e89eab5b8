//! Measures how many packets the fabric carries per second of processor time, including the work of
//! the NICs.
//!
//! A packet counts once, when a NIC has received it. By then it was built, sealed with its ICRC,
//! queued, carried over one or two links, checked and executed. Acknowledgements count, too. The
//! time is the processor time of this thread, so that other load on the machine does not lower the
//! result. The fabric's own time is virtual.
//!
//! Each case runs several times, and all runs of a case must be the same, packet for packet.

use nix::time::{ClockId, clock_gettime};
use roce_sim::connect::{ConnectSpec, connect};
use roce_sim::fabric::{Fabric, FabricBuilder, HostId, HostSpec, LinkSpec, Step, SwitchSpec};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Duration, Memory, QpInit, QpKind, QueueLimits,
    RemoteAddr, SendFlags, SendOp, SendRequest, Sge,
};
use roce_wire::{PathMtu, Qpn};
use std::sync::Arc;

/// The number of outstanding requests.
const DEPTH: usize = 64;
/// The address of registered memory, the same in each run.
const IOVA: u64 = 0x10_0000;
const REGION_BYTES: usize = 1 << 20;
/// The number of packets in a run.
const PACKETS: u64 = 400_000;
const RUNS: usize = 5;

struct Case {
    name: &'static str,
    /// Bytes of a message.
    length: u32,
    path_mtu: PathMtu,
}

const CASES: [Case; 4] = [
    Case {
        name: "64 B, path MTU 1024",
        length: 64,
        path_mtu: PathMtu::Mtu1024,
    },
    Case {
        name: "1 KiB, path MTU 1024",
        length: 1024,
        path_mtu: PathMtu::Mtu1024,
    },
    Case {
        name: "4 KiB, path MTU 4096",
        length: 4096,
        path_mtu: PathMtu::Mtu4096,
    },
    Case {
        name: "64 KiB, path MTU 4096",
        length: 65_536,
        path_mtu: PathMtu::Mtu4096,
    },
];

fn main() {
    // `cargo bench -p roce-sim -- "64 B"` runs the cases with "64 B" in their names.
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    println!("WRITEs of one QP to another, {RUNS} runs of {PACKETS} packets: median (least, most)");
    for case in &CASES {
        for switch in [false, true] {
            let way = if switch { "a switch" } else { "one link" };
            let name = format!("{} over {way}", case.name);
            if only.as_ref().is_none_or(|only| name.contains(only)) {
                report(&name, case, switch);
            }
        }
    }
}

fn report(name: &str, case: &Case, switch: bool) {
    let mut runs: Vec<Run> = (0..RUNS).map(|_| Run::new(case, switch)).collect();
    for run in &runs {
        assert_eq!(run.fingerprint, runs[0].fingerprint, "runs differ");
    }
    runs.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let [least, median, most] = [0, RUNS / 2, RUNS - 1].map(|n| &runs[n]);
    println!(
        "{name:36} {:5.2} ({:.2}, {:.2}) M packets per CPU second, {:.2} packets a message, \
         {:.2} GB per CPU second, fingerprint {:016x}",
        median.rate() / 1e6,
        least.rate() / 1e6,
        most.rate() / 1e6,
        median.packets as f64 / median.messages as f64,
        median.messages as f64 * f64::from(case.length) / median.cpu_seconds / 1e9,
        median.fingerprint,
    );
}

/// The result of one run.
struct Run {
    /// The number of packets that NICs received.
    packets: u64,
    /// The number of completed messages.
    messages: u64,
    cpu_seconds: f64,
    fingerprint: u64,
}

impl Run {
    fn new(case: &Case, switch: bool) -> Self {
        let mut fabric = fabric(switch);
        let ends = [0, 1].map(|host| End::new(&mut fabric, HostId(host)));
        let pair = [(HostId(0), ends[0].qpn), (HostId(1), ends[1].qpn)];
        let spec = ConnectSpec {
            path_mtu: case.path_mtu,
            ..ConnectSpec::default()
        };
        connect(&mut fabric, pair, &spec).expect("connected");
        let rkey = ends[1].key;
        for _ in 0..DEPTH {
            ends[0].post(&mut fabric, rkey, case.length);
        }
        let never = fabric.now() + Duration::from_secs(1_000_000);
        let mut messages = 0;
        let begin = cpu_seconds();
        while fabric.counters().delivered < PACKETS {
            let step = fabric.step(never).expect("the run is not over");
            if step != Step::Host(ends[0].host) {
                continue;
            }
            while let Some(done) = ends[0].cq.poll().expect("no overrun") {
                assert_eq!(done.status, roce_stack::WcStatus::Success);
                messages += 1;
                ends[0].post(&mut fabric, rkey, case.length);
            }
        }
        Self {
            packets: fabric.counters().delivered,
            messages,
            cpu_seconds: cpu_seconds() - begin,
            fingerprint: fabric.fingerprint(),
        }
    }

    fn rate(&self) -> f64 {
        self.packets as f64 / self.cpu_seconds
    }
}

/// The processor time of this thread.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Two hosts with links of 100 Gbit/s.
fn fabric(switch: bool) -> Fabric {
    let mut builder = FabricBuilder::new();
    let link = LinkSpec {
        bits_per_sec: 100_000_000_000,
        ..LinkSpec::default()
    };
    let [a, b] = [1, 2].map(|seed| {
        builder.host(HostSpec {
            seed,
            ..HostSpec::default()
        })
    });
    if switch {
        let middle = builder.switch(SwitchSpec::default());
        builder.cable(a, middle, link);
        builder.cable(b, middle, link);
    } else {
        builder.cable(a, b, link);
    }
    builder.build(1)
}

struct End {
    host: HostId,
    qpn: Qpn,
    cq: Arc<CompletionQueue>,
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
        let qpn = nic
            .create_qp(QpInit {
                kind: QpKind::Rc,
                pd,
                send_cq: Arc::clone(&cq),
                recv_cq: Arc::clone(&cq),
                send: limits,
                recv: limits,
                max_inline: 0,
                signal_all: true,
            })
            .expect("a QP");
        let buffer = Memory::buffer(Arc::new(Buffer::new(REGION_BYTES).expect("a buffer")));
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let key = nic
            .register_memory(pd, buffer, Some(IOVA), access)
            .expect("registered");
        Self { host, qpn, cq, key }
    }

    fn post(&self, fabric: &mut Fabric, rkey: u32, length: u32) {
        let sge = Sge {
            addr: IOVA,
            length,
            lkey: self.key,
        };
        let wr = SendRequest::new(1, SendOp::Write(RemoteAddr { addr: IOVA, rkey }), sge)
            .with_flags(SendFlags::empty());
        let now = fabric.now();
        let posted = fabric.nic(self.host).post_send(now, self.qpn, &wr);
        posted.expect("posted");
        fabric.drive(self.host);
    }
}
