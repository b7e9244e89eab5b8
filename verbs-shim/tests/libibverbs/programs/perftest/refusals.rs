//! Combinations that perftest itself refuses with any device, with its message.

use super::super::pair_for;
use super::super::place::Place;

/// Arguments, and the program's message about them.
const REFUSED: [(&str, &str); 17] = [
    (
        "ib_write_bw -c UD",
        "UD connection only possible in SEND verb",
    ),
    (
        "ib_write_lat -c UD",
        "UD connection only possible in SEND verb",
    ),
    (
        "ib_read_bw -c UD",
        "UD connection only possible in SEND verb",
    ),
    (
        "ib_atomic_bw -c UD",
        "UD connection only possible in SEND verb",
    ),
    (
        "ib_read_bw -c UC",
        "UC connection not possible in READ/ATOMIC verbs",
    ),
    (
        "ib_read_lat -c UC",
        "UC connection not possible in READ/ATOMIC verbs",
    ),
    (
        "ib_atomic_bw -c UC",
        "UC connection not possible in READ/ATOMIC verbs",
    ),
    (
        "ib_atomic_bw -a",
        "Message size cannot be changed for Atomic tests",
    ),
    (
        "ib_atomic_lat -a",
        "Message size cannot be changed for Atomic tests",
    ),
    (
        "ib_read_bw -I 64",
        "Inline feature not available on READ/Atomic verbs",
    ),
    (
        "ib_atomic_bw -I 64",
        "Inline feature not available on READ/Atomic verbs",
    ),
    (
        "ib_write_bw -e",
        "Events feature not available on WRITE verb",
    ),
    (
        "ib_write_lat -e",
        "Events feature not available on WRITE verb",
    ),
    (
        "ib_read_lat -b",
        "Bidirectional is only available in BW test",
    ),
    (
        "ib_atomic_lat -q 16",
        "Multiple QPs only available on bw tests",
    ),
    (
        "ib_send_lat -q 16",
        "Multiple QPs only available on bw tests",
    ),
    (
        "ib_write_bw --use-srq",
        "Using SRQ only avavilible in SEND tests",
    ),
];

#[test]
fn perftest_refuses_what_it_does_not_have() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    let place = Place::loopback(&pair.near);
    for (words, answer) in REFUSED {
        let (code, output) = place
            .start_alone(&format!("{words} -d DEVICE -x GID"))
            .end(words);
        assert!(
            code != Some(0) && output.contains(answer),
            "{words}: {code:?}: {output}"
        );
    }
}
