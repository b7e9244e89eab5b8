//! This stack and the kernel's Soft-RoCE move data to each other with every RC
//! operation, each as initiator and as target.

mod capture;
mod data;
mod keys;
mod windows;

use roce_tests::ends::{End, Ours, Theirs};
use roce_tests::peer::{Completion, Operation};

/// Bytes around the written ones that are checked to be unchanged.
const GUARD: u32 = 64;

/// Offset of the initiator's bytes in its region, and of their destination in the target's.
const HERE: u32 = 4096 + 3;
const THERE: u32 = 128 + 5;

/// Runs a test with this stack as the initiator, then as the target.
fn both_ways(ours: &mut Ours, theirs: &mut Theirs, test: impl Fn(&mut dyn End, &mut dyn End)) {
    test(ours, theirs);
    test(theirs, ours);
}

/// Posts a request, of one element or of none, and waits until it is done.
fn run(end: &mut dyn End, operation: Operation, offset: u32, length: u32) -> Completion {
    let parts = [(offset, length)];
    let parts = if length == 0 { &[] } else { &parts[..] };
    end.post(7, operation, parts);
    let done = end.completion();
    assert_eq!(done.wr_id, 7, "{done:?} of {}", end.name());
    done
}

#[track_caller]
fn assert_success(completion: &Completion, opcode: &str) {
    assert!(completion.is_success(), "{completion:?}");
    assert_eq!(completion.opcode.as_deref(), Some(opcode), "{completion:?}");
}

/// Bytes of a region whose changes are checked, with guards around them.
struct Watched {
    offset: u32,
    before: Vec<u8>,
}

impl Watched {
    /// Fills `length` bytes and the guards around them with a pattern.
    fn new(end: &mut dyn End, offset: u32, length: u32) -> Self {
        let before = vec![0xa5; (length + 2 * GUARD) as usize];
        end.write_memory(offset - GUARD, &before);
        Self { offset, before }
    }

    /// Checks that the bytes equal these, and that the guards are unchanged.
    #[track_caller]
    fn assert_holds(self, end: &mut dyn End, expected: &[u8]) {
        let mut whole = self.before;
        let guard = GUARD as usize;
        whole[guard..guard + expected.len()].copy_from_slice(expected);
        let found = end.read_memory(self.offset - GUARD, whole.len() as u32);
        let wrong = (0..whole.len()).find(|&i| whole[i] != found[i]);
        let name = end.name();
        assert_eq!(
            wrong.map(|i| i as i64 - i64::from(GUARD)),
            None,
            "first wrong byte, of {} in the memory of {name}",
            expected.len()
        );
    }
}
