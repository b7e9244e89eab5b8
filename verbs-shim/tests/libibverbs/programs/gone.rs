//! Programs whose peers are killed, on one host and on two.

use std::path::Path;
use std::process::Command;

use roce_tests::programs::{compiled_or_skip, compiles_rdmacm_or_skip, is_installed_or_skip};
use roce_tests::veth::Pair;

use super::cm::TCP;
use super::pair_for;
use super::place::{CommandLine, Place};
use super::process::Process;

/// The command lines of `rping`. The server keeps serving further clients.
fn rping() -> CommandLine {
    CommandLine {
        words: "stdbuf -oL rping -v -a HOST".to_owned(),
        role_args: ["-s -P", "-c"].map(str::to_owned),
        ..CommandLine::default()
    }
}

const SERVICE: u32 = TCP << 16 | 7174;

/// Starts both ends of `rping`, and returns once messages flow in both directions.
fn start(place: &Place<'_>) -> [Process; 2] {
    let ends = place.start_served(&rping(), SERVICE);
    for end in &ends {
        end.wait_for_line("ping data: rdma-ping-");
    }
    ends
}

#[test]
fn a_program_notices_that_its_peer_on_this_host_is_killed() {
    let Some(pair) = pair_for("rping") else {
        return;
    };
    let place = Place::loopback(&pair.near);
    let [server, client] = start(&place);
    drop(client);
    server.wait_for_line("server DISCONNECT EVENT");
    // The server serves the next client.
    let client = place.client(&rping());
    client.wait_for_line("ping data: rdma-ping-");
    drop(server);
    client.wait_for_line("client DISCONNECT EVENT");
}

/// The connection is idle, so no retransmission detects that the peer is gone. Only the ICMP "port
/// unreachable" from its host does.
#[test]
fn a_program_notices_that_its_peer_on_another_host_is_killed() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    if !compiles_rdmacm_or_skip() {
        return;
    }
    let Some(program) = compiled_or_skip("verbs-shim/tests/libibverbs/idle.c") else {
        return;
    };
    let place = Place::cable(&pair, "udp");
    let words = CommandLine {
        words: program.display().to_string(),
        role_args: ["server HOST", "client HOST"].map(str::to_owned),
        ..CommandLine::default()
    };
    for kills_server in [false, true] {
        let [server, client] = place.start_served(&words, TCP << 16 | 7471);
        for end in [&server, &client] {
            end.wait_for_line("connected");
        }
        let (killed, other) = match kills_server {
            true => (server, client),
            false => (client, server),
        };
        drop(killed);
        other.wait_for_line("disconnected");
        other.finish("the end that lives");
    }
    // A leftover file does no harm: a later run overwrites it.
    let _ = std::fs::remove_file(&program);
}

/// A host sends forged ICMP "port unreachable" messages in the peer's name. The peer is probed and
/// responds, so the connection stays.
#[test]
fn forged_messages_end_no_connection() {
    let Some(pair) = pair_for("rping") else {
        return;
    };
    if !is_installed_or_skip("python3") {
        return;
    }
    let place = Place::cable(&pair, "udp");
    let [server, mut client] = start(&place);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libibverbs/programs/forge.py");
    let mut attack: Command = pair.far.command("python3");
    attack.arg(script).arg(client.id().to_string());
    attack.args([&pair.near, &pair.far].map(|end| end.ip4.to_string()));
    let output = Process::spawn(attack).finish("forge.py");
    assert!(output.contains("it was asked"), "{output}");
    assert!(client.is_running(), "it has ended");
    // Messages still flow in both directions.
    server.discard_lines();
    server.wait_for_line("ping data: rdma-ping-");
}
