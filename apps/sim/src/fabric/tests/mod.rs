use super::*;
use crate::connect::{ConnectSpec, connect};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Duration, Memory, QpInit, QpKind, QueueLimits,
    RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};
use roce_wire::Qpn;
use std::sync::Arc;

mod changes;
mod congestion;
mod outside;
mod routes;
mod seen;

pub(crate) const LEN: usize = 100_000;
const IOVA: u64 = 0x10_0000;

/// The marking of [`marking_switch`].
pub(crate) const MARKING: EcnSpec = EcnSpec {
    kmin_bytes: 8 << 10,
    kmax_bytes: 16 << 10,
    pmax_percent: 50,
};

pub(crate) fn marking_switch() -> SwitchSpec {
    SwitchSpec {
        ecn: Some(MARKING),
        ..SwitchSpec::default()
    }
}

/// One end of a connection.
pub(crate) struct End {
    pub(crate) host: HostId,
    pub(crate) qpn: Qpn,
    cq: Arc<CompletionQueue>,
    key: u32,
}

impl End {
    pub(crate) fn new(fabric: &mut Fabric, host: HostId) -> Self {
        Self::with_kind(QpKind::Rc, fabric, host)
    }

    fn with_kind(kind: QpKind, fabric: &mut Fabric, host: HostId) -> Self {
        let nic = fabric.nic(host);
        let pd = nic.alloc_pd();
        let cq = Arc::new(CompletionQueue::new(CqId(0), 64));
        let limits = QueueLimits {
            depth: 16,
            max_sge: 1,
        };
        let qpn = nic.create_qp(init(kind, pd, &cq, limits)).expect("a QP");
        let buffer = Arc::new(Buffer::new(LEN).expect("a buffer"));
        let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        // The memory is registered at the same address in each run. The buffer's own address
        // varies.
        let key = nic
            .register_memory(pd, Memory::buffer(buffer), Some(IOVA), all)
            .expect("registered");
        Self { host, qpn, cq, key }
    }

    pub(crate) fn write_to(&self, fabric: &mut Fabric, peer: &End, wr_id: u64) {
        self.post_write(fabric, peer, wr_id, LEN);
        fabric.drive(self.host);
    }

    fn post_write(&self, fabric: &mut Fabric, peer: &End, wr_id: u64, len: usize) {
        let remote = RemoteAddr {
            addr: IOVA,
            rkey: peer.key,
        };
        let sge = Sge {
            addr: IOVA,
            length: len as u32,
            lkey: self.key,
        };
        let wr = SendRequest::new(wr_id, SendOp::Write(remote), sge);
        let now = fabric.now();
        fabric
            .nic(self.host)
            .post_send(now, self.qpn, &wr)
            .expect("posted");
    }

    fn statuses(&self) -> Vec<WcStatus> {
        core::iter::from_fn(|| self.cq.poll().expect("no overrun"))
            .map(|completion| completion.status)
            .collect()
    }
}

fn init(
    kind: QpKind,
    pd: roce_stack::PdId,
    cq: &Arc<CompletionQueue>,
    limits: QueueLimits,
) -> QpInit {
    QpInit {
        kind,
        pd,
        send_cq: Arc::clone(cq),
        recv_cq: Arc::clone(cq),
        send: limits,
        recv: limits,
        max_inline: 0,
        signal_all: false,
    }
}

/// Two hosts send to a third through a switch, at twice the rate of its link.
pub(crate) fn incast(
    switch: SwitchSpec,
    queue_bytes: usize,
    seed: u64,
) -> (Fabric, Vec<End>, Vec<CableId>) {
    let mut builder = FabricBuilder::new();
    let middle = builder.switch(switch);
    let spec = LinkSpec {
        queue_bytes,
        ..LinkSpec::default()
    };
    let cables: Vec<CableId> = (0..3)
        .map(|n| {
            let host = builder.host(HostSpec {
                seed: n + 1,
                ..HostSpec::default()
            });
            builder.cable(host, middle, spec)
        })
        .collect();
    let mut fabric = builder.build(seed);
    let mut ends = Vec::new();
    for from in [0, 1] {
        let a = End::new(&mut fabric, HostId(from));
        let b = End::new(&mut fabric, HostId(2));
        let pair = [(a.host, a.qpn), (b.host, b.qpn)];
        connect(&mut fabric, pair, &ConnectSpec::default()).expect("connected");
        ends.extend([a, b]);
    }
    (fabric, ends, cables)
}

pub(crate) fn send_all(fabric: &mut Fabric, ends: &[End]) {
    for pair in ends.chunks(2) {
        for wr_id in 0..4 {
            pair[0].write_to(fabric, &pair[1], wr_id);
        }
    }
}

fn run(fabric: &mut Fabric) {
    let end = fabric.now() + Duration::from_secs(100);
    while fabric.step(end).is_some() {}
    assert_eq!(fabric.in_flight(), (0, 0));
    assert_eq!(fabric.pending_events(), 0);
}

fn all_succeed(ends: &[End]) {
    for pair in ends.chunks(2) {
        assert_eq!(pair[0].statuses(), [WcStatus::Success; 4]);
    }
}

#[test]
fn the_seed_determines_the_run() {
    let run_one = |seed| {
        let (mut fabric, ends, cables) = incast(SwitchSpec::default(), 64 << 10, seed);
        let faults = "loss=2%,dup=1%,reorder=1%:20us,corrupt=1%,delay=1us..3us";
        for cable in cables {
            fabric.set_faults(cable, faults.parse().expect("well-formed"));
        }
        send_all(&mut fabric, &ends);
        run(&mut fabric);
        all_succeed(&ends);
        (fabric.fingerprint(), fabric.counters())
    };
    let first = run_one(1);
    assert_eq!(first, run_one(1));
    assert_ne!(first.0, run_one(2).0);
    let counters = first.1;
    for injected in [
        counters.lost,
        counters.duplicated,
        counters.reordered,
        counters.corrupted,
    ] {
        assert!(injected > 0, "{counters:?}");
    }
}

#[test]
fn data_arrives_although_a_full_queue_drops_packets() {
    let (mut fabric, ends, _) = incast(SwitchSpec::default(), 40 << 10, 1);
    send_all(&mut fabric, &ends);
    run(&mut fabric);
    all_succeed(&ends);
    assert!(fabric.counters().dropped > 0, "{:?}", fabric.counters());
}

#[test]
fn pause_frames_prevent_drops() {
    let pfc = PfcSpec {
        pause_bytes: 12 << 10,
        resume_bytes: 8 << 10,
    };
    let spec = SwitchSpec {
        pfc: Some(pfc),
        ..SwitchSpec::default()
    };
    let (mut fabric, ends, _) = incast(spec, 40 << 10, 1);
    send_all(&mut fabric, &ends);
    run(&mut fabric);
    all_succeed(&ends);
    let counters = fabric.counters();
    assert_eq!(counters.dropped, 0, "{counters:?}");
    assert!(counters.pauses > 0, "{counters:?}");
}

#[test]
fn packets_in_a_long_queue_are_marked() {
    let ecn = EcnSpec {
        kmin_bytes: 8 << 10,
        kmax_bytes: 32 << 10,
        pmax_percent: 20,
    };
    let spec = SwitchSpec {
        ecn: Some(ecn),
        ..SwitchSpec::default()
    };
    let (mut fabric, ends, _) = incast(spec, 1 << 20, 1);
    send_all(&mut fabric, &ends);
    run(&mut fabric);
    all_succeed(&ends);
    let Counters {
        marked, delivered, ..
    } = fabric.counters();
    assert!(marked > 0 && marked < delivered, "{marked} of {delivered}");
    let (mut quiet, ends, _) = incast(spec, 1 << 20, 1);
    ends[0].write_to(&mut quiet, &ends[1], 1);
    run(&mut quiet);
    assert_eq!(quiet.counters().marked, 0);
}

#[test]
fn virtual_time_follows_the_link_rate() {
    let (mut fabric, ends, _) = incast(SwitchSpec::default(), 1 << 20, 1);
    ends[0].write_to(&mut fabric, &ends[1], 1);
    while ends[0].cq.is_empty() {
        let end = fabric.now() + Duration::from_secs(1);
        fabric.step(end).expect("it completes");
    }
    // Serialization of 98 packets of 1134 bytes at 10 Gbit/s, and of the last one again at the
    // switch; four delays of a microsecond; an acknowledgement, twice.
    let us = fabric.now().as_nanos() / 1000;
    assert!((90..100).contains(&us), "{us} us");
}

#[test]
fn a_cut_cable_breaks_the_connection_unless_it_is_reconnected_in_time() {
    for reconnected in [false, true] {
        let (mut fabric, ends, cables) = incast(SwitchSpec::default(), 1 << 20, 1);
        fabric.set_down(cables[0], true);
        ends[0].write_to(&mut fabric, &ends[1], 1);
        let later = fabric.now() + Duration::from_millis(10);
        while fabric.step(later).is_some() {}
        fabric.set_down(cables[0], !reconnected);
        run(&mut fabric);
        let expected = if reconnected {
            WcStatus::Success
        } else {
            WcStatus::RetryExceeded
        };
        assert_eq!(ends[0].statuses(), [expected]);
    }
}

#[test]
fn a_paused_host_answers_after_it_resumes_and_a_restarted_host_never() {
    for restarts in [false, true] {
        let (mut fabric, ends, _) = incast(SwitchSpec::default(), 1 << 20, 1);
        fabric.set_paused(HostId(2), true);
        ends[0].write_to(&mut fabric, &ends[1], 1);
        let later = fabric.now() + Duration::from_millis(3);
        while fabric.step(later).is_some() {}
        assert!(ends[0].statuses().is_empty());
        if restarts {
            fabric.restart(HostId(2));
        }
        fabric.set_paused(HostId(2), false);
        run(&mut fabric);
        let expected = if restarts {
            WcStatus::RetryExceeded
        } else {
            WcStatus::Success
        };
        assert_eq!(ends[0].statuses(), [expected]);
    }
}

#[test]
fn a_host_that_polls_rarely_receives_packets_in_batches() {
    let mut builder = FabricBuilder::new();
    let batching = HostSpec {
        poll_every: Duration::from_micros(50),
        ..HostSpec::default()
    };
    let (a, b) = (builder.host(HostSpec::default()), builder.host(batching));
    builder.cable(a, b, LinkSpec::default());
    let mut fabric = builder.build(1);
    let (a, b) = (End::new(&mut fabric, a), End::new(&mut fabric, b));
    let pair = [(a.host, a.qpn), (b.host, b.qpn)];
    connect(&mut fabric, pair, &ConnectSpec::default()).expect("connected");
    a.write_to(&mut fabric, &b, 1);
    run(&mut fabric);
    assert_eq!(a.statuses(), [WcStatus::Success]);
    // Packets arrive one by one, and the host acknowledges them together.
    assert!(fabric.counters().sent < 110, "{:?}", fabric.counters());
}

/// Two hosts, one cable, and a UC connection.
fn two() -> (Fabric, [End; 2], CableId) {
    let mut builder = FabricBuilder::new();
    let hosts = [1, 2].map(|seed| {
        builder.host(HostSpec {
            seed,
            ..HostSpec::default()
        })
    });
    let cable = builder.cable(hosts[0], hosts[1], LinkSpec::default());
    let mut fabric = builder.build(1);
    let ends = connected(QpKind::Uc, &mut fabric, hosts);
    (fabric, ends, cable)
}

fn connected(kind: QpKind, fabric: &mut Fabric, hosts: [HostId; 2]) -> [End; 2] {
    let ends = hosts.map(|host| End::with_kind(kind, fabric, host));
    let pair = [0, 1].map(|side: usize| (ends[side].host, ends[side].qpn));
    let spec = ConnectSpec {
        kind,
        ..ConnectSpec::default()
    };
    connect(fabric, pair, &spec).expect("connected");
    ends
}

#[test]
fn a_host_that_found_the_queue_full_sends_after_a_pause() {
    let pfc = PfcSpec {
        pause_bytes: 8 << 10,
        resume_bytes: 4 << 10,
    };
    let mut builder = FabricBuilder::new();
    let [a, b] = [1, 2].map(|seed| {
        builder.host(HostSpec {
            seed,
            ..HostSpec::default()
        })
    });
    let switch = builder.switch(SwitchSpec {
        pfc: Some(pfc),
        ..SwitchSpec::default()
    });
    // One packet may wait at the host, many at the switch, whose link is slow.
    let fast = LinkSpec {
        queue_bytes: 1200,
        ..LinkSpec::default()
    };
    let slow = LinkSpec {
        bits_per_sec: 1_000_000_000,
        ..LinkSpec::default()
    };
    builder.cable(a, switch, fast);
    builder.cable(switch, b, slow);
    let mut fabric = builder.build(1);
    // On UC no response arrives that would wake the host.
    let ends = connected(QpKind::Uc, &mut fabric, [a, b]);
    ends[0].write_to(&mut fabric, &ends[1], 1);
    run(&mut fabric);
    assert_eq!(ends[0].statuses(), [WcStatus::Success]);
    let counters = fabric.counters();
    assert!(counters.pauses > 0, "{counters:?}");
    assert_eq!(counters.delivered, LEN.div_ceil(1024) as u64);
}

#[test]
fn a_host_that_was_not_driven_sends_when_its_link_is_free() {
    let (mut fabric, ends, _) = two();
    ends[0].post_write(&mut fabric, &ends[1], 1, 64);
    fabric.drive(ends[0].host);
    // On UC no response arrives that would wake the host.
    ends[0].post_write(&mut fabric, &ends[1], 2, 64);
    run(&mut fabric);
    assert_eq!(ends[0].statuses(), [WcStatus::Success; 2]);
    assert_eq!(fabric.counters().delivered, 2);
}

#[test]
fn virtual_time_includes_the_transmission_of_a_lost_packet() {
    let (mut fabric, ends, cable) = two();
    fabric.set_down(cable, true);
    ends[0].post_write(&mut fabric, &ends[1], 1, 64);
    fabric.drive(ends[0].host);
    run(&mut fabric);
    assert_eq!(fabric.counters().lost, 1);
    // BTH, RETH, data, ICRC and the wire overhead, at 10 Gbit/s.
    let bytes = 12 + 16 + 64 + 4 + 66;
    assert_eq!(fabric.now().as_nanos(), bytes * 8 / 10);
}
