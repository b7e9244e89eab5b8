//! The faults of one run, drawn from the seed of the hunt and the number of the run.

use super::draw::Draw;
use super::part::{Part, times};
use super::scout::Scouted;
use clap::ValueEnum;
use nix::errno::Errno;
use roce_verbs::completion::WcStatus;
use roce_verbs::faults::{
    Call, CallFault, Chance, CompletionFault, Injection, Operation, RequestFault, TimedFault, When,
};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// A kind of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Packets are lost, duplicated, reordered and delayed
    Network,
    /// Completions are held back
    Late,
    /// Calls take longer
    Slow,
    /// Calls fail, and completions have errors
    Errors,
}

/// Those that a correct program does not notice, except by the time that it takes.
pub(super) const MILD: [Category; 3] = [Category::Network, Category::Late, Category::Slow];

/// The faults of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    /// The seed of the parts that are random.
    pub(super) seed: u64,
}

/// Chances for each packet, in parts of a million.
const CHANCES: [u32; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];

/// A test with this many packets or fewer meets all chances as they are in [`CHANCES`]. With twice as
/// many, chances are halved.
const FEW_PACKETS: u64 = 20_000;

/// The time by which delays may prolong a test: half of the shortest default of `--hunt-limit`.
const PROLONGED: Duration = Duration::from_secs(5);

/// The longest delay of each packet, also for tests with few packets. Connections with the shortest timeouts that
/// programs use survive it.
const LONGEST_DELAY: Duration = Duration::from_millis(1);

/// The most matches that one part strikes.
const MAX_MATCHES: u32 = 10;

/// The longest time by which a completion or a call is late.
const LATEST: Duration = Duration::from_millis(50);

/// The most parts of one category in a plan.
const MAX_PARTS: u32 = 2;

/// Calls that fail because there is no memory left.
const FAILING_CALLS: [&str; 7] = [
    "alloc_pd",
    "reg_mr",
    "create_cq",
    "create_qp",
    "post_send",
    "post_recv",
    "post_srq_recv",
];

/// Statuses of completions that fail, as when the peer is gone or out of receives.
const STATUSES: [(Operation, WcStatus); 6] = [
    (Operation::Send, WcStatus::RetryExceeded),
    (Operation::Send, WcStatus::RnrRetryExceeded),
    (Operation::Write, WcStatus::RetryExceeded),
    (Operation::Read, WcStatus::RetryExceeded),
    (Operation::Atomic, WcStatus::RetryExceeded),
    (Operation::Recv, WcStatus::WorkRequestFlushed),
];

/// The reason of a rejection by the peer's program (IBTA 1.7, 12.6.7.2).
const CONSUMER_REJECT: u16 = 28;

impl Plan {
    /// Draws the faults of run number `run` of a hunt, for a test that does what was scouted.
    pub(super) fn draw(seed: u64, run: u32, with: &[Category], test: &Scouted) -> Self {
        let draw = &mut Draw::of_run(seed, run);
        // Some categories stay away from a run, since the faults of one can hide those of another.
        let surely = draw.one_of(with).copied();
        let mut parts = Vec::new();
        for category in with {
            if Some(*category) != surely && draw.once_in(2) {
                continue;
            }
            match category {
                Category::Network => parts.extend(network(draw, test)),
                Category::Late => parts.extend(injections(draw, test, late)),
                Category::Slow => parts.extend(injections(draw, test, slow)),
                Category::Errors => parts.extend(error(draw, test).map(Part::Injection)),
            }
        }
        // Such as calls, of a program of another language than C.
        if parts.is_empty() {
            parts.extend(network(draw, test));
        }
        let seed = u64::from(draw.below(1_000_000));
        Self { parts, seed }
    }

    /// The same seed with other parts.
    pub(super) fn with(&self, parts: Vec<Part>) -> Self {
        Self {
            parts,
            seed: self.seed,
        }
    }
}

/// One or two different parts, since each may be given once.
fn network(draw: &mut Draw, test: &Scouted) -> Vec<Part> {
    let first = draw.below(4);
    let mut kinds = vec![first];
    if draw.once_in(2) {
        kinds.push((first + 1 + draw.below(3)) % 4);
    }
    let part = |kind| match kind {
        0 => Part::Loss(chance(draw, test)),
        1 => Part::Duplicates(chance(draw, test)),
        2 => Part::Reorder {
            often: chance(draw, test),
            by: time(draw, LATEST),
        },
        _ => {
            let to = time(draw, longest_delay(test));
            let from = if draw.once_in(2) { to } else { Duration::ZERO };
            Part::Delay { from, to }
        }
    };
    kinds.into_iter().map(part).collect()
}

/// A chance for each packet. A test with many packets would otherwise be slowed down beyond the limit.
fn chance(draw: &mut Draw, test: &Scouted) -> Chance {
    let most = u64::from(draw.one_of(&CHANCES).copied().unwrap_or_default());
    let parts = most * FEW_PACKETS / test.packets().max(FEW_PACKETS);
    Chance::per_million(u32::try_from(parts.max(1)).unwrap_or(u32::MAX))
}

/// The longest delay of each packet: each completion may need a message to and fro.
fn longest_delay(test: &Scouted) -> Duration {
    let packets = test.all_completions().saturating_mul(2).max(1);
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    (PROLONGED / packets).min(LONGEST_DELAY)
}

/// A time up to `longest`, or the shortest there is.
fn time(draw: &mut Draw, longest: Duration) -> Duration {
    let times = times(longest.max(Duration::from_micros(10)));
    draw.one_of(&times).copied().unwrap_or_default()
}

fn injections(
    draw: &mut Draw,
    test: &Scouted,
    injection: fn(&mut Draw, &Scouted) -> Option<Injection>,
) -> Vec<Part> {
    let count = 1 + draw.below(MAX_PARTS);
    let injections = (0..count).filter_map(|_| injection(draw, test));
    injections.map(Part::Injection).collect()
}

fn late(draw: &mut Draw, test: &Scouted) -> Option<Injection> {
    let fault = CompletionFault::Late(time(draw, LATEST));
    let (of, count) = draw.one_of(&test.completions).copied()?;
    let of = if draw.once_in(4) { Operation::Any } else { of };
    let mut injection = several(draw, count, Injection::completion(of, fault));
    if draw.once_in(4) {
        injection = injection.of_qp(1 + draw.below(2));
    }
    Some(injection)
}

fn slow(draw: &mut Draw, test: &Scouted) -> Option<Injection> {
    let fault = CallFault::Slow(time(draw, LATEST));
    let (call, count) = draw.one_of(&test.calls).copied()?;
    Some(several(draw, count, Injection::call(call, fault)))
}

/// One call or completion that fails; at times a connection that is refused, or a link that goes
/// down and up again.
fn error(draw: &mut Draw, test: &Scouted) -> Option<Injection> {
    match draw.below(10) {
        0..4 => {
            let failing = |(call, _): &&(Call, u64)| FAILING_CALLS.contains(&call.name());
            let calls: Vec<_> = test.calls.iter().filter(failing).copied().collect();
            let (call, count) = draw.one_of(&calls).copied()?;
            let fault = CallFault::Error(Errno::ENOMEM as i32);
            Some(once(draw, count, Injection::call(call, fault)))
        }
        4..8 => {
            let (of, count) = draw.one_of(&test.completions).copied()?;
            let statuses = STATUSES.iter().filter(|(whose, _)| *whose == of);
            let statuses: Vec<_> = statuses.map(|(_, status)| *status).collect();
            let status = draw.one_of(&statuses).copied()?;
            let fault = CompletionFault::Status(status);
            Some(once(draw, count, Injection::completion(of, fault)))
        }
        8 => {
            let refused = RequestFault::Reject(CONSUMER_REJECT);
            Some(Injection::request(refused).at(1 + u64::from(draw.below(2))))
        }
        _ => {
            let from = time(draw, LATEST);
            let to = from + time(draw, LATEST);
            Some(Injection::timed(TimedFault::PortDown, from, Some(to)))
        }
    }
}

/// For one match, of roughly `count`.
fn once(draw: &mut Draw, count: u64, injection: Injection) -> Injection {
    injection.at(which(draw, count))
}

/// For one match or for some, of roughly `count`.
fn several(draw: &mut Draw, count: u64, injection: Injection) -> Injection {
    let first = which(draw, count);
    let more = match draw.once_in(2) {
        true => u64::from(draw.below(MAX_MATCHES)),
        false => 0,
    };
    let last = Some(first + more);
    Injection {
        when: When::Matches { first, last },
        ..injection
    }
}

/// The number of a match. `count` is a power of 4, and more than a quarter of the matches. Small
/// numbers are frequent, since much happens at the beginning of a test.
fn which(draw: &mut Draw, count: u64) -> u64 {
    let bits = count.checked_ilog2().unwrap_or(0) + 1;
    u64::from(draw.often_small(bits))
}

/// As `ROCE_FAULTS` takes it; empty without faults.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{part}")?;
        }
        match self.parts.iter().any(Part::is_random) {
            true => write!(f, ",seed={}", self.seed),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::faults::Faults;

    const ALL: [Category; 4] = [
        Category::Network,
        Category::Late,
        Category::Slow,
        Category::Errors,
    ];

    #[test]
    fn errors_are_valid() {
        let plans = plans(&[Category::Errors]);
        for plan in &plans {
            let faults: Result<Faults, _> = plan.to_string().parse();
            assert!(faults.is_ok(), "{plan}: {faults:?}");
        }
        let all: String = plans.iter().map(|plan| format!("{plan} ")).collect();
        for part in [
            "post_send:ENOMEM@",
            "send:RETRY_EXC_ERR@",
            "recv:WR_FLUSH_ERR@",
            "request:reject=28@",
            "port:down@",
        ] {
            assert!(all.contains(part), "no {part} in {all}");
        }
    }

    /// A test that sends 300 messages.
    fn test() -> Scouted {
        let lines = [
            "send:late=0s@256",
            "recv:late=0s@256",
            "post_send:slow=0s@256",
            "reg_mr:slow=0s@1",
        ];
        let stderr: String = lines.map(|line| format!("roce: fault: {line}\n")).concat();
        Scouted::of(&stderr, 300_000)
    }

    fn plans(with: &[Category]) -> Vec<Plan> {
        let runs = 1..=500;
        runs.map(|run| Plan::draw(7, run, with, &test())).collect()
    }

    #[test]
    fn plans_are_repeated_by_their_seed() {
        assert_eq!(plans(&ALL), plans(&ALL));
        let runs = 1..=500;
        let others = runs.map(|run| Plan::draw(8, run, &ALL, &test()));
        assert_ne!(plans(&ALL), others.collect::<Vec<_>>());
    }

    #[test]
    fn plans_have_faults_and_the_variable_takes_them() {
        for category in [Category::Network, Category::Late, Category::Slow] {
            for plan in plans(&[category]) {
                assert!(!plan.parts.is_empty());
                let is_network = category == Category::Network;
                assert!(
                    plan.parts.iter().all(|part| part.is_random() == is_network),
                    "{plan}"
                );
                let faults: Result<Faults, _> = plan.to_string().parse();
                let faults = faults.unwrap_or_else(|error| panic!("{plan}: {error}"));
                let injections = faults.injections().iter().cloned().map(Part::Injection);
                match is_network {
                    true => assert!(!faults.network().is_faultless(), "{plan}"),
                    false => assert!(injections.eq(plan.parts.iter().cloned()), "{plan}"),
                }
            }
        }
    }

    #[test]
    fn injections_are_about_what_the_test_does() {
        for plan in plans(&[Category::Late, Category::Slow]) {
            for part in &plan.parts {
                let text = part.to_string();
                let text = text
                    .strip_prefix("qp1.")
                    .or(text.strip_prefix("qp2."))
                    .unwrap_or(&text);
                let (what, fault) = text.split_once(':').expect("an injection");
                let known = ["any", "send", "recv", "post_send", "reg_mr"];
                assert!(known.contains(&what), "{text}");
                let (_, when) = fault.split_once('@').expect("matches");
                let first = when.split("..").next().and_then(|first| first.parse().ok());
                let most = if what == "reg_mr" { 1 } else { 511 };
                assert!(first.is_some_and(|first: u64| first <= most), "{text}");
            }
        }
    }

    /// As one that does not use the C API, or whose stderr nobody sees.
    #[test]
    fn a_test_of_which_nothing_is_known_meets_faults_of_the_network() {
        for run in 1..=50 {
            let plan = Plan::draw(7, run, &[Category::Slow], &Scouted::default());
            assert!(
                plan.parts.iter().all(Part::is_random) && !plan.parts.is_empty(),
                "{plan}"
            );
        }
    }

    #[test]
    fn some_runs_lack_a_category() {
        let all = plans(&MILD);
        let without = |random: bool| {
            let lacks = |plan: &&Plan| plan.parts.iter().all(|part| part.is_random() != random);
            all.iter().filter(lacks).count()
        };
        assert!(without(true) > 20 && without(false) > 20);
    }

    #[test]
    fn the_more_a_test_sends_the_weaker_are_the_faults_of_every_packet() {
        let packets = |bytes| Scouted::of("roce: fault: send:late=0s@4", bytes);
        let most = |bytes| {
            let draw = &mut Draw::of_run(1, 1);
            let chances = (0..100).map(|_| chance(draw, &packets(bytes)));
            chances.max().expect("some")
        };
        assert_eq!(most(0), Chance::per_million(100_000));
        assert_eq!(most(FEW_PACKETS * 1024 * 10), Chance::per_million(10_000));
        assert!(!most(u64::MAX).is_never());
        let sends = |count: u64| Scouted::of(&format!("roce: fault: send:late=0s@{count}"), 0);
        assert_eq!(longest_delay(&sends(4)), LONGEST_DELAY);
        assert_eq!(longest_delay(&sends(250_000)), Duration::from_micros(10));
    }

    #[test]
    fn a_plan_without_faults_is_empty_and_only_random_parts_need_a_seed() {
        assert_eq!(Plan::default().to_string(), "");
        let late = Injection::completion(Operation::Any, CompletionFault::Late(LATEST));
        let plan = Plan {
            parts: vec![Part::Injection(late.at(3))],
            seed: 3,
        };
        assert_eq!(plan.to_string(), "any:late=50ms@3");
        let both = plan.with([plan.parts.clone(), vec![Part::Loss(Chance::ALWAYS)]].concat());
        assert_eq!(both.to_string(), "any:late=50ms@3,loss=100%,seed=3");
    }
}
