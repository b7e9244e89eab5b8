use crate::datapath::DatapathOptions;
use crate::device::Device;
use crate::runtime::wait::{PacketFds, poll_packets};
use crate::runtime::{Observed, Observer};
use crate::settings::OpenOptions;
use crate::{ConnectOptions, QpOptions, QueuePair, SendRequest};
use roce_stack::{Failure, Mismatch, Stat};
use std::net::Ipv4Addr;
use std::sync::mpsc;
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

/// So that an observer looks at the kernel once for all of them.
#[test]
fn the_failures_of_a_turn_are_reported_in_one_call() {
    const QPS: usize = 30;
    struct Counts(mpsc::Sender<usize>);
    impl Observer for Counts {
        fn on_start(&self) {}

        fn on_failures(&mut self, _: &Observed<'_>, failed: Vec<Failure>, _: Vec<Mismatch>) {
            self.0.send(failed.len()).expect("the test waits");
        }
    }
    let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    // A QP that is not connected drops what comes.
    let silent = device.open().expect("opened");
    let cq = silent.create_cq(1);
    let options = QpOptions::default();
    let silent = silent.alloc_pd().create_qp(&cq, &cq, &options);
    let peer = silent.as_ref().expect("a QP").endpoint(0).expect("a GID");

    let context = device.open().expect("opened");
    let (counts, counted) = mpsc::channel();
    context.inner.shared.lock().observer = Some(Box::new(Counts(counts)));
    let (pd, cq) = (context.alloc_pd(), context.create_cq(QPS));
    let patient = ConnectOptions {
        timeout: 25,
        retry_cnt: 0,
        ..ConnectOptions::default()
    };
    let _qps: Vec<QueuePair> = (0..QPS)
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
    assert_eq!(counted.try_iter().collect::<Vec<_>>(), [QPS]);
}

/// A port spares system calls after many that found nothing.
#[test]
fn a_packet_at_a_silent_port_is_received_before_a_qp_loses_its_state() {
    let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    let sockets = OpenOptions::new().datapath(DatapathOptions {
        sockets_only: true,
        ..DatapathOptions::default()
    });
    let ends = [(); 2].map(|()| {
        let context = sockets.open(&device).expect("opened");
        let cq = context.create_cq(4);
        let pd = context.alloc_pd();
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
        (context, cq, qp)
    });
    let [(context, _, qp), (_, _, peer)] = &ends;
    for (from, to) in [(qp, peer), (peer, qp)] {
        let to = to.endpoint(0).expect("a GID");
        let options = ConnectOptions::default();
        from.connect(0, &to, &options).expect("connected");
    }
    // The background thread can't receive the packet meanwhile.
    let mut engine = context.inner.shared.lock();
    let now = context.inner.shared.now();
    for _ in 0..1000 {
        engine.progress(now);
    }
    peer.post_send(&SendRequest::send(&[])).expect("room");
    let (mut fds, _) = PacketFds::of(&engine, now);
    let arrived = poll_packets(&mut fds.0, Some(Duration::from_secs(60)));
    assert_eq!(arrived, Ok(true));
    let received = |engine: &super::Engine| engine.nic.counters()[Stat::RxPackets];
    engine.progress(now);
    assert_eq!(received(&engine), 0, "the port is not silent");
    engine.catch_up(now);
    assert_eq!(received(&engine), 1);
}
