//! A switch marks packets, over UDP sockets and over AF_XDP. The receiver sends CNPs that other
//! programs can decode, and the senders continue.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use roce_tests::bottleneck::{Bottleneck, Host, Red, SlowPort};
use roce_tests::programs::{self, is_installed_or_skip};
use serde_json::Value;

/// Marks short queues, and drops the excess of a burst of 64 KiB.
const PORT: SlowPort = SlowPort {
    rate: 400_000_000,
    queue: 40_000,
    mtu: 4200,
    marks: Some(Red::above(8_000)),
};

/// A process, killed when this value is dropped.
struct Process(Child);

impl Process {
    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn();
        Self(child.unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }

    /// Returns when a line that it prints contains `ready`.
    fn wait_for_line(&mut self, ready: &str) -> String {
        let output = BufReader::new(self.0.stdout.as_mut().expect("piped"));
        let mut lines = output.lines().map(|line| line.expect("text"));
        let found = lines.find(|line| line.contains(ready));
        found.unwrap_or_else(|| panic!("it never said {ready:?}"))
    }

    fn json(mut self) -> Value {
        let text = std::io::read_to_string(self.0.stdout.take().expect("piped")).expect("text");
        assert!(self.0.wait().expect("a child").success(), "{text}");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL. Both calls do nothing if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two concurrent senders to two receivers at one address; over AF_XDP, one receiver has the
/// interface and the other has sockets.
fn two_flows(datapath: &str) {
    if !is_installed_or_skip("tshark") {
        return;
    }
    let Some(fabric) = Bottleneck::new_or_skip(&PORT) else {
        return;
    };
    let far = Host::Far.address();
    let perf = |host, datapath: &str, arguments: &[&str]| {
        let mut command = fabric.command(host, programs::roce());
        command.arg("perf").args(arguments);
        command.env("ROCE_DATAPATH", datapath);
        Process::spawn(command)
    };
    let mut servers = Vec::new();
    for (port, datapath) in [("18521", datapath), ("18522", "udp")] {
        let mut server = perf(
            Host::Far,
            datapath,
            &["--once", "--json", "--port", port, "--server", far],
        );
        server.wait_for_line("listening");
        servers.push(server);
    }
    let mut watch = fabric.at_the_switch("tshark");
    // The first byte of the BTH: CNP. Each sender gets one.
    watch.args([
        "-l",
        "-n",
        "-i",
        "port2",
        "-f",
        "udp port 4791 and udp[8] = 0x81",
    ]);
    watch.args(["-a", "duration:120", "-T", "fields", "-e", "ip.dst"]);
    watch.args(["-e", "infiniband.bth.opcode", "-e", "ip.dsfield.dscp"]);
    watch.args(["-e", "ip.dsfield.ecn", "-e", "_ws.malformed"]);
    watch.stderr(Stdio::piped());
    let mut watch = Process::spawn(watch);
    let said = BufReader::new(watch.0.stderr.as_mut().expect("piped"));
    let capturing = said.lines().map_while(Result::ok);
    assert!(
        capturing.into_iter().any(|line| line.contains("Capturing")),
        "tshark never said that it captures"
    );
    let flows: Vec<_> = [(Host::Near, "18521"), (Host::Other, "18522")]
        .into_iter()
        .map(|(host, port)| {
            let options = ["--port", port, "--op", "write,read", "--size", "65536"];
            let more = [
                "--json",
                "--seed",
                "1",
                "-n",
                "20",
                "--duration",
                "300",
                far,
            ];
            perf(host, datapath, &[&options[..], &more].concat())
        })
        .collect();
    let mut lines = BufReader::new(watch.0.stdout.take().expect("piped")).lines();
    let mut told = BTreeSet::new();
    while told.len() < 2 {
        let line = lines.next().expect("tshark goes on").expect("text");
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields[1..], ["129", "48", "0", ""], "{line:?}");
        told.insert(fields[0].to_owned());
    }
    let senders = [Host::Near, Host::Other].map(|host| host.address().to_owned());
    assert_eq!(told, BTreeSet::from(senders));
    for flow in flows {
        let report = flow.json();
        assert_eq!(report["datapath"], datapath, "{report}");
        assert!(report["cnps_received"].as_u64() > Some(0), "{report}");
        for row in report["rows"].as_array().expect("rows") {
            assert!(row["verified_bytes"].as_u64() > Some(0), "{row}");
        }
    }
    for server in servers {
        // Packets to it were marked on the path.
        let served = server.json();
        for counted in ["ecn_marked", "cnps_sent"] {
            assert!(served[counted].as_u64() > Some(0), "{counted}: {served}");
        }
    }
    assert!(fabric.marked() > 0);
}

// shows: A17.3.1-ecn-capable
#[test]
fn senders_over_sockets_get_cnps() {
    two_flows("udp");
}

#[test]
fn senders_over_af_xdp_get_cnps() {
    two_flows("xdp");
}
