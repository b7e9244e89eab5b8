//! Operations of all kinds and sizes, many outstanding at a time, in both directions.

use super::{End, pattern};
use crate::peer::{Completion, Operation};

/// Requests that each end has outstanding at a time.
const BATCH: u32 = 8;
/// Bytes of a slot. Each request has one in either region: in the first half for its source or
/// result, in the second half for its target.
const SLOT: u32 = 64 << 10;
const SOURCES: u32 = 0;
const TARGETS: u32 = BATCH * SLOT;
/// Bytes at the end of a slot that must not change.
const GUARD: u32 = 64;
/// The `wr_id` of the receive of slot 0.
const RECEIVES: u64 = 1000;

/// The length of the regions that [`run`] needs.
pub const REGION: u32 = 2 * BATCH * SLOT;

/// A request and its expected effect.
struct Planned {
    slot: u32,
    operation: Operation,
    length: u32,
    /// The target's bytes before the request, and the source's.
    there: Vec<u8>,
    here: Vec<u8>,
}

/// Moves data in both directions until `requests` requests of each end have completed, and checks
/// each completion and each byte. The same seed generates the same requests.
///
/// # Panics
/// If a completion or a byte is wrong.
pub fn run(one: &mut dyn End, two: &mut dyn End, requests: u32, seed: u64) {
    let mut random = Random(seed);
    let mut left = requests;
    while left > 0 {
        let count = left.min(BATCH);
        left -= count;
        let of_one = plan(&mut random, two, count);
        let of_two = plan(&mut random, one, count);
        prepare(one, &of_one, &of_two);
        prepare(two, &of_two, &of_one);
        post(one, &of_one);
        post(two, &of_two);
        check_completions(one, &of_one, &of_two);
        check_completions(two, &of_two, &of_one);
        check_memory(one, &of_one, &of_two);
        check_memory(two, &of_two, &of_one);
    }
}

/// Generates requests whose target is `to`.
fn plan(random: &mut Random, to: &dyn End, count: u32) -> Vec<Planned> {
    let one = |slot| {
        let (addr, rkey) = to.remote(TARGETS + slot * SLOT);
        let imm = random.next();
        let operation = match random.below(7) {
            0 => Operation::Send,
            1 => Operation::SendImm { imm },
            2 => Operation::Write { addr, rkey },
            3 => Operation::WriteImm { addr, rkey, imm },
            4 => Operation::Read { addr, rkey },
            5 => Operation::FetchAdd {
                addr,
                rkey,
                add: imm.into(),
            },
            _ => Operation::CompareSwap {
                addr,
                rkey,
                compare: 0,
                swap: imm.into(),
            },
        };
        let length = match (is_atomic(&operation), random.below(4)) {
            (true, _) => 8,
            (false, 0) => random.below(10),
            (false, 1) => random.below(3000),
            (false, _) => random.below(40_000),
        };
        Planned {
            slot,
            operation,
            length,
            there: pattern(length + GUARD, random.next()),
            here: pattern(length + GUARD, random.next()),
        }
    };
    (0..count).map(one).collect()
}

/// Fills an end's memory for its own requests and for those of the other end, and posts the
/// receives that the latter need.
fn prepare(end: &mut dyn End, own: &[Planned], others: &[Planned]) {
    for planned in own {
        end.write_memory(SOURCES + planned.slot * SLOT, &planned.here);
    }
    for planned in others {
        let slot = TARGETS + planned.slot * SLOT;
        end.write_memory(slot, &planned.there);
        if consumes_receive(&planned.operation) {
            end.receive(RECEIVES + u64::from(planned.slot), &[(slot, SLOT)]);
        }
    }
}

fn post(end: &mut dyn End, own: &[Planned]) {
    for planned in own {
        let part = [(SOURCES + planned.slot * SLOT, planned.length)];
        let parts = if planned.length == 0 { &[] } else { &part[..] };
        end.post(planned.slot.into(), planned.operation, parts);
    }
}

/// Checks that all requests succeed, those of each queue in the order of posting.
fn check_completions(end: &mut dyn End, own: &[Planned], others: &[Planned]) {
    let received: Vec<&Planned> = others
        .iter()
        .filter(|planned| consumes_receive(&planned.operation))
        .collect();
    let all = end.completions(own.len() + received.len());
    let (receives, sends): (Vec<_>, Vec<_>) = all.into_iter().partition(|c| c.wr_id >= RECEIVES);
    let name = end.name();
    for (planned, done) in own.iter().zip(&sends) {
        assert!(
            done.is_success(),
            "{name}: {:?}: {done:?}",
            planned.operation
        );
        assert_eq!(done.wr_id, u64::from(planned.slot), "{name}: {sends:?}");
    }
    for (planned, done) in received.into_iter().zip(&receives) {
        check_receive(name, planned, done);
    }
}

fn check_receive(name: &str, planned: &Planned, done: &Completion) {
    assert!(
        done.is_success(),
        "{name}: {:?}: {done:?}",
        planned.operation
    );
    let imm = match planned.operation {
        Operation::SendImm { imm } | Operation::WriteImm { imm, .. } => Some(imm),
        _ => None,
    };
    assert_eq!(
        (done.wr_id - RECEIVES, done.byte_len, done.imm),
        (planned.slot.into(), planned.length, imm),
        "{name}: {done:?} of {:?}",
        planned.operation
    );
}

/// Checks the contents of each slot of an end, for its own requests and for those of the other end.
fn check_memory(end: &mut dyn End, own: &[Planned], others: &[Planned]) {
    let memory = end.read_memory(0, REGION);
    let name = end.name();
    let check = |at: u32, expected: &[u8], planned: &Planned| {
        let found = &memory[at as usize..][..expected.len()];
        let wrong = (0..expected.len()).find(|&i| found[i] != expected[i]);
        let Planned {
            operation, length, ..
        } = planned;
        assert_eq!(
            wrong, None,
            "first wrong byte in the memory of {name}, of {length} of {operation:?}"
        );
    };
    for planned in own {
        let mut here = planned.here.clone();
        if fetches(&planned.operation) {
            let length = planned.length as usize;
            here[..length].copy_from_slice(&planned.there[..length]);
        }
        check(SOURCES + planned.slot * SLOT, &here, planned);
    }
    for planned in others {
        check(
            TARGETS + planned.slot * SLOT,
            &target_after(planned),
            planned,
        );
    }
}

/// The expected bytes of the target after the request.
fn target_after(planned: &Planned) -> Vec<u8> {
    let mut there = planned.there.clone();
    let length = planned.length as usize;
    let word = |there: &[u8]| u64::from_ne_bytes(there[..8].try_into().expect("eight bytes"));
    match planned.operation {
        Operation::Read { .. } => {}
        Operation::FetchAdd { add, .. } => {
            let sum = word(&there).wrapping_add(add);
            there[..8].copy_from_slice(&sum.to_ne_bytes());
        }
        Operation::CompareSwap { compare, swap, .. } => {
            if word(&there) == compare {
                there[..8].copy_from_slice(&swap.to_ne_bytes());
            }
        }
        _ => there[..length].copy_from_slice(&planned.here[..length]),
    }
    there
}

fn consumes_receive(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Send | Operation::SendImm { .. } | Operation::WriteImm { .. }
    )
}

fn fetches(operation: &Operation) -> bool {
    matches!(operation, Operation::Read { .. }) || is_atomic(operation)
}

fn is_atomic(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::FetchAdd { .. } | Operation::CompareSwap { .. }
    )
}

/// Reproducible numbers: Knuth's linear congruential generator, its upper half.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// A number from 0 to `bound` - 1.
    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(bound)) >> 32) as u32
    }
}
