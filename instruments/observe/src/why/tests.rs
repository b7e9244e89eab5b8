use super::{Explainer, WhyLog, WhyOutput};
use crate::{DeviceNames, DeviceView};
use roce_port::MemoryPort;
use roce_stack::{Cause, Failure, Instant, Nic, NicConfig};
use roce_wire::{Psn, Qpn};
use std::sync::atomic::Ordering;

/// No packet moves while the kernel is asked, and many QPs may fail in one turn.
#[test]
fn one_look_at_the_kernel_explains_all_failures_of_a_turn() {
    const QPS: u32 = 30;
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("why.jsonl");
    let log = WhyLog::new(Some(WhyOutput::File(report.clone())), None);
    let names = DeviceNames {
        device: "roce_lo".to_owned(),
        interface: "lo".to_owned(),
    };
    let mut explainer = Explainer::new(names, Some(log));
    explainer.start();
    let nic = Nic::new(&NicConfig {
        seed: [0; 32],
        max_packet_bytes: 4096,
        window_bytes: 1 << 20,
    });
    let view = DeviceView {
        now: Instant::ZERO,
        nic: &nic,
        port: &MemoryPort::default(),
    };
    let failure = |number| Failure {
        qpn: Qpn::new(number).expect("24 bits"),
        at: Instant::ZERO,
        status: None,
        queued: (0, 0),
        request: None,
        cause: Cause::NoAnswer {
            psn: Psn::new(0),
            timeout: None,
            retries: 7,
            ever_answered: false,
        },
    };
    explainer.explain(&view, (0..QPS).map(failure).collect(), Vec::new());
    let kernel = explainer
        .evidence()
        .of(&failure(0))
        .expect("/proc is there");
    assert_eq!(kernel.looks.load(Ordering::Relaxed), 1);
    let lines = std::fs::read_to_string(&report).expect("a report");
    assert_eq!(lines.lines().count(), QPS as usize);
}
