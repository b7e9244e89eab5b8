//! A long run over a link that goes down and up, and whose MTU, neighbours and addresses keep
//! changing. QPs survive or fail with the right error, no chunk is lost, and everything works again
//! once the link is restored.
//!
//! It takes ten seconds, or `ROCE_SOAK_SECONDS`. The events follow from a seed, which is printed,
//! and which `ROCE_SEED` sets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use roce_tests::veth::{End, Pair};
use roce_verbs::qp::PathMtu;
use roce_verbs::{ConnectOptions, Context, SendOp, WcStatus};

use super::driven::{Side, open, pattern, try_side};

const TIMEOUT: Duration = Duration::from_secs(60);
/// The owners of chunks on our side while nothing is in flight.
const HOLDERS: [&str; 5] = [
    "chunks_free",
    "chunks_fill",
    "chunks_received",
    "chunks_writing",
    "chunks_tx",
];

/// Disturbs the link, one event after the other, until it is stopped. Then it restores the link.
struct Chaos<'a> {
    pair: &'a Pair,
    rng: ChaCha8Rng,
    done: BTreeMap<&'static str, u32>,
}

impl Chaos<'_> {
    fn run(mut self, stop: &AtomicBool) -> BTreeMap<&'static str, u32> {
        while !stop.load(Ordering::Relaxed) {
            self.pause(200);
            let end = match self.rng.next_u32() % 2 {
                0 => &self.pair.near,
                _ => &self.pair.far,
            };
            self.act(end);
        }
        self.done
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(self.rng.next_u64() % most_ms));
    }

    fn act(&mut self, end: &End) {
        let ip = |arguments: &str| end.ip(arguments).unwrap_or_else(|e| panic!("{e}"));
        let End { interface, ip4, .. } = end;
        let what = match self.rng.next_u32() % 5 {
            0 => {
                ip(&format!("link set {interface} down"));
                self.pause(600);
                ip(&format!("link set {interface} up"));
                "link down and up"
            }
            1 => {
                let mtu = [1500, 4200, 9000][self.rng.next_u32() as usize % 3];
                ip(&format!("link set {interface} mtu {mtu}"));
                self.pause(300);
                ip(&format!("link set {interface} mtu 9000"));
                "MTU changed"
            }
            2 => {
                ip(&format!("neigh flush dev {interface}"));
                "neighbours flushed"
            }
            3 => {
                ip(&format!("address add 10.91.7.7/24 dev {interface}"));
                self.pause(50);
                ip(&format!("address del 10.91.7.7/24 dev {interface}"));
                "an address came and went"
            }
            _ => {
                ip(&format!("address del {ip4}/24 dev {interface}"));
                self.pause(400);
                ip(&format!("address add {ip4}/24 dev {interface}"));
                "our address went and came"
            }
        };
        *self.done.entry(what).or_default() += 1;
    }
}

/// The results of the transfers.
#[derive(Debug, Default)]
struct Score {
    connections: u32,
    /// No address, or a path MTU that the link does not carry at the moment.
    not_connected: u32,
    transfers: u64,
    errors: BTreeMap<String, u32>,
}

/// Two QPs, connected to each other; `None` if that is not possible at the moment.
fn connect(pair: &Pair, contexts: &[Context; 2], mtu: PathMtu) -> Option<[Side; 2]> {
    let options = ConnectOptions {
        path_mtu: Some(mtu),
        // A quarter of a second in total.
        timeout: 12,
        retry_cnt: 3,
        ..ConnectOptions::default()
    };
    let near = try_side(&pair.near, &contexts[0])?;
    let far = try_side(&pair.far, &contexts[1])?;
    let there = far.try_endpoint(&pair.far).ok()?;
    let here = near.try_endpoint(&pair.near).ok()?;
    near.try_connect(&pair.near, &there, &options).ok()?;
    far.try_connect(&pair.far, &here, &options).ok()?;
    Some([near, far])
}

/// Writes the pattern and reads it back, once. An error is the status that ended it.
fn transfer(near: &Side, far: &Side) -> Result<(), WcStatus> {
    far.region.write(0, &[0; 8]).expect("in range");
    near.region.write(0, &pattern()).expect("in range");
    let ops = [
        SendOp::Write(far.region.remote(0)),
        SendOp::Read(far.region.remote(0)),
    ];
    for op in ops {
        near.post(op);
        let done = near.cq.poll_for(TIMEOUT).expect("no overrun");
        match done.expect("it ends, whatever happens").status {
            WcStatus::Success => {}
            error => return Err(error),
        }
        assert!(far.bytes() == pattern(), "what was written is garbled");
    }
    assert!(near.bytes() == pattern(), "what was read is garbled");
    Ok(())
}

fn traffic(pair: &Pair, contexts: &[Context; 2], seed: u64, end: Instant) -> Score {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut score = Score::default();
    while Instant::now() < end {
        let mtu = [PathMtu::Mtu1024, PathMtu::Mtu4096][rng.next_u32() as usize % 2];
        let Some([near, far]) = connect(pair, contexts, mtu) else {
            score.not_connected += 1;
            thread::yield_now();
            continue;
        };
        score.connections += 1;
        while Instant::now() < end {
            match transfer(&near, &far) {
                Ok(()) => score.transfers += 1,
                Err(error) => {
                    *score.errors.entry(format!("{error:?}")).or_default() += 1;
                    break;
                }
            }
        }
        for context in contexts {
            assert_eq!(context.failure(), None);
        }
    }
    score
}

fn chunks(context: &Context) -> Vec<(&'static str, u64)> {
    let all = context.port_counters();
    let chunks: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| HOLDERS.contains(name))
        .collect();
    assert_eq!(chunks.len(), HOLDERS.len());
    chunks
}

#[test]
fn a_link_that_changes_all_the_time() {
    let seconds = testkit::number("ROCE_SOAK_SECONDS").unwrap_or(10);
    let seed = testkit::number("ROCE_SEED").unwrap_or(1);
    let Some(pair) = Pair::new_or_skip(9000, 2) else {
        return;
    };
    println!("ROCE_SEED={seed} ROCE_SOAK_SECONDS={seconds}");
    let contexts = [&pair.near, &pair.far].map(|end| {
        let context = open(end);
        end.enter(|| context.start().map(drop)).expect("AF_XDP");
        context
    });
    let at_first = contexts.each_ref().map(chunks);
    let stop = AtomicBool::new(false);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (score, done) = thread::scope(|scope| {
        let chaos = Chaos {
            pair: &pair,
            rng: ChaCha8Rng::seed_from_u64(seed),
            done: BTreeMap::new(),
        };
        let chaos = scope.spawn(|| chaos.run(&stop));
        let score = traffic(&pair, &contexts, seed, end);
        stop.store(true, Ordering::Relaxed);
        (score, chaos.join().expect("the link can be changed"))
    });
    println!("{score:#?}\n{done:#?}");
    assert!(score.transfers > 0, "something passed in between");
    for error in score.errors.keys() {
        assert!(
            error == "RetryExceeded",
            "{error} does not say that the link was gone"
        );
    }

    // The link is restored.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let sides = connect(&pair, &contexts, PathMtu::Mtu4096);
        let passed = sides.is_some_and(|[near, far]| transfer(&near, &far).is_ok());
        if passed {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the link is back, but nothing passes"
        );
    }
    let deadline = Instant::now() + TIMEOUT;
    while contexts.each_ref().map(chunks) != at_first {
        for context in &contexts {
            context.drive();
        }
        let now = contexts.each_ref().map(chunks);
        assert!(
            Instant::now() < deadline,
            "chunks are lost: {at_first:?}, now {now:?}"
        );
    }
}
