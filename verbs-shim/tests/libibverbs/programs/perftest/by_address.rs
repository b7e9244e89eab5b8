//! perftest's programs with `-R`: they find their peers by address and port.
//!
//! They connect twice. The server does not listen between the two connections, and the client does
//! not wait before the second.

use super::super::cm::TCP;
use super::super::pair_for;
use super::super::place::{CommandLine, Place};
use super::run::{PORT, table};

/// The command, and the size and number of the messages in its table.
type Run = (&'static str, u64, u64);

fn check(place: &Place<'_>, runs: &[Run]) {
    for &(words, size, messages) in runs {
        let words = CommandLine {
            words: format!("{words} -R -n 20 -F -d DEVICE -x GID"),
            role_args: ["", "HOST"].map(str::to_owned),
            ..CommandLine::default()
        };
        let output = place.run_served(&words, TCP << 16 | u32::from(PORT));
        assert!(output.contains("rdma_cm QPs\t : ON"), "{words:?}: {output}");
        assert_eq!(table(&output), [(size, messages)], "{words:?}: {output}");
    }
}

#[test]
fn perftest_finds_its_peer_by_address_and_port() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    let between = [("ib_write_bw", 1 << 16, 20), ("ib_send_lat", 2, 20)];
    check(&Place::cable(&pair, "udp"), &between);
    let on_one_host = [
        ("ib_read_bw -q 16", 1 << 16, 320),
        ("ib_send_bw -c UD", 4096, 20),
    ];
    check(&Place::loopback(&pair.near), &on_one_host);
}
