//! A process with AF_XDP, and others with sockets, at one address.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use roce_tests::programs;
use roce_tests::veth::{End, Pair};
use serde_json::Value;

/// A process, killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls do nothing if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves one client. Returns the server and its port.
fn serve(end: &End, datapath: &str) -> (Process, String) {
    let mut command = end.command(programs::roce());
    command.args(["perf", "--once", "--port", "0", "--server"]);
    command.arg(end.ip4.to_string());
    command
        .env("ROCE_DATAPATH", datapath)
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("roce starts");
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    let process = Process(child);
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let port = line.trim().rsplit(' ').next().map(str::to_owned);
    (
        process,
        port.unwrap_or_else(|| panic!("no port in {line:?}")),
    )
}

fn client(pair: &Pair, datapath: &str, port: &str) -> Process {
    let mut command = pair.near.command(programs::roce());
    command.args(["perf", "--json", "--port", port, "--size", "64,4096,100000"]);
    command.args(["--duration", "50", "--iterations", "50"]);
    command.arg(pair.far.ip4.to_string());
    command
        .env("ROCE_DATAPATH", datapath)
        .stdout(Stdio::piped());
    Process(command.spawn().expect("roce starts"))
}

/// Frames for other processes pass the XDP program of the first, and reach their sockets.
#[test]
fn one_with_xdp_and_others_with_sockets_share_an_address() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    // The process with AF_XDP is the second at one end and the first at the other.
    let servers = ["udp", "xdp", "udp"].map(|datapath| serve(&pair.far, datapath));
    let ways = [("xdp", 0), ("udp", 1), ("udp", 2)];
    let clients = ways.map(|(datapath, server)| client(&pair, datapath, &servers[server].1));
    for (mut client, (datapath, server)) in clients.into_iter().zip(ways) {
        let said = client.0.stdout.take().expect("piped");
        let report: Value = serde_json::from_reader(said).expect("JSON");
        assert_eq!(report["datapath"], datapath, "to server {server}: {report}");
        let rows = report["rows"].as_array().expect("rows");
        assert!(rows.len() >= 9, "{report}");
        for row in rows {
            assert!(row["verified_bytes"].as_u64() > Some(0), "{row}");
        }
        let status = client.0.wait().expect("a process of ours");
        assert!(status.success(), "{status}");
    }
}
