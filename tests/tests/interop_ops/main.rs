//! This stack and the kernel's Soft-RoCE move data to each other with every RC
//! operation, each as initiator and as target.

use roce_tests::ends::{End, Options, connect, pattern};
use roce_tests::lab::Lab;
use roce_tests::peer::Operation;

fn write(from: &mut dyn End, to: &mut dyn End) {
    let bytes = pattern(5, 1);
    from.write_memory(0, &bytes);
    let (addr, rkey) = to.remote(100);
    from.post(1, Operation::Write { addr, rkey }, &[(0, 5)]);
    let done = from.completion();
    assert!(done.is_success(), "{done:?}");
    assert_eq!(to.read_memory(100, 5), bytes);
}

#[test]
fn thin() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &Options::default());
    write(&mut ours, &mut theirs);
    write(&mut theirs, &mut ours);
}
