//! RoCE through a WireGuard tunnel, as docs/design/encryption.md sets it up:
//! all data arrives, and nobody on the path sees a RoCE packet.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::{End, Pair};

use super::cable::capture;
use super::perf::{Server, Setting};

/// Timeout for the tunnel's program to be ready.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two looks whether it is ready, which each start a program.
const INTERVAL: Duration = Duration::from_millis(20);

/// The tunnel's own UDP port.
const PORT: &str = "51820";

/// Runs a program, with `input`, and returns its output.
fn output(mut command: Command, input: &str) -> Option<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("it ended");
    let text = String::from_utf8(output.stdout).expect("text");
    output.status.success().then(|| text.trim().to_owned())
}

/// A WireGuard interface at one end, by the program in user space: not every kernel has WireGuard.
struct Tunnel {
    name: String,
    private: String,
    public: String,
    address: Ipv4Addr,
    _program: Server,
}

impl Tunnel {
    fn open(end: &End, name: String, address: Ipv4Addr) -> Self {
        let mut program = end.command("wireguard-go");
        program.args(["-f", &name]).stdout(Stdio::null());
        let mut program = Server(program.stderr(Stdio::piped()).spawn().expect("it starts"));
        let deadline = Instant::now() + TIMEOUT;
        let is_ready = || {
            let mut show = end.command("wg");
            show.args(["show", &name]);
            output(show, "").is_some()
        };
        while !is_ready() {
            let ended = program.0.try_wait().expect("a child");
            if ended.is_some() || Instant::now() > deadline {
                panic!(
                    "no tunnel after {TIMEOUT:?}: {ended:?}: {}",
                    end_of(program)
                );
            }
            thread::sleep(INTERVAL);
        }
        let wg = |what: &str, input: &str| {
            let mut wg = Command::new("wg");
            wg.arg(what);
            output(wg, input).expect("a key")
        };
        let private = wg("genkey", "");
        let public = wg("pubkey", &private);
        Self {
            name,
            private,
            public,
            address,
            _program: program,
        }
    }

    fn connect(&self, end: &End, peer: &Self, peer_end: &End) {
        let mut set = end.command("wg");
        set.args(["set", &self.name, "listen-port", PORT]);
        set.args(["private-key", "/dev/stdin", "peer", &peer.public]);
        set.args(["allowed-ips", &format!("{}/32", peer.address)]);
        set.args(["endpoint", &format!("{}:{PORT}", peer_end.ip4)]);
        output(set, &self.private).expect("it is set");
        let Self { name, address, .. } = self;
        for line in [
            format!("address add {address}/24 dev {name}"),
            format!("link set {name} mtu 1420 up"),
        ] {
            end.ip(&line).expect("ip succeeds");
        }
    }
}

/// Kills a program, and returns what it wrote to stderr.
fn end_of(mut program: Server) -> String {
    let _ = program.0.kill();
    let mut text = String::new();
    let mut stderr = program.0.stderr.take().expect("piped");
    stderr.read_to_string(&mut text).expect("text");
    text
}

/// Captures at `end` while `work` runs. Returns the UDP destination ports on the cable.
fn ports_on_the_cable(end: &End, work: impl FnOnce()) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cable.pcap");
    capture(end, "udp", 64, &file, work);
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields", "-e", "udp.dstport", "-r"]);
    tshark.arg(&file);
    let ports = output(tshark, "").expect("tshark succeeds");
    let mut ports: Vec<String> = ports.lines().map(str::to_owned).collect();
    ports.sort();
    ports.dedup();
    ports
}

#[test]
fn wireguard_hides_everything() {
    for program in ["wireguard-go", "wg", "tcpdump", "tshark"] {
        if !is_installed_or_skip(program) {
            return;
        }
    }
    let Some(mut pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    // The program's control socket is named after the interface, in a folder that all namespaces
    // share.
    let name = |end: &str| format!("wg{end}{}", std::process::id());
    let near = Tunnel::open(&pair.near, name("n"), Ipv4Addr::new(10, 92, 0, 1));
    let far = Tunnel::open(&pair.far, name("f"), Ipv4Addr::new(10, 92, 0, 2));
    near.connect(&pair.near, &far, &pair.far);
    far.connect(&pair.far, &near, &pair.near);
    (pair.near.ip4, pair.far.ip4) = (near.address, far.address);
    let ports = ports_on_the_cable(&pair.far, || {
        let setting = Setting {
            pair: &pair,
            ipv6: false,
            path_mtu: 1024,
            server: &[],
            client: &[],
            options: &[],
        };
        assert_eq!(setting.run()["datapath"], "udp");
    });
    assert_eq!(ports, [PORT]);
}
