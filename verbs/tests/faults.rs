//! Data comes right through real sockets, whatever packets suffer on the way.

use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion, OpenOptions, QpOptions,
    QueuePair, SendOp, SendRequest, Stat, WcStatus,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const LEN: usize = 200_000;

struct End {
    at: IpAddr,
    context: Context,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

impl End {
    /// At an address of the loopback network that no other test has.
    fn open(last: u8, options: &OpenOptions) -> Self {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let at = IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last));
        let device = Device::with_address(at).expect("loopback");
        let context = options.open(&device).expect("opened");
        let pd = context.alloc_pd();
        let cq = context.create_cq(16);
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default());
        let region = pd.allocate(LEN, Access::all()).expect("allocated");
        Self {
            at,
            context,
            cq,
            qp,
            region,
        }
    }

    fn connect(&self, peer: &End) {
        let index = |end: &End| {
            let gids = end.context.gids();
            let entry = gids.iter().find(|entry| entry.gid.ip() == end.at);
            entry.expect("the address has a GID").index
        };
        let remote = peer.qp.endpoint(index(peer)).expect("endpoint");
        let options = ConnectOptions {
            timeout: 10,
            ..ConnectOptions::default()
        };
        self.qp
            .connect(index(self), &remote, &options)
            .expect("connected");
    }

    fn run(&self, op: SendOp) {
        let sge = self.region.slice(0, LEN).expect("in range");
        self.qp
            .post_send(&SendRequest::new(1, op, &[sge]))
            .expect("posted");
        let done = self.cq.poll_for(PATIENCE).expect("no overrun");
        assert_eq!(done.expect("completed").status, WcStatus::Success);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; LEN];
        self.region.read(0, &mut out).expect("in range");
        out
    }

    fn counted(&self, name: &str) -> u64 {
        let counters = self.context.port_counters();
        let counter = counters.into_iter().find(|(label, _)| *label == name);
        counter.expect("a counter of this name").1
    }
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..LEN)
        .map(|i| (i.wrapping_mul(31) >> 3) as u8 ^ seed)
        .collect()
}

/// Writes and reads back until faults have struck often enough.
fn moves_data_through(faults: &str, last: u8, counters: &[&str]) {
    let options = OpenOptions::new().faults(faults.parse().expect("well-formed"));
    let (a, b) = (End::open(last, &options), End::open(last + 1, &options));
    a.connect(&b);
    b.connect(&a);
    let mut round = 0_u8;
    loop {
        a.region.write(0, &pattern(round)).expect("in range");
        a.run(SendOp::Write(b.region.remote(0)));
        assert!(b.bytes() == pattern(round), "WRITE, {faults}");
        a.region.write(0, &pattern(!round)).expect("in range");
        a.run(SendOp::Read(b.region.remote(0)));
        assert!(a.bytes() == pattern(round), "READ, {faults}");
        let struck = |name: &&str| a.counted(name) + b.counted(name) >= 3;
        if round >= 4 && counters.iter().all(struck) {
            break;
        }
        round = round.checked_add(1).expect("faults have struck by now");
    }
    let dropped = a.context.counters().total_drops() + b.context.counters().total_drops();
    let again = a.context.counters().stat(Stat::Retransmitted);
    println!("{faults}: {round} rounds, {dropped} dropped, {again} sent again");
}

#[test]
fn loss_and_reordering_cost_time_only() {
    let faults = "loss=1%,dup=1%,reorder=1%:50us,seed=1";
    let counters = ["fault_lost", "fault_duplicated", "fault_reordered"];
    moves_data_through(faults, 201, &counters);
}

#[test]
fn packets_that_come_later_come_without_any_call_of_the_application() {
    // Nobody but the background thread of the target drives it.
    moves_data_through("delay=200us..300us,seed=1", 211, &["fault_received"]);
}

#[test]
fn the_context_tells_which_faults_it_has() {
    let options = OpenOptions::new().faults("loss=1%".parse().expect("well-formed"));
    let end = End::open(221, &options);
    let spec = end.context.faults().expect("faults are on");
    assert!(spec.seed.is_some(), "{spec}");
    assert_eq!(
        spec.to_string().split_once(','),
        Some((
            "loss=1%",
            &*format!("seed={}", spec.seed.unwrap_or_default())
        ))
    );
    let quiet = End::open(222, &OpenOptions::new());
    assert_eq!(quiet.context.faults(), None);
}
