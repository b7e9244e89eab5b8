//! The programs of rdmacm-utils, which find their peers by address and port.

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::Pair;

use super::pair_for;
use super::place::{CommandLine, Place};

/// Port spaces (`RDMA_PS_*`).
pub(super) const TCP: u32 = 0x0106;
const UDP: u32 = 0x0111;
const IB: u32 = 0x013f;

/// A program and its peer.
struct Run {
    /// The command line of both, and what is appended for the server and for the client.
    words: &'static str,
    role_args: [&'static str; 2],
    /// The port space and the port at which the server listens.
    space: u32,
    port: u32,
    /// Text in the client's output.
    expected: &'static str,
}

const RUNS: [Run; 6] = [
    // Messages, READs and WRITEs, each compared.
    Run {
        words: "rping -v -V -C 10 -S 1000 -a HOST",
        role_args: ["-s", "-c"],
        space: TCP,
        port: 7174,
        expected: "ping data: rdma-ping-9",
    },
    Run {
        words: "ucmatose -c 3 -C 5 -S 500",
        role_args: ["-b HOST", "-s HOST"],
        space: TCP,
        port: 7471,
        expected: "return status 0",
    },
    Run {
        words: "udaddy -c 3 -C 5 -S 500",
        role_args: ["-b HOST", "-s HOST"],
        space: UDP,
        port: 7174,
        expected: "return status 0",
    },
    Run {
        words: "",
        role_args: ["rdma_server", "rdma_client -s HOST"],
        space: TCP,
        port: 7471,
        expected: "rdma_client: end 0",
    },
    Run {
        words: "",
        role_args: ["rdma_xserver -c r", "rdma_xclient -c r -s HOST"],
        space: TCP,
        port: 7471,
        expected: "rdma_xclient: end 0",
    },
    Run {
        words: "",
        role_args: ["rdma_xserver -c x", "rdma_xclient -c x -s HOST"],
        space: IB,
        port: 7471,
        expected: "rdma_xclient: end 0",
    },
];

#[test]
fn programs_connect_by_address_and_port() {
    let Some(pair) = pair_for("rping") else {
        return;
    };
    let place = Place::loopback(&pair.near);
    for run in RUNS {
        let words = CommandLine {
            words: run.words.to_owned(),
            role_args: run.role_args.map(str::to_owned),
            ..CommandLine::default()
        };
        let output = place.run_served(&words, run.space << 16 | run.port);
        assert!(output.contains(run.expected), "{words:?}: {output}");
    }
}

/// Two interfaces of one host that a cable joins, each with a process over AF_XDP. The client
/// also names its own address.
#[test]
fn programs_connect_by_address_and_port_on_one_host_over_af_xdp() {
    if !is_installed_or_skip("rping") {
        return;
    }
    let Some(pair) = Pair::on_one_host_or_skip(1500, 1) else {
        return;
    };
    let place = Place::cable(&pair, "xdp");
    let from = [" -I ", " -b ", " -b "].map(|option| format!("{option}{}", pair.near.ip4));
    for (run, from) in RUNS.iter().zip(from) {
        let [server, client] = run.role_args.map(str::to_owned);
        let words = CommandLine {
            words: run.words.to_owned(),
            role_args: [server, client + &from],
            ..CommandLine::default()
        };
        let output = place.run_served(&words, run.space << 16 | run.port);
        assert!(output.contains(run.expected), "{words:?}: {output}");
    }
    multicast(&place, &pair.near.ip4.to_string());
}

#[test]
fn programs_send_to_multicast_groups() {
    if let Some(pair) = pair_for("mckey") {
        multicast(&Place::loopback(&pair.near), "HOST");
    }
}

/// Sends datagrams from the address `from` to a group that another program of the host has joined.
fn multicast(place: &Place<'_>, from: &str) {
    let receiver = place.start_alone("stdbuf -oL mckey -m 230.1.2.3 -b HOST -C 10");
    // mckey pauses after joining, so that switches can learn the group.
    receiver.wait_for_line("joined dgid");
    let sender = place.start_alone(&format!("mckey -m 230.1.2.3 -b {from} -s -C 10"));
    for end in [sender, receiver] {
        let output = end.finish("mckey");
        assert!(output.contains("return status 0"), "{output}");
    }
}

/// libfabric binds an ID to a loopback address, and keeps only the device that this ID has. It
/// appends its own entries to the list of `rdma_getaddrinfo` before it frees the list.
#[test]
fn libfabric_finds_the_device_of_each_interface_with_an_address() {
    let Some(pair) = pair_for("fi_info") else {
        return;
    };
    let place = Place::loopback(&pair.near);
    let output = place
        .start_alone("fi_info -p verbs -t FI_EP_MSG")
        .finish("fi_info");
    let device = format!("domain: roce_{}\n", pair.near.interface);
    assert!(output.contains(&device), "{output}");
}
