//! Observes a test, so that the faults drawn for it are about calls and completions that it has.

use roce_verbs::faults::{
    Call, CallFault, CompletionFault, Faults, Injection, Operation, Target, When,
};
use std::time::Duration;

/// Completions that can be late.
const COMPLETIONS: [Operation; 5] = [
    Operation::Send,
    Operation::Recv,
    Operation::Write,
    Operation::Read,
    Operation::Atomic,
];

/// Calls that can be slow.
const CALLS: [&str; 12] = [
    "post_send",
    "post_recv",
    "post_srq_recv",
    "req_notify_cq",
    "reg_mr",
    "alloc_pd",
    "create_cq",
    "create_qp",
    "modify_qp",
    "rdma_accept",
    "rdma_connect",
    "rdma_get_cm_event",
];

/// Counts are known as powers of 4, up to this one.
const POWERS: u32 = 10;

/// The payload of a packet, roughly.
const PACKET_BYTES: u64 = 1024;

/// The kinds of calls and completions of a test, and roughly how many it has of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scouted {
    pub(super) calls: Vec<(Call, u64)>,
    pub(super) completions: Vec<(Operation, u64)>,
    bytes: u64,
}

/// Faults that change nothing, and are reported at the first match, the fourth, the 16th and so on.
pub(super) fn reporting() -> Faults {
    let calls = CALLS.iter().filter_map(|name| Call::from_name(name));
    let calls = calls.map(|call| Injection::call(call, CallFault::Slow(Duration::ZERO)));
    let late = CompletionFault::Late(Duration::ZERO);
    let completions = COMPLETIONS.map(|of| Injection::completion(of, late));
    let injections = calls.chain(completions);
    let each = injections.flat_map(|injection| {
        (0..=POWERS).map(move |power| injection.clone().at(1 << (2 * power)))
    });
    each.fold(Faults::new(), Faults::inject)
}

impl Scouted {
    /// From what the library has printed about [`reporting`], and the payload that was sent.
    pub(super) fn of(stderr: &str, bytes: u64) -> Self {
        let mut found = Self {
            bytes,
            ..Self::default()
        };
        let texts = stderr
            .lines()
            .filter_map(|line| line.strip_prefix("roce: fault: "));
        let faults = texts.filter_map(|text| text.parse::<Faults>().ok());
        for injection in faults.flat_map(|faults| faults.injections().to_vec()) {
            let When::Matches { first, .. } = injection.when else {
                continue;
            };
            match injection.what {
                Target::Call(call, _) => note(&mut found.calls, call, first),
                Target::Completion(of, _) => note(&mut found.completions, of, first),
                _ => {}
            }
        }
        // Which one was reported first is chance, and the same seed must draw the same faults.
        let place = |call: Call| CALLS.iter().position(|name| *name == call.name());
        found.calls.sort_by_key(|(call, _)| place(*call));
        let place = |of: Operation| COMPLETIONS.iter().position(|known| *known == of);
        found.completions.sort_by_key(|(of, _)| place(*of));
        found
    }

    /// The completions of all kinds.
    pub(super) fn all_completions(&self) -> u64 {
        self.completions.iter().map(|(_, count)| count).sum()
    }

    /// The packets, roughly.
    pub(super) fn packets(&self) -> u64 {
        (self.bytes / PACKET_BYTES).max(self.all_completions())
    }
}

/// Several processes report on their own; the one that does most counts.
fn note<T: PartialEq>(counts: &mut Vec<(T, u64)>, what: T, count: u64) {
    match counts.iter_mut().find(|(known, _)| *known == what) {
        Some((_, known)) => *known = count.max(*known),
        None => counts.push((what, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_injections_are_valid_and_change_nothing() {
        let faults = reporting();
        assert_eq!(faults.to_string().parse::<Faults>().as_ref(), Ok(&faults));
        assert_eq!(faults.injections().len(), 17 * 11);
        assert!(faults.network().is_faultless());
        let text = faults.to_string();
        assert!(text.contains(",post_send:slow=0s@16,"), "{text}");
        assert!(text.contains(",recv:late=0s@1048576"), "{text}");
    }

    #[test]
    fn counts_are_read_from_the_reports_of_all_processes() {
        let stderr = "hello\n\
            roce: faults: send:late=0s@1,send:late=0s@4\n\
            roce: fault: recv:late=0s@1\n\
            roce: fault: send:late=0s@1\n\
            roce: fault: send:late=0s@4\n\
            roce: fault: post_send:slow=0s@1\n\
            roce: fault: send:late=0s@1\n\
            roce: fault: recv:late=0s@16\n\
            roce: fault: not:one\n";
        let found = Scouted::of(stderr, 5000);
        assert_eq!(
            found.completions,
            [(Operation::Send, 4), (Operation::Recv, 16)]
        );
        assert_eq!(
            found.calls,
            [(Call::from_name("post_send").expect("a call"), 1)]
        );
        assert_eq!((found.all_completions(), found.packets()), (20, 20));
        assert_eq!(Scouted::of(stderr, 1 << 20).packets(), 1024);
        assert_eq!(Scouted::of("", 0), Scouted::default());
    }
}
