//! `roce pingpong` against itself over two loopback addresses, and against peers that violate the
//! protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

/// An address of the loopback network that no other test uses.
fn fresh_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::new(127, 128 | (high & 63), low, last)
}

fn roce(address: Ipv4Addr, options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roce"));
    command
        .args(["pingpong", "--address", &address.to_string()])
        .args(options.split_whitespace())
        .stdin(Stdio::null());
    command
}

/// A server that listens already.
struct Server {
    child: Child,
    at: Ipv4Addr,
    stdout: BufReader<std::process::ChildStdout>,
    said: String,
}

impl Server {
    fn start(options: &str) -> Self {
        let at = fresh_address();
        let mut child = roce(at, options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("roce starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut said = String::new();
        stdout.read_line(&mut said).expect("a line");
        assert!(
            said.starts_with("  local address:  LID 0x0000, QPN 0x"),
            "{said}"
        );
        Self {
            child,
            at,
            stdout,
            said,
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect((self.at, 18515)).expect("it listens")
    }

    /// Runs a client of this server to its end.
    fn client(&self, options: &str) -> Output {
        roce(fresh_address(), options)
            .arg(self.at.to_string())
            .output()
            .expect("roce starts")
    }

    /// Exit code, stdout, stderr.
    fn finish(mut self) -> (Option<i32>, String, String) {
        self.stdout.read_to_string(&mut self.said).expect("text");
        let output = self.child.wait_with_output().expect("ended");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), self.said, stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_plays(options: &str) {
    let server = Server::start(options);
    let client = server.client(options);
    let (code, said, stderr) = server.finish();
    assert_eq!(code, Some(0), "server with {options}: {stderr}");
    let stderr = text(&client.stderr);
    assert_eq!(
        client.status.code(),
        Some(0),
        "client with {options}: {stderr}"
    );

    let theirs = text(&client.stdout);
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (server, client) = (lines(&said), lines(&theirs));
    assert_eq!((server.len(), client.len()), (4, 4), "{said}{theirs}");
    let address = |line: &str| line.split_once(':').map(|(_, at)| at.trim().to_owned());
    assert_eq!(address(&server[0]), address(&client[1]));
    assert_eq!(address(&server[1]), address(&client[0]));
    for ended in [server, client] {
        assert!(ended[2].contains(" bytes in ") && ended[2].ends_with(" Mbit/sec"));
        assert!(ended[3].contains(" iters in ") && ended[3].ends_with(" usec/iter"));
    }
}

#[test]
fn messages_of_every_size_go_back_and_forth() {
    assert_plays("-s 0 -n 50");
    assert_plays("-s 1 -n 500 -c");
    assert_plays("-s 4096 -n 500 -c");
    assert_plays("-s 1048576 -n 20 -c");
    assert_plays("-s 0x100001 -n 20 -c -m 4096");
    assert_plays("-s 5000 -n 100 -m 256");
}

#[test]
fn unreliable_services_play_as_well() {
    assert_plays("--type uc -n 500");
    assert_plays("--type uc -s 0 -n 50");
    assert_plays("--type uc -s 20000 -n 100 -c -m 256");
    assert_plays("--type uc -e -s 5000 -n 200 -c -r 1");
    assert_plays("--type ud -n 500");
    assert_plays("--type ud -s 0 -n 50");
    assert_plays("--type ud -s 4096 -n 300 -c");
    assert_plays("--type ud -e -s 1 -n 200 -c -r 2");
}

#[test]
fn a_datagram_is_one_packet() {
    let cases: [(&str, &[&str]); 3] = [
        ("--type ud -s 4097", &["-s 4097", "at most 4096", "lo"]),
        ("--type ud -m 1024", &["-m 1024", "no path MTU", "-s"]),
        ("--type xrc", &["xrc", "rc", "uc", "ud"]),
    ];
    for (options, hints) in cases {
        let output = roce(fresh_address(), options).output().expect("starts");
        assert_fails(&output, 2, hints);
    }
}

#[test]
fn sleeping_on_events_works_as_well_as_polling() {
    assert_plays("-e -s 1 -n 500 -c");
    assert_plays("-e -s 4096 -n 500 -c");
    assert_plays("-e -s 1048576 -n 20 -c");
}

#[test]
fn receives_are_posted_again_however_few_they_are() {
    for depth in 1..4 {
        assert_plays(&format!("-s 100 -n 50 -c -r {depth}"));
    }
}

#[test]
fn the_two_ends_may_wait_differently() {
    let server = Server::start("-n 200 -e");
    let client = server.client("-n 200 --json");
    assert_eq!(client.status.code(), Some(0), "{}", text(&client.stderr));
    assert_eq!(server.finish().0, Some(0));

    let report: serde_json::Value = serde_json::from_slice(&client.stdout).expect("JSON");
    assert_eq!(report["role"], "client");
    assert_eq!(report["service"], "RC");
    assert_eq!(report["device"], "roce_lo");
    assert_eq!(report["message_bytes"], 4096);
    assert_eq!(report["bytes"], 4096 * 200 * 2);
    assert_eq!(report["events"], false);
    assert!(report["usec_per_iter"].as_f64() > Some(0.0));
}

#[track_caller]
fn assert_fails(output: &Output, code: i32, hints: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for hint in hints {
        assert!(stderr.contains(hint), "no {hint:?} in {stderr}");
    }
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    let cases: [(&str, &[&str]); 16] = [
        ("-p 0", &["--port", "1 to 65535"]),
        ("-p 70000", &["1 to 65535"]),
        ("-i 2", &["--ib-port", "must be 1"]),
        ("-s 2147483649", &["0 to 2147483648"]),
        ("-m 1500", &["-m 1500", "256, 512, 1024, 2048, 4096"]),
        ("-r 0", &["1 to 65536"]),
        ("-n 0", &["1 to 4294967295"]),
        ("-n many", &["many", "a number"]),
        ("-l 16", &["0 to 15"]),
        ("--timeout 0", &["above 0"]),
        ("--timeout NaN", &["above 0"]),
        ("-o", &["-o (--odp)", "device in software"]),
        ("--ts", &["-t (--ts)", "timestamp"]),
        ("-j", &["-j (--dm)", "memory on the device"]),
        ("-N", &["-N (--new_send)", "Leave it out"]),
        ("one two", &["two"]),
    ];
    for (options, hints) in cases {
        let output = roce(fresh_address(), options).output().expect("starts");
        assert_fails(&output, 2, hints);
    }
}

#[test]
fn unknown_devices_addresses_and_gids_are_answered_with_what_there_is() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["-d", "mlx5_0"], &["-d", "mlx5_0", "roce_lo"]),
        (&["-d", "roce_lo", "-g", "99"], &["-g 99", "127.0.0.1"]),
        (
            &["--address", "198.51.100.77"],
            &["198.51.100.77", "roce_lo"],
        ),
        (
            &["--address", "127.0.0.1", "-g", "0"],
            &["--address", "cannot be used with"],
        ),
    ];
    for (arguments, hints) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roce"));
        let output = command.arg("pingpong").args(arguments).output();
        assert_fails(&output.expect("starts"), 2, hints);
    }
}

#[test]
fn a_server_that_is_not_there_is_reported() {
    let address = fresh_address();
    let output = roce(fresh_address(), "--json")
        .arg(address.to_string())
        .output()
        .expect("starts");
    let hint = format!("no server at {address}");
    assert_fails(&output, 1, &[&hint, "refused"]);
}

#[test]
fn a_server_waits_until_its_timeout() {
    let output = roce(fresh_address(), "--timeout 0.1 --json").output();
    assert_fails(&output.expect("starts"), 1, &["no client", "0.1 s"]);
}

#[test]
fn a_client_that_dies_is_noticed() {
    let server = Server::start("-n 4000000000 --timeout 1");
    let mut client = roce(fresh_address(), "-n 4000000000")
        .arg(server.at.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("roce starts");
    let mut lines = BufReader::new(client.stdout.take().expect("piped")).lines();
    // The client's second line has the server's address: from then on, the two exchange messages.
    assert!(lines.nth(1).is_some_and(|line| line.is_ok()));
    client.kill().expect("it runs");
    client.wait().expect("ended");
    let (code, _, stderr) = server.finish();
    assert_eq!(code, Some(1));
    // The status depends on whether the client died before or after it acknowledged.
    let hints = ["does not answer", "nothing from 127."];
    assert!(hints.iter().any(|hint| stderr.contains(hint)), "{stderr}");
    assert!(stderr.contains("of 4000000000"), "{stderr}");
}

#[test]
fn a_client_that_never_sends_is_given_up() {
    let server = Server::start("--timeout 0.5");
    let mut client = server.connect();
    client
        .write_all(b"0000:000123:000456:00000000000000000000ffff7f000001\0")
        .expect("sent");
    let mut answer = [0; 52];
    client.read_exact(&mut answer).expect("an address");
    client.write_all(b"done\0").expect("sent");
    let (code, _, stderr) = server.finish();
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains("nothing from 127.0.0.1 for 500ms"),
        "{stderr}"
    );
}

#[test]
fn an_unreachable_gid_is_explained() {
    let cases = [
        ("00000000000000000000000000000000", "no GID"),
        ("fe80000000000000505400fffe4d0002", "IPv6"),
    ];
    for (gid, hint) in cases {
        let server = Server::start("");
        let mut client = server.connect();
        let address = format!("0000:000123:000456:{gid}\0");
        client.write_all(address.as_bytes()).expect("sent");
        let (code, _, stderr) = server.finish();
        assert_eq!(code, Some(1));
        assert!(stderr.contains(hint) && stderr.contains("-g"), "{stderr}");
    }
}

#[test]
fn data_that_differ_are_shown() {
    // The client does not check, and so its messages differ from what a checking server expects.
    let server = Server::start("-c");
    let client = server.client("-s 4096 --timeout 2");
    assert_eq!(client.status.code(), Some(1));
    let (code, _, stderr) = server.finish();
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains("message 0 (counted from 0) differs: byte 0 is 0x7b instead of 0x00"),
        "{stderr}"
    );
}

#[test]
fn a_lost_message_of_an_unreliable_service_is_explained() {
    // The server's receives are too small for the messages, which are dropped.
    let server = Server::start("--type ud -s 100 --timeout 1");
    let client = server.client("--type ud -s 200 --timeout 1");
    let (code, _, stderr) = server.finish();
    assert_eq!((code, client.status.code()), (Some(1), Some(1)));
    assert!(stderr.contains("receive_too_small 1"), "{stderr}");
    let stderr = text(&client.stderr);
    assert!(stderr.contains("does not retransmit"), "{stderr}");
}

#[test]
fn different_sizes_are_noticed() {
    let server = Server::start("-s 100");
    let client = server.client("-s 200 --timeout 2");
    assert_eq!(client.status.code(), Some(1));
    let complaint = text(&client.stderr);
    assert!(complaint.contains("-s (200 here)"), "{complaint}");
    let (code, _, stderr) = server.finish();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("-s (100 here)"), "{stderr}");

    let server = Server::start("-s 200");
    let client = server.client("-s 100 --timeout 2");
    assert_eq!(client.status.code(), Some(1));
    let (code, _, stderr) = server.finish();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("the peer sends 100 bytes"), "{stderr}");
}
