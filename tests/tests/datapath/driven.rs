//! A device over AF_XDP that only its background thread drives.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use roce_tests::veth::{End, Pair};
use roce_verbs::datapath::{DatapathChoice, DatapathOptions};
use roce_verbs::device::RoceVersion;
use roce_verbs::qp::ConnectError;
use roce_verbs::settings::OpenOptions;
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, Endpoint, MemoryRegion, QpOptions,
    QueuePair, SendOp, SendRequest, WcStatus,
};

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const LEN: usize = 100_000;

/// A QP of a device over AF_XDP.
pub(super) struct Side {
    pub(super) context: Context,
    pub(super) cq: CompletionQueue,
    qp: QueuePair,
    pub(super) region: MemoryRegion,
    gid_index: u8,
}

pub(super) fn open(end: &End) -> Context {
    open_with(end, false)
}

/// Opens the device with RoCEv2, and optionally RoCE v1.
pub(super) fn open_with(end: &End, roce_v1: bool) -> Context {
    let options = DatapathOptions {
        datapath: DatapathChoice::Xdp,
        roce_v1,
        ..DatapathOptions::default()
    };
    end.enter(|| {
        let device = Device::with_address(end.ip4.into()).expect("its own");
        OpenOptions::new().datapath(options).open(&device)
    })
    .expect("AF_XDP")
}

fn side(end: &End, context: &Context) -> Side {
    try_side(end, context).expect("the address has a GID")
}

/// `None` while the interface does not have its address.
pub(super) fn try_side(end: &End, context: &Context) -> Option<Side> {
    side_of(end, context, RoceVersion::V2)
}

/// The same by this version of RoCE.
pub(super) fn side_of(end: &End, context: &Context, version: RoceVersion) -> Option<Side> {
    let gids = end.enter(|| context.gids());
    let found = gids
        .iter()
        .find(|entry| entry.gid.ip() == IpAddr::from(end.ip4) && entry.version == version);
    let gid_index = found?.index;
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    Some(Side {
        qp: pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP"),
        region: pd.allocate(LEN, Access::ANY_MEMORY).expect("memory"),
        cq,
        context: context.clone(),
        gid_index,
    })
}

impl Side {
    pub(super) fn endpoint(&self, end: &End) -> Endpoint {
        self.try_endpoint(end).expect("a GID")
    }

    pub(super) fn connect(&self, end: &End, remote: &Endpoint, options: &ConnectOptions) {
        self.try_connect(end, remote, options).expect("connected");
    }

    pub(super) fn try_endpoint(&self, end: &End) -> Result<Endpoint, ConnectError> {
        end.enter(|| self.qp.endpoint(self.gid_index))
    }

    pub(super) fn try_connect(
        &self,
        end: &End,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        end.enter(|| self.qp.connect(self.gid_index, remote, options))
    }

    pub(super) fn post(&self, op: SendOp) {
        let sge = self.region.slice(0, LEN).expect("in range");
        self.qp
            .post_send(&SendRequest::new(1, op, sge))
            .expect("posted");
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        self.region.read(0, &mut bytes).expect("in range");
        bytes
    }

    fn counter(&self, name: &str) -> u64 {
        let all = self.context.port_counters();
        let found = all.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no {name} in {all:?}")).1
    }
}

pub(super) fn pattern() -> Vec<u8> {
    (0..LEN).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// A side at either end, connected to each other.
fn connected(pair: &Pair) -> [Side; 2] {
    let [near, far] = [&pair.near, &pair.far].map(|end| side(end, &open(end)));
    let options = ConnectOptions::default();
    near.connect(&pair.near, &far.endpoint(&pair.far), &options);
    far.connect(&pair.far, &near.endpoint(&pair.near), &options);
    [near, far]
}

fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !look() {
        assert!(Instant::now() < end, "{what}: not after {TIMEOUT:?}");
        std::thread::yield_now();
    }
}

/// The rings moved the frames: the counters of the port, of its queues and of the sockets show
/// that, and there is no UDP socket.
#[test]
fn the_rings_carry_the_traffic_and_no_socket_does() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let [near, far] = connected(&pair);
    near.region.write(0, &pattern()).expect("in range");
    near.post(SendOp::Write(far.region.remote(0)));
    let done = near.cq.poll_for(TIMEOUT).expect("no overrun");
    assert_eq!(done.expect("completed").status, WcStatus::Success);
    assert_eq!(far.bytes(), pattern());

    // The number of packets of path MTU 1024.
    let packets = LEN.div_ceil(1024) as u64;
    assert!(near.counter("tx_packets") >= packets);
    assert!(near.counter("tx_frames") >= packets);
    assert!(far.counter("rx_frames") >= packets);
    assert!(far.counter("rx_packets") >= packets);
    wait_for("the kernel says that they were sent", || {
        near.context.drive();
        near.counter("tx_completed") >= packets
    });
    for end in [&pair.near, &pair.far] {
        for table in ["udp", "udp6"] {
            let path = format!("/proc/thread-self/net/{table}");
            let sockets = end
                .enter(|| std::fs::read_to_string(&path))
                .expect("procfs");
            // Port 4791.
            assert!(!sockets.contains(":12B7"), "{sockets}");
        }
    }
}

/// A target of WRITE and READ whose application never calls.
#[test]
fn a_passive_target_is_driven_by_the_background_thread() {
    let Some(pair) = Pair::new_or_skip(9000, 2) else {
        return;
    };
    let [near, far] = connected(&pair);
    far.region.write(0, &pattern()).expect("in range");
    for _ in 0..5 {
        // Longer than the thread polls before it sleeps.
        std::thread::park_timeout(Duration::from_millis(5));
        near.region.write(0, &[0; LEN]).expect("in range");
        near.post(SendOp::Read(far.region.remote(0)));
        let done = near.cq.poll_for(TIMEOUT).expect("no overrun");
        assert_eq!(done.expect("completed").status, WcStatus::Success);
        assert_eq!(near.bytes(), pattern());
    }
}

/// A reply and the acknowledgement of the message that it answers leave in one system call.
#[test]
fn an_answer_takes_its_acknowledgement_along() {
    const ROUNDS: u64 = 500;
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let sides = connected(&pair);
    for round in 1..=ROUNDS {
        for [from, to] in [[0, 1], [1, 0]] {
            let ([from, to], mark) = ([from, to].map(|i: usize| &sides[i]), round as u8);
            from.region.write(0, &[mark]).expect("in range");
            let sge = from.region.slice(0, 1).expect("in range");
            let op = SendOp::Write(to.region.remote(8));
            from.qp
                .post_send(&SendRequest::new(round, op, sge))
                .expect("posted");
            // It polls once before each check, as programs do.
            wait_for("the other's byte", || {
                let polled = to.cq.poll().expect("no overrun");
                assert!(polled.is_none_or(|done| done.status == WcStatus::Success));
                to.region.load_u8(8).expect("in range") == mark
            });
        }
    }
    for side in &sides {
        let (frames, calls) = (side.counter("tx_frames"), side.counter("tx_wakeups"));
        assert!(frames >= 2 * ROUNDS - 1, "{frames} frames");
        // One call for two frames, except when the background thread was faster.
        assert!(4 * calls < 3 * frames, "{calls} calls for {frames} frames");
    }
}

/// Packets between two QPs of one device pass no queue, and wake no descriptor.
#[test]
fn what_a_device_sends_to_itself_arrives() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let context = open(&pair.near);
    let [one, other] = [(), ()].map(|()| side(&pair.near, &context));
    let options = ConnectOptions {
        // No timer wakes up the thread.
        timeout: 0,
        ..ConnectOptions::default()
    };
    one.connect(&pair.near, &other.endpoint(&pair.near), &options);
    other.connect(&pair.near, &one.endpoint(&pair.near), &options);
    one.region.write(0, &pattern()).expect("in range");
    for _ in 0..20 {
        other.region.write(0, &[0; LEN]).expect("in range");
        one.post(SendOp::Write(other.region.remote(0)));
        // The application does not poll, so the background thread does the rest.
        wait_for("the bytes", || other.bytes() == pattern());
        let done = one.cq.poll_for(TIMEOUT).expect("no overrun");
        assert_eq!(done.expect("completed").status, WcStatus::Success);
    }
    assert!(one.counter("tx_looped") >= LEN.div_ceil(1024) as u64);
    assert_eq!(one.counter("tx_frames"), 0);
}

/// Packets that wait for a neighbour that does not answer are dropped in time, although no QP
/// timer, no kernel message and no call of the application wakes up the background thread.
#[test]
fn the_ports_deadlines_wake_the_background_thread() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    // The kernel would give up after three requests, in three seconds, and report it.
    let questions = "/proc/sys/net/ipv4/neigh/near/mcast_solicit";
    pair.near
        .enter(|| std::fs::write(questions, "1000"))
        .expect("root may");
    let near = side(&pair.near, &open(&pair.near));
    let mut nobody = side(&pair.far, &open(&pair.far)).endpoint(&pair.far);
    nobody.gid = IpAddr::from([10, 91, 0, 99]).into();
    let options = ConnectOptions {
        timeout: 0,
        ..ConnectOptions::default()
    };
    near.connect(&pair.near, &nobody, &options);
    near.post(SendOp::Write(near.region.remote(0)));
    wait_for("the packets are dropped", || {
        near.counter("wait_too_late") > 0
    });
}
