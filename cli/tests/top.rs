//! `roce top` as a user runs it, while the user's `roce perf` runs.

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const ROCE: &str = env!("CARGO_BIN_EXE_roce");
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process, killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `roce perf` that runs for longer than any test.
fn perf(metrics: &str) -> Running {
    let child = Command::new(ROCE)
        .args([
            "perf",
            "--op",
            "write",
            "--size",
            "65536",
            "--duration",
            "600000",
        ])
        .env("ROCE_METRICS", metrics)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    Running(child.expect("the command starts"))
}

fn top(args: &[&str]) -> Output {
    let output = Command::new(ROCE).arg("top").args(args).output();
    output.expect("the command starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn of(rows: &Value, pid: u32) -> Option<&Value> {
    rows.as_array()
        .expect("rows")
        .iter()
        .find(|row| row["pid"] == pid)
}

/// Repeats `look` until it succeeds: on a busy machine, a process may not have started yet, or may
/// not answer in time.
fn look_until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < until, "no {what}: {seen}"),
        }
    }
}

/// The output of `roce top --json` about a process that sends.
fn device_and_qp(pid: u32) -> Result<(Value, Value), String> {
    let told = text(&top(&["--once", "--json", "--interval", "0.2"]));
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let found = of(&told["devices"], pid).zip(of(&told["qps"], pid));
    match found {
        Some((device, qp)) if qp["tx_bits_per_second"].as_f64() > Some(0.0) => {
            Ok((device.clone(), qp.clone()))
        }
        _ => Err(told.to_string()),
    }
}

/// The body at a URL such as `http://127.0.0.1:9100/metrics`.
fn get(url: &str) -> String {
    let address = url
        .strip_prefix("http://")
        .and_then(|rest| rest.strip_suffix("/metrics"));
    let mut stream = TcpStream::connect(address.expect("an address")).expect("connected");
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.0 200 OK"), "{head}");
    body.to_owned()
}

/// The same run is seen in a table, as JSON, as a picture, and by Prometheus.
#[test]
fn a_run_of_perf_is_seen() {
    let mut perf = perf("0");
    let pid = perf.0.id();
    let (device, qp) = look_until("traffic", || device_and_qp(pid));
    assert_eq!(
        (&device["command"], &device["datapath"]),
        (&"roce".into(), &"udp".into())
    );
    assert!(
        device["tx_packets_per_second"].as_f64() > Some(0.0),
        "{device}"
    );
    assert_eq!(
        (&qp["now"]["service"], &qp["now"]["state"]),
        (&"RC".into(), &"RTS".into())
    );
    assert!(qp["now"]["rtt_seconds"].as_f64() > Some(0.0), "{qp}");

    let number = pid.to_string();
    look_until("row of the process", || {
        // The command makes a new queue pair for each phase.
        let (_, qp) = device_and_qp(pid)?;
        let name = format!("{:06x} RC RTS", qp["now"]["qpn"].as_u64().unwrap_or(0));
        let table = text(&top(&["--once", "--interval", "0.1"]));
        let is_ours = |line: &str| line.split_whitespace().nth(1) == Some(number.as_str());
        let is_there = table.lines().any(is_ours) && table.contains(&name);
        if is_there { Ok(()) } else { Err(table) }
    });

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("top.svg");
    look_until("picture of the process", || {
        text(&top(&[
            "--svg",
            file.to_str().expect("UTF-8"),
            "--interval",
            "0.1",
        ]));
        let picture = std::fs::read_to_string(&file).expect("a picture");
        assert!(picture.starts_with("<svg "), "{picture}");
        let is_there = picture.contains(&format!(">{pid}</text>"));
        if is_there { Ok(()) } else { Err(picture) }
    });

    let said = BufReader::new(perf.0.stderr.take().expect("piped")).lines();
    let url = said.map(|line| line.expect("UTF-8")).find_map(|line| {
        let url = line.strip_prefix("roce: metrics are at ")?;
        Some(url.to_owned())
    });
    let metrics = get(&url.expect("it says where"));
    assert!(
        metrics.contains("\n# TYPE roce_qp_sent_bytes_total counter\n"),
        "{metrics}"
    );
    assert!(metrics.contains(
        "\nroce_dropped_packets_total{device=\"roce_lo\",context=\"1\",reason=\"bad_icrc\"} 0\n"
    ));
}

#[test]
fn a_wrong_address_for_metrics_is_reported_with_valid_ones() {
    let output = Command::new(ROCE)
        .args(["perf", "--duration", "1"])
        .env("ROCE_METRICS", "localhost")
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("ROCE_METRICS is \"localhost\"") && said.contains("9100"),
        "{said}"
    );
}

#[test]
fn without_a_terminal_it_says_what_works() {
    let output = top(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--once"), "{said}");
    for interval in ["0", "-1", "x", "inf", "1e9"] {
        let output = top(&["--once", &format!("--interval={interval}")]);
        assert_eq!(output.status.code(), Some(2), "{interval}");
    }
}

/// On a terminal of 80x24 it shows a screen of that size, and restores the terminal, whether a key
/// or a signal ends it.
#[test]
fn a_terminal_is_left_as_it_was() {
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGHUP)] {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).expect("a terminal");
        let before = tcgetattr(&pty.slave).expect("its settings");
        assert!(before.local_flags.contains(LocalFlags::ICANON));
        let end = || Stdio::from(pty.slave.try_clone().expect("a copy"));
        let child = Command::new(ROCE)
            .args(["top", "--interval", "0.1"])
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn();
        let mut running = Running(child.expect("the command starts"));
        let mut master = File::from(pty.master);
        read_until(&mut master, "q: quit");
        let during = tcgetattr(&pty.slave).expect("its settings");
        assert!(
            !during.local_flags.contains(LocalFlags::ICANON),
            "keys come at once"
        );
        match signal {
            None => master.write_all(b"q").expect("pressed"),
            Some(signal) => {
                let pid = i32::try_from(running.0.id()).expect("a number");
                kill(Pid::from_raw(pid), signal).expect("sent");
            }
        }
        read_until(&mut master, "\x1b[?25h\x1b[?1049l");
        assert!(running.0.wait().expect("it ends").success());
        let after = tcgetattr(&pty.slave).expect("its settings");
        assert_eq!(after.local_flags, before.local_flags);
        assert_eq!(after.output_flags, before.output_flags);
    }
}

fn read_until(from: &mut File, wanted: &str) {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&all).contains(wanted) {
        let count = from.read(&mut piece).expect("the terminal");
        assert!(count > 0, "it ended");
        all.extend_from_slice(&piece[..count]);
    }
}
