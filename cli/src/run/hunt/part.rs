//! One fault of a run, as `ROCE_FAULTS` writes it.

use roce_verbs::faults::{CallFault, Chance, CompletionFault, Injection, Target, When};
use roce_verbs::settings::DurationText;
use std::fmt;
use std::time::Duration;

/// A part of `ROCE_FAULTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Packets are lost.
    Loss(Chance),
    /// Packets arrive twice.
    Duplicates(Chance),
    /// Packets are held back, so that others overtake them.
    Reorder { often: Chance, by: Duration },
    /// Every packet is delayed.
    Delay { from: Duration, to: Duration },
    /// A call or a completion fails, or comes late.
    Injection(Injection),
}

impl Part {
    /// Whether the seed decides which packets it affects.
    pub(super) fn is_random(&self) -> bool {
        !matches!(self, Self::Injection(_))
    }

    /// The same part with a shorter time, or with fewer matches; the boldest first.
    ///
    /// Chances stay: with a smaller one, the failure would only become rare.
    pub(super) fn smaller(&self) -> Vec<Self> {
        match self {
            Self::Loss(_) | Self::Duplicates(_) => Vec::new(),
            Self::Reorder { often, by } => {
                let often = *often;
                let times = shorter(*by).into_iter();
                times.map(|by| Self::Reorder { often, by }).collect()
            }
            Self::Delay { from, to } => {
                let shorter = shorter(*to).into_iter();
                let times = shorter.map(|to| Self::Delay {
                    from: (*from).min(to),
                    to,
                });
                times.collect()
            }
            Self::Injection(injection) => smaller(injection)
                .into_iter()
                .map(Self::Injection)
                .collect(),
        }
    }
}

fn smaller(injection: &Injection) -> Vec<Injection> {
    let mut smaller = Vec::new();
    if let When::Matches {
        first,
        last: Some(last),
    } = injection.when
        && first < last
    {
        let among = |first, last| Injection {
            when: When::Matches {
                first,
                last: Some(last),
            },
            ..injection.clone()
        };
        smaller.extend([among(first, first), among(last, last)]);
        if last - first > 1 {
            let middle = first + (last - first) / 2;
            smaller.extend([among(first, middle), among(middle + 1, last)]);
        }
    }
    let with = |what| Injection {
        what,
        ..injection.clone()
    };
    match injection.what {
        Target::Completion(of, CompletionFault::Late(time)) => {
            let times = shorter(time).into_iter().map(CompletionFault::Late);
            smaller.extend(times.map(|late| with(Target::Completion(of, late))));
        }
        Target::Call(call, CallFault::Slow(time)) => {
            let times = shorter(time).into_iter().map(CallFault::Slow);
            smaller.extend(times.map(|slow| with(Target::Call(call, slow))));
        }
        _ => {}
    }
    smaller
}

/// Times that are written with one digit: each step is half of the one above it, or a little less.
const STEPS_US: [u64; 12] = [
    10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000,
];

/// The times to draw from, up to `longest`, in ascending order.
pub(super) fn times(longest: Duration) -> Vec<Duration> {
    let all = STEPS_US.iter().map(|us| Duration::from_micros(*us));
    all.filter(|time| *time <= longest).collect()
}

/// Shorter times to try, the shortest first: a sixteenth or so, a quarter or so, half.
fn shorter(time: Duration) -> Vec<Duration> {
    let below: Vec<Duration> = times(time).into_iter().filter(|t| *t < time).collect();
    let steps = [4, 2, 1].into_iter();
    let mut found: Vec<_> = steps
        .filter_map(|down| below.len().checked_sub(down).map(|at| below[at]))
        .collect();
    found.dedup();
    found
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss(often) => write!(f, "loss={often}"),
            Self::Duplicates(often) => write!(f, "dup={often}"),
            Self::Reorder { often, by } => write!(f, "reorder={often}:{}", DurationText(*by)),
            Self::Delay { from, to } if from == to => write!(f, "delay={}", DurationText(*from)),
            Self::Delay { from, to } => {
                write!(f, "delay={}..{}", DurationText(*from), DurationText(*to))
            }
            Self::Injection(injection) => injection.fmt(f),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use roce_verbs::faults::{Call, Operation};

    pub(in super::super) fn late(ms: u64, first: u64, last: u64) -> Part {
        let fault = CompletionFault::Late(Duration::from_millis(ms));
        let last = Some(last);
        Part::Injection(Injection {
            when: When::Matches { first, last },
            ..Injection::completion(Operation::Recv, fault)
        })
    }

    fn texts(parts: &[Part]) -> Vec<String> {
        parts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn parts_are_written_as_the_variable_takes_them() {
        let ms = Duration::from_millis;
        let percent = Chance::per_million(10_000);
        let parts = [
            Part::Loss(percent),
            Part::Duplicates(percent),
            Part::Reorder {
                often: percent,
                by: ms(1),
            },
            Part::Delay {
                from: ms(1),
                to: ms(1),
            },
            Part::Delay {
                from: Duration::from_micros(50),
                to: ms(2),
            },
            late(5, 3, 3),
        ];
        let said = [
            "loss=1%",
            "dup=1%",
            "reorder=1%:1ms",
            "delay=1ms",
            "delay=50us..2ms",
            "recv:late=5ms@3",
        ];
        assert_eq!(texts(&parts), said);
    }

    #[test]
    fn smaller_parts_have_fewer_matches_or_shorter_times() {
        let smaller = texts(&late(20, 3, 6).smaller());
        let expected = [
            "recv:late=20ms@3",
            "recv:late=20ms@6",
            "recv:late=20ms@3..4",
            "recv:late=20ms@5..6",
            "recv:late=1ms@3..6",
            "recv:late=5ms@3..6",
            "recv:late=10ms@3..6",
        ];
        assert_eq!(smaller, expected);
        let shortest = Part::Delay {
            from: Duration::ZERO,
            to: Duration::from_micros(10),
        };
        assert_eq!(shortest.smaller(), []);
        assert_eq!(Part::Loss(Chance::ALWAYS).smaller(), []);
    }

    #[test]
    fn slow_calls_become_faster() {
        let slow = CallFault::Slow(Duration::from_micros(20));
        let call = Call::from_name("post_send").expect("a call");
        let part = Part::Injection(Injection::call(call, slow).at(3));
        assert_eq!(texts(&part.smaller()), ["post_send:slow=10us@3"]);
        let status = Injection::completion(Operation::Send, CompletionFault::Lost).at(3);
        assert_eq!(Part::Injection(status).smaller(), []);
    }

    /// Shrinking ends, because there is no way back.
    #[test]
    fn smaller_parts_of_smaller_parts_come_to_an_end() {
        let mut part = late(50, 1, 10);
        for _ in 0..30 {
            match part.smaller().pop() {
                Some(smaller) => part = smaller,
                None => return,
            }
        }
        panic!("still at {part}");
    }
}
