//! Other traffic on the interface is not disturbed while RoCE runs over it at full speed, nor after
//! both processes were killed, which leave nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use roce_tests::programs::{self, is_installed_or_skip};
use roce_tests::veth::{End, Pair};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);
/// The number of bytes to wait for, as evidence that RoCE traffic flows.
const FLOW: u64 = 32 << 20;

/// A process, killed when this value is dropped.
struct Process(Child);

impl Process {
    fn spawn(mut command: Command) -> Self {
        Self(
            command
                .spawn()
                .unwrap_or_else(|e| panic!("{command:?}: {e}")),
        )
    }

    /// Returns when a line that it prints contains `ready`.
    fn wait_for_line(&mut self, ready: &str) -> String {
        let output = BufReader::new(self.0.stdout.as_mut().expect("piped"));
        output
            .lines()
            .map(|line| line.expect("text"))
            .find(|line| line.contains(ready))
            .unwrap_or_else(|| panic!("it never said {ready:?}"))
    }

    /// The BPF objects that it holds: `bpftool`'s name of their kind, and their IDs.
    fn bpf_objects(&self) -> BTreeSet<(&'static str, u32)> {
        let folder = format!("/proc/{}/fdinfo", self.0.id());
        let files = fs::read_dir(&folder).expect("it lives");
        let texts = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
        let mut found = BTreeSet::new();
        for text in texts {
            for line in text.lines() {
                let Some((name, id)) = line.split_once(":\t") else {
                    continue;
                };
                let kind = match name {
                    "prog_id" => "prog",
                    "map_id" => "map",
                    "link_id" => "link",
                    _ => continue,
                };
                found.insert((kind, id.trim().parse().expect("a number")));
            }
        }
        found
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL. Both calls do nothing if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// RoCE traffic in both directions, while these processes live.
fn roce_at_full_speed(pair: &Pair) -> [Process; 2] {
    let perf = |end: &End, role: &[&str]| {
        let mut command = end.command(programs::roce());
        command.arg("perf").args(role).env("ROCE_DATAPATH", "xdp");
        command.stdout(Stdio::piped());
        command
    };
    let far = pair.far.ip4.to_string();
    let mut server = Process::spawn(perf(&pair.far, &["--port", "0", "--server", &far]));
    let line = server.wait_for_line("listening");
    let port = line.trim().rsplit(' ').next().expect("a port");
    let client = ["--port", port, "--op", "write", "--size", "65536"];
    let mut client = perf(&pair.near, &client);
    // Far longer than the test takes.
    client.args(["--iterations", "1", "--duration", "600000", &far]);
    [server, Process::spawn(client)]
}

fn bytes_sent(end: &End) -> u64 {
    let mut command = end.command("ip");
    command.args(["-s", "-j", "link", "show", end.interface]);
    let shown: Value = serde_json::from_slice(&output(command)).expect("JSON");
    shown[0]["stats64"]["tx"]["bytes"]
        .as_u64()
        .expect("a count")
}

/// Waits until the interface has carried [`FLOW`] more bytes.
fn wait_for_flow(end: &End) {
    let before = bytes_sent(end);
    let deadline = Instant::now() + TIMEOUT;
    while bytes_sent(end) < before + FLOW {
        assert!(Instant::now() < deadline, "RoCE does not move");
    }
}

fn output(mut command: Command) -> Vec<u8> {
    let done = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&done.stderr);
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{command:?}: {said}{printed}");
    done.stdout
}

/// Runs all other kinds of traffic, each to its end.
fn use_the_interface(pair: &Pair) {
    ping(pair);
    iperf3(pair, &[]);
    iperf3(pair, &["--reverse"]);
    datagrams(pair);
    conversation(pair);
}

/// No echo is lost.
fn ping(pair: &Pair) {
    for address in [pair.far.address(false), pair.far.address(true)] {
        let family = if address.is_ipv4() { "ping" } else { "ping6" };
        // The second is larger than a packet, and is fragmented.
        for size in ["56", "20000"] {
            let mut command = pair.near.command("busybox");
            command.args([family, "-c", "5", "-i", "0.05", "-W", "20", "-s", size]);
            command.arg(address.to_string());
            let said = String::from_utf8(output(command)).expect("text");
            assert!(said.contains(" 0% packet loss"), "{said}");
        }
    }
}

/// One TCP connection of bulk data.
fn iperf3(pair: &Pair, direction: &[&str]) {
    let mut server = pair.far.command("iperf3");
    server.args(["--server", "--one-off", "--forceflush"]);
    server.stdout(Stdio::piped());
    let mut server = Process::spawn(server);
    server.wait_for_line("Server listening");
    let mut client = pair.near.command("iperf3");
    client.args(["--bytes", "64M", "--json", "--client"]);
    client.arg(pair.far.ip4.to_string()).args(direction);
    let report: Value = serde_json::from_slice(&output(client)).expect("JSON");
    assert_eq!(report["error"], Value::Null);
    let received = report["end"]["sum_received"]["bytes"].as_u64();
    // It does not count bytes that are still in flight when the sender is done.
    assert!(received >= Some(32 << 20), "{received:?} bytes arrived");
}

/// Datagrams of all sizes, each answered: over UDP port 4790, next to that of RoCE.
fn datagrams(pair: &Pair) {
    const COUNT: u32 = 300;
    const LOST: u32 = 3;
    let [near, far] = [&pair.near, &pair.far].map(|end| {
        let socket = end
            .enter(|| UdpSocket::bind((end.ip4, 4790)))
            .expect("free");
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("set");
        socket
    });
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut buffer = vec![0; 65536];
    let mut lost = 0;
    for number in 0..COUNT {
        let mut sent = vec![0; 4 + (rng.next_u32() % 60_000) as usize];
        rng.fill_bytes(&mut sent);
        sent[..4].copy_from_slice(&number.to_le_bytes());
        near.send_to(&sent, (pair.far.ip4, 4790)).expect("sent");
        match far.recv_from(&mut buffer) {
            Ok((len, from)) => {
                assert!(buffer[..len] == sent, "datagram {number} is another one");
                assert_eq!(from.ip(), pair.near.ip4);
            }
            Err(_) => lost += 1,
        }
    }
    assert!(lost <= LOST, "{lost} datagrams of {COUNT} were lost");
}

/// A TCP connection on which both sides send in turn, as with SSH.
fn conversation(pair: &Pair) {
    const TURNS: u64 = 500;
    let listener = pair
        .far
        .enter(|| TcpListener::bind((pair.far.ip4, 0)))
        .expect("free");
    let port = listener.local_addr().expect("bound").port();
    let talk = |mut stream: TcpStream, first: bool| {
        stream.set_nodelay(true).expect("set");
        stream.set_read_timeout(Some(TIMEOUT)).expect("set");
        for turn in 0..TURNS {
            let mut rng = ChaCha8Rng::seed_from_u64(turn);
            let mut words = vec![0; 1 + (rng.next_u32() % 3000) as usize];
            rng.fill_bytes(&mut words);
            if first == (turn % 2 == 0) {
                stream.write_all(&words).expect("said");
            } else {
                let mut heard = vec![0; words.len()];
                stream.read_exact(&mut heard).expect("an answer");
                assert!(heard == words, "turn {turn} is garbled");
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| talk(listener.accept().expect("a caller").0, false));
        let far = (pair.far.ip4, port);
        talk(
            pair.near.enter(|| TcpStream::connect(far)).expect("taken"),
            true,
        );
    });
}

/// Whether `bpftool` knows an object.
fn exists((kind, id): (&str, u32)) -> bool {
    let mut command = Command::new("bpftool");
    command.args([kind, "show", "id", &id.to_string()]);
    command.output().expect("bpftool").status.success()
}

/// The programs that `bpftool` shows as attached to the interfaces of a namespace.
fn attached(end: &End) -> Vec<Value> {
    let mut command = end.command("bpftool");
    command.args(["--json", "net", "show"]);
    let shown: Value = serde_json::from_slice(&output(command)).expect("JSON");
    shown[0]["xdp"].as_array().cloned().unwrap_or_default()
}

#[test]
fn others_are_not_disturbed_and_nothing_is_left_of_us() {
    let programs = ["iperf3", "busybox", "bpftool"];
    if !programs.iter().all(|program| is_installed_or_skip(program)) {
        return;
    }
    let Some(pair) = Pair::new_or_skip(9000, 1) else {
        return;
    };
    let ours = roce_at_full_speed(&pair);
    wait_for_flow(&pair.near);
    use_the_interface(&pair);
    wait_for_flow(&pair.near);

    let objects: BTreeSet<_> = ours.iter().flat_map(Process::bpf_objects).collect();
    for kind in ["prog", "map", "link"] {
        let count = objects.iter().filter(|(found, _)| *found == kind).count();
        assert!(count >= 2, "each side has a {kind}: {objects:?}");
    }
    assert!(objects.iter().all(|object| exists(*object)), "{objects:?}");
    for end in [&pair.near, &pair.far] {
        assert_eq!(attached(end).len(), 1, "our program");
    }

    drop(ours);
    use_the_interface(&pair);
    // The kernel frees them a moment after the process.
    let deadline = Instant::now() + TIMEOUT;
    while objects.iter().any(|object| exists(*object)) {
        assert!(Instant::now() < deadline, "some of {objects:?} are left");
    }
    for end in [&pair.near, &pair.far] {
        assert_eq!(attached(end), Vec::<Value>::new());
    }
}
