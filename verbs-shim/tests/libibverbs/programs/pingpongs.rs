//! rdma-core's pingpongs.

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::Pair;

use super::pair_for;
use super::place::Place;

/// Runs each pingpong, both polling and waiting on a completion channel (`-e`).
fn pingpongs(place: &Place<'_>) {
    let runs = [
        // 1,000 messages each; `-c` compares the bytes.
        ("ibv_rc_pingpong -c", "1000 iters"),
        ("ibv_rc_pingpong -c -e", "1000 iters"),
        ("ibv_rc_pingpong -c -o", "1000 iters"),
        ("ibv_uc_pingpong -c", "1000 iters"),
        ("ibv_uc_pingpong -e", "1000 iters"),
        ("ibv_ud_pingpong -c -s 1000", "1000 iters"),
        ("ibv_ud_pingpong -e -s 1000", "1000 iters"),
        ("ibv_srq_pingpong -c", "1000 iters"),
        ("ibv_srq_pingpong -e", "1000 iters"),
        // `-N` uses the extended API; `ibv_xsrq_pingpong` uses XRC.
        ("ibv_rc_pingpong -c -N", "1000 iters"),
        ("ibv_xsrq_pingpong", "success"),
        ("ibv_xsrq_pingpong -e", "success"),
    ];
    for (words, expected) in runs {
        let output = place.run(&format!("{words} -d DEVICE -g GID"), 18515);
        assert!(output.contains(expected), "{words}: {output}");
    }
}

#[test]
fn pingpongs_of_every_service() {
    if let Some(pair) = pair_for("ibv_rc_pingpong") {
        pingpongs(&Place::cable(&pair, "udp"));
    }
}

#[test]
fn pingpongs_of_every_service_over_af_xdp() {
    if let Some(pair) = pair_for("ibv_rc_pingpong") {
        pingpongs(&Place::cable(&pair, "xdp"));
    }
}

/// Two processes on one host with AF_XDP: each has an interface, and a cable joins the two.
#[test]
fn pingpongs_of_every_service_on_one_host_over_af_xdp() {
    if is_installed_or_skip("ibv_rc_pingpong")
        && let Some(pair) = Pair::on_one_host_or_skip(1500, 1)
    {
        pingpongs(&Place::cable(&pair, "xdp"));
    }
}

#[test]
fn pingpongs_of_every_service_on_one_host() {
    if let Some(pair) = pair_for("ibv_rc_pingpong") {
        pingpongs(&Place::loopback(&pair.near));
    }
}
