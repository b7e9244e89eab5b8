//! The programs that this stack is compared with.

use crate::output::output;
use crate::veth::{ADDRESSES, VethPair};
use nix::sys::resource::{UsageWho, getrusage};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server's process, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Kept open but not read any further, so that the server can still write.
    output: Option<BufReader<ChildStdout>>,
}

impl Server {
    /// Waits until it exits by itself.
    ///
    /// # Errors
    /// If it fails.
    pub fn wait(mut self) -> Result<(), String> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("a server ended with {status}")),
            Err(e) => Err(format!("waiting for a server: {e}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and reads its output until a line contains `ready`.
///
/// # Errors
/// If it does not start, or exits before that.
pub fn serve(mut command: Command, ready: &str) -> Result<Server, String> {
    command.stdout(Stdio::piped());
    let mut server = start(&mut command)?;
    let lines = server.output.as_mut().ok_or("no output")?.lines();
    for line in lines.map_while(Result::ok) {
        if line.contains(ready) {
            return Ok(server);
        }
    }
    Err(format!("{command:?} ended before it said {ready:?}"))
}

/// Starts a server that does not say when it is ready.
///
/// # Errors
/// If it does not start.
pub fn start(command: &mut Command) -> Result<Server, String> {
    let mut child = command
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("starting {command:?}: {e}"))?;
    let output = child.stdout.take().map(BufReader::new);
    Ok(Server { child, output })
}

/// Processor time of this process's terminated children, including kernel time, in seconds.
pub fn cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(f64::NAN, |usage| {
        [usage.user_time(), usage.system_time()]
            .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
            .iter()
            .sum()
    })
}

/// The results for TCP.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    /// Bits per second of payload.
    pub bits_per_second: f64,
    /// Processor time of both ends per gigabyte of payload, in seconds.
    pub cpu_seconds_per_gigabyte: f64,
}

/// iperf3 over TCP, one connection, with its default of 128 KiB for each call.
///
/// # Errors
/// If it is not installed or fails.
pub fn run_iperf3_tcp(pair: &VethPair, seconds: u32) -> Result<Tcp, String> {
    run_iperf3_tcp_with_size(pair, seconds, 128 << 10)
}

/// iperf3 over TCP, one connection, which passes `size` bytes to each call.
///
/// # Errors
/// If it is not installed or fails.
pub fn run_iperf3_tcp_with_size(pair: &VethPair, seconds: u32, size: usize) -> Result<Tcp, String> {
    let before = cpu_seconds();
    let mut server = pair.command(0, "iperf3");
    server.args(["-s", "-1", "--forceflush"]);
    let server = serve(server, "Server listening")?;
    let mut client = pair.command(1, "iperf3");
    client.args(["-c", ADDRESSES[0], "-J", "-t", &seconds.to_string()]);
    client.args(["-l", &size.to_string()]);
    let json: serde_json::Value =
        serde_json::from_str(&output(client)?).map_err(|e| format!("iperf3: {e}"))?;
    server.wait()?;
    let received = &json["end"]["sum_received"];
    let figure = |name| {
        received[name]
            .as_f64()
            .ok_or_else(|| format!("iperf3 gave no {name}"))
    };
    Ok(Tcp {
        bits_per_second: figure("bits_per_second")?,
        cpu_seconds_per_gigabyte: (cpu_seconds() - before) / (figure("bytes")? / 1e9),
    })
}

/// Half round trips of sockperf, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct HalfRoundTrips {
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
}

/// The transport of sockperf's messages, and how its two ends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// UDP; both ends spin.
    SpinningUdp,
    /// UDP; both ends sleep.
    BlockingUdp,
    /// TCP; both ends sleep.
    BlockingTcp,
}

impl Sockets {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::SpinningUdp => &["--nonblocked"],
            Self::BlockingUdp => &[],
            Self::BlockingTcp => &["--tcp"],
        }
    }
}

/// sockperf over UDP with its smallest message, spinning on both sides: the median of half the
/// round trip, in microseconds.
///
/// # Errors
/// If it is not installed or fails.
pub fn run_sockperf_udp(pair: &VethPair, seconds: u32) -> Result<f64, String> {
    run_sockperf(pair, seconds, Sockets::SpinningUdp).map(|times| times.p50_us)
}

/// As [`run_sockperf_udp`], with other percentiles.
///
/// # Errors
/// If it is not installed or fails.
pub fn run_sockperf_udp_percentiles(
    pair: &VethPair,
    seconds: u32,
) -> Result<HalfRoundTrips, String> {
    run_sockperf(pair, seconds, Sockets::SpinningUdp)
}

/// sockperf's half round trips with its smallest message, of 14 bytes.
///
/// # Errors
/// If it is not installed or fails.
pub fn run_sockperf(
    pair: &VethPair,
    seconds: u32,
    sockets: Sockets,
) -> Result<HalfRoundTrips, String> {
    // Without stdbuf, it would buffer its output to a pipe.
    let mut server = pair.command(0, "stdbuf");
    server.args(["-oL", "sockperf", "server", "-i", ADDRESSES[0]]);
    server.args(sockets.options());
    let _server = serve(server, "using recvfrom()")?;
    let mut client = pair.command(1, "sockperf");
    client.args(["ping-pong", "-i", ADDRESSES[0], "-m", "14"]);
    client.args(sockets.options());
    client.args(["-t", &seconds.to_string()]);
    let text = output(client)?;
    let percentile = |name| {
        text.lines()
            .find(|line| line.contains(name))
            .and_then(|line| line.split('=').next_back()?.trim().parse().ok())
            .ok_or_else(|| format!("sockperf gave no {name}:\n{text}"))
    };
    Ok(HalfRoundTrips {
        p50_us: percentile("percentile 50.0")?,
        p99_us: percentile("percentile 99.000")?,
        p999_us: percentile("percentile 99.900")?,
    })
}
