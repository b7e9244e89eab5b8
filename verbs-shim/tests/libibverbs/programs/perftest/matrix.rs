//! All combinations of services and options of perftest's programs.

use super::run::Choice::{
    Bidirectional, CompareAndSwap, Events, Inline, InlineByStructures, ManyQps, Srq,
};
use super::run::{Choice, Run};

/// A program, its services here, and its options with each.
struct Program {
    name: &'static str,
    services: &'static [&'static str],
    choices: &'static [Choice],
}

const PROGRAMS: [Program; 8] = [
    Program {
        name: "ib_write_bw",
        services: &["RC", "UC", "XRC"],
        choices: &[ManyQps, Bidirectional, Inline, InlineByStructures],
    },
    Program {
        name: "ib_write_lat",
        services: &["RC", "UC", "XRC"],
        choices: &[Inline, InlineByStructures],
    },
    Program {
        name: "ib_read_bw",
        services: &["RC", "XRC"],
        choices: &[ManyQps, Bidirectional, Events],
    },
    Program {
        name: "ib_read_lat",
        services: &["RC", "XRC"],
        choices: &[Events],
    },
    Program {
        name: "ib_send_bw",
        services: &["RC", "UC", "UD", "XRC"],
        choices: &[
            ManyQps,
            Bidirectional,
            Inline,
            InlineByStructures,
            Events,
            Srq,
        ],
    },
    Program {
        name: "ib_send_lat",
        services: &["RC", "UC", "UD", "XRC"],
        choices: &[Inline, InlineByStructures, Events, Srq],
    },
    Program {
        name: "ib_atomic_bw",
        services: &["RC", "XRC"],
        choices: &[CompareAndSwap, ManyQps, Bidirectional, Events],
    },
    Program {
        name: "ib_atomic_lat",
        services: &["RC", "XRC"],
        choices: &[CompareAndSwap, Events],
    },
];

/// Whether perftest supports a combination of service and options.
fn is_supported(service: &str, choices: &[Choice]) -> bool {
    // With XRC every receive queue is shared, without the option.
    let twice = choices.contains(&Srq) && service == "XRC";
    let both = choices.contains(&Inline) && choices.contains(&InlineByStructures);
    // perftest posts no more receives to a shared queue than one QP sends (`-n`), however many QPs
    // there are. With UC and UD, a message without a receive is lost, and perftest waits for ever.
    let starves =
        choices.contains(&Srq) && choices.contains(&ManyQps) && ["UC", "UD"].contains(&service);
    !twice && !both && !starves
}

/// All subsets of `choices` that are valid for a service.
fn subsets(service: &str, choices: &[Choice]) -> Vec<Vec<Choice>> {
    (0..1_u32 << choices.len())
        .map(|bits| {
            let chosen = choices.iter().enumerate();
            let chosen = chosen.filter(|(place, _)| bits & (1 << place) != 0);
            chosen.map(|(_, choice)| *choice).collect::<Vec<_>>()
        })
        .filter(|chosen| is_supported(service, chosen))
        .collect()
}

fn runs(choose: impl Fn(&str, &[Choice]) -> Vec<Vec<Choice>>, all_sizes: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    for program in &PROGRAMS {
        // perftest has one size of atomics.
        if all_sizes && program.name.starts_with("ib_atomic") {
            continue;
        }
        for service in program.services {
            runs.extend(
                choose(service, program.choices)
                    .into_iter()
                    .map(|choices| Run {
                        program: program.name,
                        service,
                        choices,
                        all_sizes,
                    }),
            );
        }
    }
    runs
}

/// Every program with every service and every set of its options.
pub(super) fn every_combination() -> Vec<Run> {
    runs(subsets, false)
}

/// Every program with every service, without options and with the most that can be combined.
pub(super) fn none_and_most() -> Vec<Run> {
    let choose = |service: &str, choices: &[Choice]| {
        let most = subsets(service, choices)
            .into_iter()
            .max_by_key(Vec::len)
            .unwrap_or_default();
        vec![Vec::new(), most]
    };
    runs(choose, false)
}

/// Every program with RC (which all support), with each of its options alone. With XRC, whose
/// inline data uses other calls, the inline option.
pub(super) fn each_option() -> Vec<Run> {
    let choose = |service: &str, choices: &[Choice]| match service {
        "RC" => choices.iter().map(|choice| vec![*choice]).collect(),
        "XRC" if choices.contains(&Inline) => vec![vec![Inline]],
        _ => Vec::new(),
    };
    runs(choose, false)
}

/// All sizes: every program with every service, without options and with each alone.
pub(super) fn every_size() -> Vec<Run> {
    let choose = |service: &str, choices: &[Choice]| {
        let mut chosen = subsets(service, choices);
        chosen.retain(|chosen| chosen.len() <= 1);
        chosen
    };
    runs(choose, true)
}

/// All sizes of every program and service, without options.
pub(super) fn every_size_plainly() -> Vec<Run> {
    runs(|_, _| vec![Vec::new()], true)
}
