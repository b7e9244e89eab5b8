use crate::device::Device;
use crate::settings::OpenOptions;
use crate::why::WhyOutput;
use crate::{ConnectOptions, QpOptions, QueuePair, SendRequest};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Threads may get the lock in another order than they read the clock.
#[test]
fn the_time_of_the_nic_never_goes_back() {
    let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    let context = device.open().expect("opened");
    let mut engine = context.inner.shared.lock();
    let early = context.inner.shared.now();
    let late = early + Duration::from_secs(1);
    assert_eq!(engine.nic_time(late), late);
    assert_eq!(engine.nic_time(early), late);
}

/// No packet moves while the kernel is asked, and many QPs may fail at once.
#[test]
fn one_look_at_the_kernel_explains_all_failures_of_a_turn() {
    const QPS: usize = 30;
    let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    // A QP that is not connected drops what comes.
    let silent = device.open().expect("opened");
    let cq = silent.create_cq(1);
    let options = QpOptions::default();
    let silent = silent.alloc_pd().create_qp(&cq, &cq, &options);
    let peer = silent.as_ref().expect("a QP").endpoint(0).expect("a GID");

    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("why.jsonl");
    let options = OpenOptions::new().why(WhyOutput::File(report.clone()));
    let context = options.open(&device).expect("opened");
    let (pd, cq) = (context.alloc_pd(), context.create_cq(QPS));
    let patient = ConnectOptions {
        timeout: 25,
        retry_cnt: 0,
        ..ConnectOptions::default()
    };
    let qps: Vec<QueuePair> = (0..QPS)
        .map(|_| {
            let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
            qp.connect(0, &peer, &patient).expect("connected");
            qp.post_send(&SendRequest::send(&[])).expect("room");
            qp
        })
        .collect();
    let mut engine = context.inner.shared.lock();
    let later = context.inner.shared.now() + Duration::from_secs(3600);
    engine.progress(later);
    for qp in &qps {
        assert!(engine.nic.failure(qp.qpn()).is_some(), "{}", qp.qpn());
    }
    let kernel = context.inner.observing.kernel.get();
    let kernel = kernel.expect("/proc is there");
    assert_eq!(kernel.looks(), 1);
    let lines = std::fs::read_to_string(&report).expect("a report");
    assert_eq!(lines.lines().count(), QPS);
}
