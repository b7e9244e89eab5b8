//! Two devices at loopback addresses of their own move data through real sockets.

mod completion_events;

use roce_verbs::completion::WcOpcode;
use roce_verbs::datagram::AddressOptions;
use roce_verbs::qp::QKey;
use roce_verbs::work::Target;
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion, ProtectionDomain,
    QpKind, QpOptions, Qpn, QueuePair, RecvRequest, SendOp, SendRequest, WcStatus,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const ALL: Access = Access::ANY_MEMORY;
const TIMEOUT: Duration = Duration::from_secs(30);

struct End {
    at: IpAddr,
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

/// An address of the loopback network that no other test uses.
fn fresh_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last))
}

fn gid_index(context: &Context, address: IpAddr) -> u8 {
    let entry = context
        .gids()
        .into_iter()
        .find(|entry| entry.gid.ip() == address);
    entry.expect("the address has a GID").index
}

fn open(len: usize) -> End {
    open_with(len, &QpOptions::default())
}

fn open_with(len: usize, options: &QpOptions) -> End {
    let address = fresh_address();
    let context = Device::with_address(address)
        .expect("loopback")
        .open()
        .expect("opened");
    let pd = context.alloc_pd();
    let cq = context.create_cq(256);
    let qp = pd.create_qp(&cq, &cq, options).expect("a QP");
    let region = pd.allocate(len, ALL).expect("allocated");
    End {
        at: address,
        context,
        pd,
        cq,
        qp,
        region,
    }
}

fn pair(len: usize, options: &ConnectOptions) -> (End, End) {
    let (a, b) = (open(len), open(len));
    connect(&a, &b, options);
    (a, b)
}

fn connect(a: &End, b: &End, options: &ConnectOptions) {
    let (index_a, index_b) = (gid_index(&a.context, a.at), gid_index(&b.context, b.at));
    let from_a = a.qp.endpoint(index_a).expect("endpoint");
    let from_b = b.qp.endpoint(index_b).expect("endpoint");
    a.qp.connect(index_a, &from_b, options).expect("connected");
    b.qp.connect(index_b, &from_a, options).expect("connected");
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(31) as u8).wrapping_add(seed))
        .collect()
}

fn bytes(region: &MemoryRegion, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    region.read(0, &mut out).expect("in range");
    out
}

/// Posts the request, and waits for its completion.
fn run(end: &End, op: SendOp, len: usize) -> WcStatus {
    run_to(end, op, Target::Peer, len)
}

/// The same for a request that names the destination QP.
fn run_to(end: &End, op: SendOp, target: impl Into<Target>, len: usize) -> WcStatus {
    let payload = end.region.slice(0, len).expect("in range");
    let request = SendRequest::new(7, op, payload).to(target);
    end.qp.post_send(&request).expect("posted");
    let completion = end
        .cq
        .poll_for(TIMEOUT)
        .expect("no overrun")
        .expect("completed");
    assert_eq!(completion.wr_id, 7);
    completion.status
}

#[test]
fn every_operation_moves_its_bytes() {
    for len in [1, 8, 1000, 4096, 4097, 100_000, 1 << 20] {
        let (a, b) = pair(1 << 20, &ConnectOptions::default());
        a.region.write(0, &pattern(len, 1)).expect("in range");
        assert_eq!(
            run(&a, SendOp::Write(b.region.remote(0)), len),
            WcStatus::Success
        );
        assert_eq!(bytes(&b.region, len), pattern(len, 1));

        b.region.write(0, &pattern(len, 2)).expect("in range");
        assert_eq!(
            run(&a, SendOp::Read(b.region.remote(0)), len),
            WcStatus::Success
        );
        assert_eq!(bytes(&a.region, len), pattern(len, 2));

        let sge = b.region.slice(0, len).expect("in range");
        b.qp.post_recv(&RecvRequest {
            wr_id: 9,
            sges: &[sge],
        })
        .expect("posted");
        a.region.write(0, &pattern(len, 3)).expect("in range");
        assert_eq!(run(&a, SendOp::SendImm(77), len), WcStatus::Success);
        let received =
            b.cq.poll_for(TIMEOUT)
                .expect("no overrun")
                .expect("received");
        assert_eq!((received.wr_id, received.imm), (9, Some(77)));
        assert_eq!(received.opcode, WcOpcode::Recv);
        assert_eq!(bytes(&b.region, len), pattern(len, 3));
    }
}

#[test]
fn an_unreliable_connection_moves_messages_both_ways() {
    let options = QpOptions {
        kind: QpKind::Uc,
        ..QpOptions::default()
    };
    let (a, b) = (open_with(20_000, &options), open_with(20_000, &options));
    connect(&a, &b, &ConnectOptions::default());
    for (from, to) in [(&a, &b), (&b, &a)] {
        let sge = to.region.all().expect("small");
        let receive = RecvRequest {
            wr_id: 9,
            sges: &[sge],
        };
        to.qp.post_recv(&receive).expect("posted");
        from.region.write(0, &pattern(20_000, 4)).expect("in range");
        let remote = to.region.remote(0);
        assert_eq!(
            run(from, SendOp::WriteImm(remote, 6), 20_000),
            WcStatus::Success
        );
        let received = to.cq.poll_for(TIMEOUT).expect("no overrun");
        assert_eq!(received.map(|c| (c.wr_id, c.imm)), Some((9, Some(6))));
        assert_eq!(bytes(&to.region, 20_000), pattern(20_000, 4));
    }
}

const QKEY: QKey = QKey(0x1111_1111);

/// Ends with UD QPs that are ready to use.
fn datagram_ends() -> (End, End) {
    let options = QpOptions {
        kind: QpKind::Ud,
        ..QpOptions::default()
    };
    let (a, b) = (open_with(8192, &options), open_with(8192, &options));
    for end in [&a, &b] {
        let index = gid_index(&end.context, end.at);
        end.qp.activate(index, QKEY).expect("active");
        let sge = end.region.slice(4096, 4096).expect("in range");
        let receive = RecvRequest {
            wr_id: 9,
            sges: &[sge],
        };
        end.qp.post_recv(&receive).expect("posted");
    }
    (a, b)
}

#[test]
fn a_datagram_can_be_answered() {
    let (a, b) = datagram_ends();
    let from = gid_index(&a.context, a.at);
    let options = AddressOptions::default();
    let there = a.pd.create_ah(from, b.at.into(), &options).expect("made");
    a.region.write(0, &pattern(3000, 5)).expect("in range");
    let to = there.to(b.qp.qpn(), QKEY);
    assert_eq!(run_to(&a, SendOp::SendImm(77), to, 3000), WcStatus::Success);
    let received = b.cq.poll_for(TIMEOUT).expect("no overrun");
    let received = received.expect("received");
    assert_eq!((received.wr_id, received.imm), (9, Some(77)));
    assert_eq!(received.byte_len, 3040);
    let source = received.source.expect("a datagram has one");
    assert_eq!((source.qpn, source.grh), (a.qp.qpn(), true));
    let mut got = vec![0; 3040];
    b.region.read(4096, &mut got).expect("in range");
    assert_eq!(got[40..], pattern(3000, 5));

    // The header has the address for an answer.
    let IpAddr::V4(at) = a.at else {
        unreachable!("the tests' addresses are IPv4")
    };
    assert_eq!(got[32..36], at.octets());
    let from = gid_index(&b.context, b.at);
    let back = b.pd.create_ah(from, a.at.into(), &options).expect("made");
    let to = back.to(source.qpn, QKEY);
    assert_eq!(run_to(&b, SendOp::Send, to, 10), WcStatus::Success);
    let answer = a.cq.poll_for(TIMEOUT).expect("no overrun");
    assert_eq!(answer.map(|c| (c.wr_id, c.byte_len)), Some((9, 50)));
}

/// Creating a handle does not start the datapath. Its local address becomes usable once something
/// else starts it.
#[test]
fn an_address_handle_created_before_the_datapath_starts_works_later() {
    let options = QpOptions {
        kind: QpKind::Ud,
        ..QpOptions::default()
    };
    let end = open_with(8192, &options);
    // This address is not the QP's.
    let from = gid_index(&end.context, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let handle = end
        .pd
        .create_ah(from, end.at.into(), &AddressOptions::default());
    assert!(end.context.datapath().is_none());
    let at = gid_index(&end.context, end.at);
    end.qp.activate(at, QKEY).expect("active");
    assert!(end.context.datapath().is_some());
    let receive = RecvRequest {
        wr_id: 9,
        sges: &[end.region.slice(4096, 4096).expect("in range")],
    };
    end.qp.post_recv(&receive).expect("posted");
    let to = handle.expect("made").to(end.qp.qpn(), QKEY);
    let payload = end.region.slice(0, 100).expect("in range");
    let request = SendRequest::send(payload).id(7).to(to);
    end.qp.post_send(&request).expect("posted");
    let done = [(); 2].map(|()| end.cq.poll_for(TIMEOUT).expect("no overrun"));
    let mut done = done.map(|done| done.map(|done| (done.wr_id, done.status)));
    done.sort_unstable_by_key(|done| done.map(|(id, _)| id));
    let success = |id| Some((id, WcStatus::Success));
    assert_eq!(done, [success(7), success(9)]);
}

#[test]
fn a_multicast_group_reaches_both_ends() {
    let (a, b) = datagram_ends();
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let group = IpAddr::V4(Ipv4Addr::new(239, 77, high, low)).into();
    for end in [&a, &b] {
        end.qp.attach_multicast(group).expect("attached");
    }
    let from = gid_index(&a.context, a.at);
    let to_all = a.pd.create_ah(from, group, &AddressOptions::default());
    let to = to_all.expect("made").to(Qpn::MULTICAST, QKEY);
    let payload = a.region.slice(0, 100).expect("in range");
    let request = SendRequest::send(payload).id(7).to(to);
    a.qp.post_send(&request).expect("posted");
    // The sender gets a copy, too.
    for (end, expected) in [(&a, 2), (&b, 1)] {
        for _ in 0..expected {
            let done = end.cq.poll_for(TIMEOUT).expect("no overrun");
            let done = done.expect("completed");
            assert_eq!(done.status, WcStatus::Success);
            match done.wr_id {
                7 => assert!(done.source.is_none()),
                _ => assert_eq!((done.wr_id, done.byte_len), (9, 140)),
            }
        }
    }
    b.qp.detach_multicast(group).expect("attached");
    assert!(b.qp.detach_multicast(group).is_err(), "no more");
}

// shows: 9.4.5-atomic-among-qps
#[test]
fn atomics_count() {
    let (a, b) = pair(64, &ConnectOptions::default());
    for i in 0..10 {
        let add = SendOp::FetchAdd {
            remote: b.region.remote(8),
            add: 3,
        };
        assert_eq!(run(&a, add, 8), WcStatus::Success);
        let fetched = a
            .region
            .atomic_u64(0)
            .expect("aligned")
            .load(Ordering::SeqCst);
        assert_eq!(fetched, i * 3);
    }
    let swap = SendOp::CompareSwap {
        remote: b.region.remote(8),
        compare: 30,
        swap: 5,
    };
    assert_eq!(run(&a, swap, 8), WcStatus::Success);
    assert_eq!(
        b.region
            .atomic_u64(8)
            .expect("aligned")
            .load(Ordering::SeqCst),
        5
    );
}

// trap: passive-target
#[test]
fn a_passive_target_makes_no_call() {
    // Only `a` makes calls; only its background thread serves `b`.
    let (a, b) = pair(1 << 20, &ConnectOptions::default());
    for round in 0..20 {
        a.region
            .write(0, &pattern(300_000, round))
            .expect("in range");
        assert_eq!(
            run(&a, SendOp::Write(b.region.remote(0)), 300_000),
            WcStatus::Success
        );
        assert_eq!(
            run(&a, SendOp::Read(b.region.remote(0)), 300_000),
            WcStatus::Success
        );
        assert_eq!(bytes(&a.region, 300_000), pattern(300_000, round));
    }
}

#[test]
fn requests_to_a_peer_that_is_gone_fail_after_the_retries() {
    let options = ConnectOptions {
        timeout: 8,
        retry_cnt: 2,
        ..ConnectOptions::default()
    };
    let (a, b) = pair(4096, &options);
    drop(b);
    let remote = roce_verbs::RemoteAddr { addr: 0, rkey: 1 };
    assert_eq!(run(&a, SendOp::Write(remote), 16), WcStatus::RetryExceeded);
}

#[test]
fn a_wrong_key_is_denied() {
    let (a, b) = pair(4096, &ConnectOptions::default());
    let mut remote = b.region.remote(0);
    remote.rkey ^= 1;
    assert_eq!(
        run(&a, SendOp::Write(remote), 16),
        WcStatus::RemoteAccessError
    );
}
