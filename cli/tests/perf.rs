//! `roce perf` as a user runs it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn roce(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(args)
        .output()
        .expect("the command starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Without an option, packets take both ways by turns.
#[test]
fn two_processes_move_data_with_every_operation() {
    let output = roce(&[
        "perf",
        "--json",
        "--size",
        "2,4096,1048576",
        "--duration",
        "20",
        "--iterations",
        "50",
        "--seed",
        "5",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ways = json["ways"].as_array().expect("ways");
    for (way, over) in ways.iter().zip(["lane", "sockets"]) {
        assert_eq!(way["seed"], 5);
        let counters = &way["port_counters"];
        let (all, by_lane) = (&counters["tx_packets"], &counters["tx_lane_packets"]);
        match over {
            "lane" => assert_eq!(by_lane, all, "{way}"),
            _ => assert_eq!(
                (by_lane.as_u64(), all.as_u64() > Some(0)),
                (None, true),
                "{way}"
            ),
        }
        check_rows(way["rows"].as_array().expect("rows"), over);
    }
    assert_eq!(ways.len(), 2);
}

fn check_rows(rows: &[serde_json::Value], over: &str) {
    let of = |op: &str| -> Vec<u64> {
        let rows = rows.iter().filter(|row| row["op"] == op);
        rows.filter_map(|row| row["size_bytes"].as_u64()).collect()
    };
    for op in ["send", "write", "read"] {
        assert_eq!(of(op), [2, 4096, 1 << 20], "{op}");
    }
    for op in ["cas", "fadd"] {
        assert_eq!(of(op), [8], "{op}");
    }
    for row in rows {
        assert_eq!(row["over"], over, "{row}");
        for figure in ["bits_per_second", "messages_per_second", "latency_p50_us"] {
            assert!(row[figure].as_f64() > Some(0.0), "{figure} of {row}");
        }
        assert!(
            row["latency_p50_us"].as_f64() <= row["latency_p999_us"].as_f64(),
            "{row}"
        );
        // Three check rounds of at least one message, and the timed one.
        let least = 4 * row["size_bytes"].as_u64().expect("a size");
        assert!(row["verified_bytes"].as_u64() >= Some(least), "{row}");
    }
}

/// Server and client share UDP port 4791.
#[test]
fn both_ends_may_be_at_one_address() {
    // Unique to this process: derived from the process ID.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{low}.77", 64 | (high & 63));
    let mut server = Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(["perf", "--once", "--port", "0", "--server", &address])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    let port = line.trim().rsplit(' ').next().expect("a port");
    let short = [
        "--size",
        "64,65536",
        "--duration",
        "20",
        "--iterations",
        "50",
    ];
    let ends = [
        "perf", "--json", &address, "--bind", &address, "--port", port,
    ];
    let output = roce(&[&ends[..], &short].concat());
    let ended = server.kill().and_then(|()| server.wait());
    assert!(output.status.success(), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    assert!(rows.len() >= 8, "{json}");
    for row in rows {
        assert!(row["verified_bytes"].as_u64() > Some(0), "{row}");
    }
    ended.expect("it was ours");
}

/// For users who test a switch's configuration.
#[test]
fn what_the_network_did_is_shown() {
    let options = [
        "perf",
        "--over",
        "sockets",
        "--op",
        "send",
        "--size",
        "4096",
        "--duration",
        "50",
        "-n",
        "200",
    ];
    let run = |json: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_roce"))
            .args(options)
            .args(json)
            .env("ROCE_QOS", "default_roce_tos=104")
            .env("ROCE_FAULTS", "corrupt=5%,seed=3")
            .output()
            .expect("the command starts");
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
    assert_eq!(json["dscp"], 26, "{json}");
    // Acknowledgements arrive with a wrong ICRC, and are distinguished from other drops.
    let drops = json["drops"].as_object().expect("reasons");
    assert!(drops["bad_icrc"].as_u64() > Some(0), "{json}");
    let sum: u64 = drops.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(json["dropped"], sum, "{json}");
    for counted in ["ecn_marked", "cnps_sent", "cnps_received"] {
        assert_eq!(json[counted], 0, "nothing marks on the loopback: {json}");
    }
    let text = run(&[]);
    assert!(
        text.contains("DSCP 26; 0 packets came with an ECN mark, 0 CNPs sent"),
        "{text}"
    );
    assert!(text.contains(" bad icrc"), "{text}");
}

#[test]
fn the_table_has_a_line_for_each_case() {
    let output = roce(&[
        "perf",
        "--op",
        "write,fadd",
        "--size",
        "64",
        "--duration",
        "10",
        "--iterations",
        "10",
        "--mtu",
        "256",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("path MTU 256"), "{text}");
    assert!(
        text.contains("RC over a lane (shared memory) and UDP sockets"),
        "{text}"
    );
    for (line, count) in [
        ("operation", 1),
        ("WRITE ", 2),
        ("FETCH_ADD ", 2),
        (" lane   ", 2),
        (" sockets ", 2),
    ] {
        assert_eq!(text.matches(line).count(), count, "{line}: {text}");
    }
    assert_eq!(text.lines().nth(1).map(str::len), Some(80), "{text}");
}

/// `--over` picks a way, and says why it can't be had.
#[test]
fn a_way_can_be_picked() {
    let short = [
        "--size",
        "64",
        "--op",
        "write",
        "--duration",
        "5",
        "-n",
        "10",
    ];
    let over = |way: &str, lanes: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roce"));
        command.args(["perf", "--json", "--over", way]).args(short);
        command
            .env("ROCE_LOCAL", lanes)
            .output()
            .expect("it starts")
    };
    for (way, lanes) in [("lane", "auto"), ("sockets", "auto"), ("sockets", "off")] {
        let output = over(way, lanes);
        assert!(output.status.success(), "{}", stderr(&output));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = json["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 1, "{json}");
        assert_eq!(rows[0]["over"], way, "{json}");
    }
    let refused = over("lane", "off");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("ROCE_LOCAL=off"), "{refused:?}");
}

/// With `--signal-every`, one completion stands for several messages, and the bytes of each are
/// compared.
#[test]
fn one_completion_covers_several_messages() {
    for (every, depth) in [("3", "8"), ("8", "8"), ("64", "100")] {
        let output = roce(&[
            "perf",
            "--size",
            "8,5000",
            "--duration",
            "10",
            "--iterations",
            "100",
            "--signal-every",
            every,
            "--depth",
            depth,
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

/// An end that waits for a message by polling its memory must not mistake leftovers of the previous
/// phase for it. With these seeds the leftover in the first slot ends with the byte that the first
/// message ends with. Usually both sides then waited for each other.
#[test]
fn stale_memory_is_not_an_answer() {
    for seed in ["277", "675", "682", "1009"] {
        let args = ["--op", "write", "--size", "8", "--iterations", "100"];
        let args = [&["perf", "--duration", "1", "--seed", seed], &args[..]].concat();
        let output = roce(&args);
        assert!(output.status.success(), "{seed}: {}", stderr(&output));
    }
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    for (args, right) in [
        (
            &["perf", "--mtu", "1500"][..],
            "256, 512, 1024, 2048 or 4096",
        ),
        (&["perf", "--size", "0"], "1 to"),
        (&["perf", "--depth", "0"], "1 to 1024"),
        (&["perf", "--signal-every", "0"], "1 to 64"),
        (
            &["perf", "--signal-every", "9", "--depth", "8"],
            "1 to 8, with --depth 8",
        ),
        (&["perf", "--op", "frob"], "send"),
        (&["perf", "--server"], "address"),
        (&["perf", "--server", "nowhere"], "IP address"),
    ] {
        let output = roce(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains(right), "{args:?}: {said}");
    }
}

#[test]
fn a_peer_that_is_not_there_is_named() {
    // An address of the loopback network without a listener.
    let output = roce(&["perf", "127.251.3.9", "--port", "18599"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("127.251.3.9"),
        "{}",
        stderr(&output)
    );
}

/// In a new network namespace, the loopback interface is down.
#[test]
fn a_loopback_interface_that_is_down_is_named() {
    let in_namespace = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net"]);
        command.args(args).output()
    };
    if !in_namespace(&["true"]).is_ok_and(|output| output.status.success()) {
        testkit::skip("user namespaces", "");
        return;
    }
    for address in [None, Some("127.0.0.1")] {
        let mut args = vec![env!("CARGO_BIN_EXE_roce"), "perf"];
        args.extend(address);
        let output = in_namespace(&args).expect("the command starts");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("`ip link set lo up`"), "{error}");
        assert!(!error.contains("--server"), "{error}");
    }
}
