//! `roce perf` over AF_XDP, with each operation and byte compared: each path MTU, IPv4 and IPv6,
//! the program in the driver and in the kernel, one queue and two.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use roce_tests::programs;
use roce_tests::veth::Pair;
use serde_json::Value;

/// The client, or the server, of one run.
pub(super) struct Setting<'a> {
    pub(super) pair: &'a Pair,
    pub(super) ipv6: bool,
    pub(super) path_mtu: u32,
    /// The environment of either side.
    pub(super) server: &'a [(&'a str, &'a str)],
    pub(super) client: &'a [(&'a str, &'a str)],
    /// Options of both.
    pub(super) options: &'a [&'a str],
}

/// The server's process, killed when this value is dropped.
pub(super) struct Server(pub(super) Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls do nothing if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Setting<'_> {
    fn command(&self, mut command: Command, environment: &[(&str, &str)]) -> Command {
        command
            .arg("perf")
            .args(["--mtu", &self.path_mtu.to_string()])
            .args(self.options);
        command.envs(environment.iter().copied());
        command
    }

    fn serve(&self) -> (Server, String) {
        let far = &self.pair.far;
        let mut command = self.command(far.command(programs::roce()), self.server);
        command.args(["--once", "--port", "0", "--server"]);
        command.arg(far.address(self.ipv6).to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("roce starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let server = Server(child);
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let port = line.trim().rsplit(' ').next().map(str::to_owned);
        (
            server,
            port.unwrap_or_else(|| panic!("no port in {line:?}")),
        )
    }

    /// Runs both sides with few rounds, for all operations; returns the client's report.
    pub(super) fn run(&self) -> Value {
        let report = self.run_some();
        // Three operations of three sizes, and two atomics.
        assert_eq!(report["rows"].as_array().map(Vec::len), Some(11));
        report
    }

    /// Like [`Setting::run`], if the options choose some of the operations.
    pub(super) fn run_some(&self) -> Value {
        let (mut server, port) = self.serve();
        let near = &self.pair.near;
        let mut command = self.command(near.command(programs::roce()), self.client);
        // One packet, several, and a size that is not a multiple of the MTU.
        command.args(["--json", "--seed", "1", "--size", "8,5000,65536"]);
        command.args(["--duration", "5", "--iterations", "20", "--depth", "16"]);
        command.args(["--port", &port]);
        command.arg(self.pair.far.address(self.ipv6).to_string());
        let output = command.output().expect("roce starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        let status = server.0.wait().expect("it ended");
        assert!(status.success(), "the server: {status}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["path_mtu"], self.path_mtu);
        report
    }
}

pub(super) const XDP: (&str, &str) = ("ROCE_DATAPATH", "xdp");

/// Each path MTU over both families, in one mode and with `queues` queues.
fn every_path(queues: u32, mode: &str) {
    // Large enough for path MTU 4096, with frames of several buffers.
    let Some(pair) = Pair::new_or_skip(9000, queues) else {
        return;
    };
    let environment = [XDP, ("ROCE_XDP_MODE", mode)];
    for path_mtu in [256, 512, 1024, 2048, 4096] {
        for ipv6 in [false, true] {
            let setting = Setting {
                pair: &pair,
                ipv6,
                path_mtu,
                server: &environment,
                client: &environment,
                options: &[],
            };
            assert_eq!(setting.run()["datapath"], "xdp");
        }
    }
}

#[test]
fn every_path_in_the_driver_with_one_queue() {
    every_path(1, "native");
}

#[test]
fn every_path_in_the_driver_with_two_queues() {
    every_path(2, "native");
}

#[test]
fn every_path_in_the_kernel_with_one_queue() {
    every_path(1, "generic");
}

#[test]
fn every_path_in_the_kernel_with_two_queues() {
    every_path(2, "generic");
}

/// At the usual link MTU a frame fits one buffer, and the other end can use sockets.
#[test]
fn at_link_mtu_1500_also_with_sockets_at_the_other_end() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let (xdp, udp) = ([XDP], [("ROCE_DATAPATH", "udp")]);
    for (server, client) in [(&xdp, &xdp), (&xdp, &udp), (&udp, &xdp)] {
        for ipv6 in [false, true] {
            let setting = Setting {
                pair: &pair,
                ipv6,
                path_mtu: 1024,
                server,
                client,
                options: &[],
            };
            assert_eq!(setting.run()["datapath"], client[0].1);
        }
    }
}
