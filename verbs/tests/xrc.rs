//! Extended reliable connections, through real sockets.

use roce_verbs::qp::{SharedReceiveQueue, SrqError, SrqOptions};
use roce_verbs::work::PostError;
use roce_verbs::{
    Access, ConnectOptions, Context, Device, MemoryRegion, QpKind, QpOptions, QueuePair,
    RecvRequest, SendOp, SendRequest, WcStatus,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A device at an address of the loopback network that no other test uses, and the index of that
/// address's GID.
fn open() -> (Context, u8) {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    let address = IpAddr::V4(Ipv4Addr::new(127, 192 | (high & 31), low, last));
    let device = Device::with_address(address).expect("loopback");
    let context = device.open().expect("opened");
    let gids = context.gids();
    let entry = gids.iter().find(|entry| entry.gid.ip() == address);
    (context, entry.expect("it has a GID").index)
}

/// One receiver of a host. It has everything of its own except the connection.
struct Receiver {
    cq: roce_verbs::CompletionQueue,
    srq: SharedReceiveQueue,
    region: MemoryRegion,
}

fn connect(initiator: (&QueuePair, u8), target: (&QueuePair, u8)) {
    let from = initiator.0.endpoint(initiator.1).expect("endpoint");
    let to = target.0.endpoint(target.1).expect("endpoint");
    let options = ConnectOptions::default();
    target
        .0
        .connect(target.1, &from, &options)
        .expect("connected");
    initiator
        .0
        .connect(initiator.1, &to, &options)
        .expect("connected");
}

/// One connection serves three receivers: SEND, WRITE and READ for each.
#[test]
fn one_connection_serves_many_receivers() {
    const LEN: usize = 10_000;
    let ((a, a_gid), (b, b_gid)) = (open(), open());
    let (pd, cq) = (a.alloc_pd(), a.create_cq(64));
    let kind = QpKind::XrcInitiator;
    let initiator = pd
        .create_qp(
            &cq,
            &cq,
            &QpOptions {
                kind,
                ..QpOptions::default()
            },
        )
        .expect("a QP");
    let local = pd.allocate(LEN, Access::LOCAL_WRITE).expect("memory");
    let domain = b.create_xrcd();
    let target = domain.create_target().expect("a target");
    let receivers = [(); 3].map(|()| {
        let (pd, cq) = (b.alloc_pd(), b.create_cq(16));
        let srq = domain.create_srq(&pd, &cq, &SrqOptions::default());
        Receiver {
            cq,
            srq: srq.expect("an SRQ"),
            region: pd.allocate(3 * LEN, Access::ANY_MEMORY).expect("memory"),
        }
    });
    connect((&initiator, a_gid), (&target, b_gid));
    let run = |op, number| {
        let sges = [local.all().expect("small")];
        initiator
            .post_send(&SendRequest::new(1, op, &sges).to(number))
            .expect("posted");
        let done = cq.poll_for(TIMEOUT).expect("no overrun");
        assert_eq!(done.expect("completed").status, WcStatus::Success);
    };
    for (n, receiver) in receivers.iter().enumerate() {
        let text = vec![n as u8 + 1; LEN];
        local.write(0, &text).expect("in range");
        let sges = [receiver.region.slice(0, LEN).expect("in range")];
        let wr_id = n as u64;
        receiver
            .srq
            .post_recv(&RecvRequest { wr_id, sges: &sges })
            .expect("posted");
        let number = receiver.srq.number();
        run(SendOp::Send, number);
        run(SendOp::Write(receiver.region.remote(LEN as u64)), number);
        let done = receiver.cq.poll_for(TIMEOUT).expect("no overrun");
        let done = done.expect("received");
        assert_eq!((done.wr_id, done.qpn), (wr_id, target.qpn()));
        for part in [0, LEN] {
            let mut found = vec![0; LEN];
            receiver.region.read(part, &mut found).expect("in range");
            assert_eq!(found, text);
        }
        let more = vec![n as u8 + 100; LEN];
        receiver.region.write(2 * LEN, &more).expect("in range");
        run(SendOp::Read(receiver.region.remote(2 * LEN as u64)), number);
        let mut found = vec![0; LEN];
        local.read(0, &mut found).expect("in range");
        assert_eq!(found, more);
    }
    let plain = initiator.post_send(&SendRequest::new(1, SendOp::Send, ()));
    assert_eq!(plain, Err(PostError::NoSrqNamed));
}

/// Objects keep alive what they need, in whatever order they are dropped.
#[test]
fn queues_and_targets_keep_their_domain_alive() {
    let ((a, _), (b, _)) = (open(), open());
    let domain = a.create_xrcd();
    let (pd, cq) = (a.alloc_pd(), a.create_cq(1));
    let srq = domain.create_srq(&pd, &cq, &SrqOptions::default());
    let target = domain.create_target().expect("a target");
    let elsewhere = domain.create_srq(&b.alloc_pd(), &cq, &SrqOptions::default());
    assert!(matches!(elsewhere, Err(SrqError::UnknownDomain(_))));
    drop((domain, pd, cq));
    let srq = srq.expect("an SRQ");
    assert_eq!(srq.query().expect("it lives").posted, 0);
    drop(srq);
    assert_eq!(target.kind(), QpKind::XrcTarget);
    drop(target);
}
