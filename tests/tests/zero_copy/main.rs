//! AF_XDP with zero-copy: a guest whose driver supports it (virtio_net of a newer kernel), and
//! sockets outside.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use roce_tests::lab::{Flavour, GUEST_IP4, GuestCommand, HOST_IP4, Lab, LabConfig};
use roce_tests::programs;
use serde_json::Value;

/// Longer than any step takes, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Small messages, one of several packets, and one whose size is not a multiple of the MTU.
const SHORT: &[&str] = &[
    "--json",
    "--seed",
    "1",
    "--size",
    "8,5000,65536",
    "--duration",
    "20",
    "--iterations",
    "20",
    "--depth",
    "16",
];

/// Counters of lost frames and of lost or invalid descriptors.
const LOSSES: &[&str] = &[
    "kernel_rx_dropped",
    "kernel_rx_invalid_descs",
    "kernel_tx_invalid_descs",
    "kernel_rx_ring_full",
    "rx_foreign_address",
    "rx_chunk_not_owned",
    "rx_piece_too_long",
    "rx_too_many_pieces",
    "rx_too_long",
    "tx_ring_full",
    "tx_bad_completions",
];

fn boot() -> Option<Lab> {
    Lab::boot_or_skip(&LabConfig {
        flavour: Flavour::ZeroCopy,
        memory_mib: 768,
        boot_timeout: TIMEOUT,
        ..LabConfig::default()
    })
}

/// Our own command in the guest.
fn roce(lab: &Lab, arguments: &[&str]) -> GuestCommand {
    let program = programs::roce().canonicalize().expect("it was built");
    lab.guest([lab.guest_path(&program)]).args(
        &arguments
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
    )
}

/// The output of a shell command in the guest.
fn shell(lab: &Lab, script: &str) -> String {
    let output = lab.guest(["sh", "-c", script]).output(TIMEOUT).unwrap();
    output.success().unwrap().stdout_text()
}

/// A server outside, killed when this value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls do nothing if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the guest serve one client outside. Returns the client's report and the server's.
fn serve_in_guest(lab: &Lab, environment: &[(&str, &str)]) -> (Value, Value) {
    let address = GUEST_IP4.to_string();
    let arguments = ["perf", "--once", "--json", "--server", &address];
    let mut server = environment
        .iter()
        .fold(roce(lab, &arguments), |command, (name, value)| {
            command.env(name, value)
        })
        .spawn()
        .unwrap();
    server.wait_for_line("listening", TIMEOUT).unwrap();
    let output = lab
        .host_command(programs::roce())
        .env("ROCE_DATAPATH", "udp")
        .arg("perf")
        .args(SHORT)
        .arg(&address)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let client = serde_json::from_slice(&output.stdout).expect("JSON");
    let said = server.wait(TIMEOUT).unwrap().success().unwrap();
    let said = said.stdout_text();
    let line = said.lines().last().expect("a line");
    (client, serde_json::from_str(line).expect("JSON"))
}

/// Makes the guest the client of a server outside. Returns the client's report.
fn serve_outside(lab: &Lab, environment: &[(&str, &str)]) -> Value {
    let address = HOST_IP4.to_string();
    let mut server = lab
        .host_command(programs::roce())
        .env("ROCE_DATAPATH", "udp")
        .args(["perf", "--once", "--server", &address])
        .stdout(Stdio::piped())
        .spawn()
        .map(Server)
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(server.0.stdout.take().expect("piped"));
    output.read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let client = roce(lab, &[&["perf"], SHORT, &[address.as_str()]].concat());
    let client = environment
        .iter()
        .fold(client, |command, (name, value)| command.env(name, value));
    let output = client.output(TIMEOUT).unwrap().success().unwrap();
    assert!(server.0.wait().unwrap().success());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The least number of packets for the bytes that were compared according to a client's report.
fn packets(client: &Value, operations: &[&str]) -> u64 {
    let path_mtu = client["path_mtu"].as_u64().expect("a number");
    let rows = client["rows"].as_array().expect("rows");
    // Three operations of three sizes, and two atomics.
    assert_eq!(rows.len(), 11);
    let bytes: u64 = rows
        .iter()
        .filter(|row| operations.iter().any(|&name| row["op"] == name))
        .map(|row| row["verified_bytes"].as_u64().expect("a number"))
        .sum();
    assert!(bytes > 0, "nothing of {operations:?} was compared");
    bytes / path_mtu
}

/// Checks that the end with this report sent and received at least `packets` packets by its rings,
/// which share memory with the driver, and lost none.
#[track_caller]
fn assert_went_by_the_rings(report: &Value, sent: u64, received: u64) {
    assert_eq!(report["datapath"], "xdp", "{report}");
    assert_eq!(report["zero_copy"], true, "{report}");
    let count = |name: &str| {
        let value = report["port_counters"][name].as_u64();
        value.unwrap_or_else(|| panic!("no {name} in {report}"))
    };
    for name in ["tx_packets", "tx_frames", "tx_completed"] {
        assert!(count(name) >= sent, "{name} is not {sent}: {report}");
    }
    for name in ["rx_packets", "rx_frames"] {
        assert!(
            count(name) >= received,
            "{name} is not {received}: {report}"
        );
    }
    for name in LOSSES {
        assert_eq!(count(name), 0, "{name} of {report}");
    }
}

#[test]
fn the_guest_has_a_newer_kernel_and_two_pairs_of_queues() {
    let Some(lab) = boot() else { return };
    let release = shell(&lab, "uname -r");
    let mut numbers = release.split('.').map(|word| word.parse::<u32>().ok());
    let mut number = || numbers.next().flatten();
    let version = (number(), number());
    assert!(version >= (Some(7), Some(2)), "kernel {release}");
    let channels = shell(
        &lab,
        "ethtool -l eth0 | grep Combined: | tr -d 'A-Za-z:\\n'",
    );
    let channels: Vec<_> = channels.split_whitespace().collect();
    assert_eq!(channels, ["2", "1"], "at most, and in use");
    // Including files that the guest's own /tmp hides.
    let program = std::env::current_exe().unwrap();
    let len = shell(&lab, &format!("stat -c %s {}", lab.guest_path(&program)));
    let here = program.metadata().unwrap().len();
    assert_eq!(len.trim(), here.to_string());
    let devices = shell(
        &lab,
        "ls -d /sys/class/infiniband/* 2> /dev/null || echo none",
    );
    assert_eq!(devices.trim(), "none", "UDP port 4791 is to be free");
    lab.check_kernel().unwrap();
}

/// The number of frames that the guest's driver itself took from AF_XDP and passed to it.
fn moved_by_driver(lab: &Lab) -> (u64, u64) {
    let count = |name: &str| {
        let script = format!("ethtool -S eth0 | sed -n 's/^ *{name}: //p'");
        let text = shell(lab, &script);
        text.trim().parse::<u64>().expect("a number")
    };
    (count("tx_xdp_tx"), count("rx_xdp_redirects"))
}

#[test]
fn every_operation_goes_by_the_rings_with_zero_copy() {
    let Some(lab) = boot() else { return };
    let listed = roce(&lab, &["devices", "-v", "--json"]).output(TIMEOUT);
    let listed = listed.unwrap().success().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let device = &listed["devices"][0];
    assert_eq!(device["interface"], "eth0", "{listed}");
    assert_eq!(device["datapath"], "xdp", "{listed}");
    assert_eq!(device["xdp"]["zero_copy"], true, "{listed}");

    // `auto` selects this without any setting.
    let (client, server) = serve_in_guest(&lab, &[]);
    assert_eq!(client["datapath"], "udp");
    let (sent, received) = (
        packets(&client, &["read"]),
        packets(&client, &["send", "write"]),
    );
    assert_went_by_the_rings(&server, sent, received);
    let before = moved_by_driver(&lab);
    assert!(before.0 >= sent && before.1 >= received, "{before:?}");

    let client = serve_outside(&lab, &[("ROCE_DATAPATH", "xdp")]);
    let (sent, received) = (
        packets(&client, &["send", "write"]),
        packets(&client, &["read"]),
    );
    assert_went_by_the_rings(&client, sent, received);
    let after = moved_by_driver(&lab);
    assert!(after.0 - before.0 >= sent, "{before:?}, {after:?}");
    assert!(after.1 - before.1 >= received, "{before:?}, {after:?}");
    lab.check_kernel().unwrap();
}

/// A frame of path MTU 2048 still fits into one chunk.
#[test]
fn path_mtu_2048_goes_by_the_rings_with_zero_copy() {
    let Some(lab) = boot() else { return };
    lab.set_mtu(2500).unwrap();
    let (client, server) = serve_in_guest(&lab, &[("ROCE_DATAPATH", "xdp")]);
    assert_eq!(client["path_mtu"], 2048);
    let (sent, received) = (
        packets(&client, &["read"]),
        packets(&client, &["send", "write"]),
    );
    assert_went_by_the_rings(&server, sent, received);
    lab.check_kernel().unwrap();
}

/// The same driver, with the program in the kernel, which gets copies.
#[test]
fn a_program_in_the_kernel_means_copies() {
    let Some(lab) = boot() else { return };
    let environment = [("ROCE_DATAPATH", "xdp"), ("ROCE_XDP_MODE", "generic")];
    let (_, server) = serve_in_guest(&lab, &environment);
    assert_eq!(server["datapath"], "xdp", "{server}");
    assert_eq!(server["zero_copy"], false, "{server}");
    let (_, received) = moved_by_driver(&lab);
    assert_eq!(received, 0, "the driver ran a program");
    lab.check_kernel().unwrap();
}
