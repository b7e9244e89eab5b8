//! Debian's unmodified ibv_srq_pingpong, on rxe in the guest, against several QPs and a
//! shared receive queue of this stack, in both roles.
//!
//! On each side all QPs use an SRQ, so one run tests both ours and theirs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use roce_tests::lab::{GUEST_IP4, GUEST_RDMA_DEVICE, HOST_INTERFACE, HOST_IP4, Lab};
use roce_verbs::device::{Event, Gid};
use roce_verbs::qp::{PathMtu, SharedReceiveQueue, SrqAttributes, SrqOptions};
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, Endpoint, MemoryRegion, Psn,
    QpOptions, Qpn, QueuePair, RecvRequest, SendOp, SendRequest, WcStatus,
};

const QPS: usize = 4;
/// The fewest messages that each side sends, over all QPs.
const MESSAGES: usize = 300;
const SIZE: usize = 3000;
const RX_DEPTH: usize = 64;
const PORT: u16 = 18515;

/// The number of addresses that the program exchanges, whatever the number of QPs.
const ADDRESSES: usize = 256;
/// "LID:QPN:PSN:GID", all hexadecimal, and a zero.
const ADDRESS_BYTES: usize = 52;

/// Timeout of a run.
const TIMEOUT: Duration = Duration::from_secs(120);

const RECV: u64 = 1;
const SEND: u64 = 2;

/// Our end.
struct Ours {
    context: Context,
    gid_index: u8,
    cq: CompletionQueue,
    /// Dropped before the memory region. The peer sends more messages than it counts, and one that
    /// arrives after the region is deregistered would get a NAK.
    qps: Vec<QueuePair>,
    srq: SharedReceiveQueue,
    region: MemoryRegion,
}

impl Ours {
    fn open() -> Self {
        let device = Device::named(&format!("roce_{HOST_INTERFACE}")).expect("our device");
        let context = device.open().expect("opened");
        let gids = context.gids();
        let entry = gids.iter().find(|entry| entry.gid.ip() == HOST_IP4);
        let gid_index = entry.expect("our GID").index;
        let pd = context.alloc_pd();
        let cq = context.create_cq(RX_DEPTH + QPS);
        let srq = pd.create_srq(&SrqOptions {
            depth: RX_DEPTH,
            max_sge: 1,
        });
        let srq = srq.expect("an SRQ");
        let region = pd.allocate(SIZE, Access::LOCAL_WRITE).expect("memory");
        let qps = (0..QPS)
            .map(|_| {
                let qp = pd.create_qp_with_srq(&cq, &cq, &srq, &QpOptions::default());
                qp.expect("a QP")
            })
            .collect();
        let ours = Self {
            context,
            gid_index,
            cq,
            srq,
            region,
            qps,
        };
        ours.receive(RX_DEPTH);
        let limit = Some(RX_DEPTH / 2);
        let attributes = SrqAttributes { depth: None, limit };
        ours.srq.modify(&attributes).expect("armed");
        ours
    }

    fn receive(&self, count: usize) {
        let sges = [self.region.all().expect("small")];
        for _ in 0..count {
            let request = RecvRequest {
                wr_id: RECV,
                sges: &sges,
            };
            self.srq.post_recv(&request).expect("posted");
        }
    }

    fn send(&self, qp: &QueuePair) {
        let sges = [self.region.all().expect("small")];
        qp.post_send(&SendRequest::new(SEND, SendOp::Send, &sges))
            .expect("posted");
    }

    fn connect(&self, theirs: &[Endpoint]) {
        let options = ConnectOptions {
            path_mtu: Some(PathMtu::Mtu1024),
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            ..ConnectOptions::default()
        };
        for (qp, remote) in self.qps.iter().zip(theirs) {
            qp.connect(self.gid_index, remote, &options)
                .expect("connected");
        }
    }

    /// Sends all addresses; those beyond our QPs are unused.
    fn tell(&self, peer: &mut TcpStream) {
        for index in 0..ADDRESSES {
            let endpoint = self.qps.get(index).map(|qp| qp.endpoint(self.gid_index));
            let text = match endpoint {
                Some(endpoint) => address(&endpoint.expect("an endpoint")),
                None => format!("0000:000000:000000:{:032x}", 0),
            };
            peer.write_all(text.as_bytes()).expect("told");
            peer.write_all(&[0]).expect("told");
        }
    }

    /// Runs until both counts are reached: each QP answers each message with one, until enough are
    /// sent.
    fn play(&self, begin: bool) {
        let end = Instant::now() + TIMEOUT;
        let mut pending = [RECV; QPS];
        if begin {
            for (qp, pending) in self.qps.iter().zip(&mut pending) {
                self.send(qp);
                *pending |= SEND;
            }
        }
        let (mut sent, mut received, mut posted) = (0, 0, RX_DEPTH);
        while sent < MESSAGES || received < MESSAGES {
            let Some(done) = self.cq.poll().expect("no overrun") else {
                assert!(Instant::now() < end, "{sent} sent, {received} received");
                continue;
            };
            assert_eq!(done.status, WcStatus::Success, "{done:?}");
            let index = self.qps.iter().position(|qp| qp.qpn() == done.qpn);
            let index = index.expect("one of our QPs");
            if done.wr_id == SEND {
                sent += 1;
            } else {
                assert_eq!(done.byte_len as usize, SIZE);
                received += 1;
                posted -= 1;
                if posted <= QPS {
                    self.receive(RX_DEPTH - posted);
                    posted = RX_DEPTH;
                }
            }
            pending[index] &= !done.wr_id;
            if sent < MESSAGES && pending[index] == 0 {
                self.send(&self.qps[index]);
                pending[index] = RECV | SEND;
            }
        }
        let reached = Some(Event::SrqLimit(self.srq.number()));
        assert_eq!(self.context.poll_event(), reached, "below half, once");
        assert_eq!(self.context.poll_event(), None);
    }
}

fn address(endpoint: &Endpoint) -> String {
    let gid = u128::from_be_bytes(endpoint.gid.0);
    let (qpn, psn) = (endpoint.qpn.get(), endpoint.psn.get());
    format!("0000:{qpn:06x}:{psn:06x}:{gid:032x}")
}

/// Receives all of their addresses; those of the first QPs are used.
fn hear(peer: &mut TcpStream) -> Vec<Endpoint> {
    let mut heard = Vec::new();
    for _ in 0..ADDRESSES {
        let mut bytes = [0; ADDRESS_BYTES];
        peer.read_exact(&mut bytes).expect("an address");
        let text = std::str::from_utf8(&bytes[..ADDRESS_BYTES - 1]).expect("text");
        let parts: Vec<&str> = text.split(':').collect();
        let number = |part: &str| u32::from_str_radix(part, 16).expect("hexadecimal");
        let gid = u128::from_str_radix(parts[3], 16).expect("hexadecimal");
        heard.push(Endpoint {
            gid: Gid(gid.to_be_bytes()),
            qpn: Qpn::from_bits(number(parts[1]) & 0xff_ffff),
            psn: Psn::new(number(parts[2])),
        });
    }
    heard.truncate(QPS);
    heard
}

fn arguments() -> Vec<String> {
    let all = format!("-g 1 -m 1024 -q {QPS} -n {MESSAGES} -s {SIZE} -r {RX_DEPTH} -p {PORT}");
    all.split(' ').map(str::to_owned).collect()
}

#[test]
fn our_client_and_their_server() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let theirs = lab
        .guest(["ibv_srq_pingpong"])
        .args(&arguments())
        .spawn()
        .expect("ibv_srq_pingpong starts");
    // 18515 is 0x4853; 0A is LISTEN.
    let listens = "until grep -q ':4853 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; \
                   do sleep 0.02; done";
    lab.guest(["sh", "-c", listens])
        .output(TIMEOUT)
        .and_then(|output| output.success())
        .expect("ibv_srq_pingpong listens");
    lab.enter(|| {
        let ours = Ours::open();
        let mut peer = TcpStream::connect((GUEST_IP4, PORT)).expect("connected");
        peer.set_read_timeout(Some(TIMEOUT)).expect("set");
        ours.tell(&mut peer);
        ours.connect(&hear(&mut peer));
        peer.write_all(b"done\0").expect("told");
        ours.play(true);
    })
    .expect("entered");
    assert_served(&theirs.wait(TIMEOUT).and_then(|output| output.success()));
}

#[test]
fn our_server_and_their_client() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let listener = lab.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)));
    let listener = listener.expect("entered").expect("bound");
    let theirs = lab
        .guest(["ibv_srq_pingpong"])
        .args(&arguments())
        .arg(HOST_IP4.to_string())
        .spawn()
        .expect("ibv_srq_pingpong starts");
    lab.enter(|| {
        let ours = Ours::open();
        let (mut peer, _) = listener.accept().expect("accepted");
        peer.set_read_timeout(Some(TIMEOUT)).expect("set");
        ours.connect(&hear(&mut peer));
        ours.tell(&mut peer);
        let mut done = [0; 5];
        peer.read_exact(&mut done).expect("their word");
        ours.play(false);
    })
    .expect("entered");
    assert_served(&theirs.wait(TIMEOUT).and_then(|output| output.success()));
}

/// Checks that their output has the amount of data.
fn assert_served(output: &Result<roce_tests::lab::GuestOutput, roce_tests::lab::LabError>) {
    let text = output.as_ref().expect("success").stdout_text();
    assert!(text.contains("bytes in"), "{text}");
}

/// XRC can't be tested against Soft-RoCE, which does not support it. This fails once Soft-RoCE
/// reports support, as a reminder to write a test.
#[test]
fn soft_roce_has_no_xrc() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let said = lab
        .guest(["ibv_devinfo", "-v", "-d", GUEST_RDMA_DEVICE])
        .output(TIMEOUT)
        .and_then(|output| output.success())
        .expect("ibv_devinfo runs")
        .stdout_text();
    let flags = said.split_once("device_cap_flags").expect("flags").1;
    assert!(
        flags.contains("SRQ_RESIZE") || flags.contains("0x"),
        "{said}"
    );
    assert!(!flags.contains("XRC"), "{said}");
}
