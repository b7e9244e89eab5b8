//! `roce perf` between two namespaces.

use crate::output::output;
use crate::peers::{cpu_seconds, serve};
use crate::veth::{ADDRESSES, VethPair};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The results of a run of `roce perf`.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Bits per second of payload.
    pub bits_per_second: f64,
    /// The median of half the round trip, in microseconds.
    pub latency_us: f64,
    /// The 99th percentile of half the round trip, in microseconds.
    pub latency_p99_us: f64,
    /// The 99.9th percentile of half the round trip, in microseconds.
    pub latency_p999_us: f64,
    /// Processor time of both ends per gigabyte of payload, including kernel time, in seconds.
    pub cpu_seconds_per_gigabyte: f64,
}

impl Figures {
    /// The mean of several results; NaN without any.
    pub fn mean(all: &[Self]) -> Self {
        Self {
            bits_per_second: mean(all, |figures| figures.bits_per_second),
            latency_us: mean(all, |figures| figures.latency_us),
            latency_p99_us: mean(all, |figures| figures.latency_p99_us),
            latency_p999_us: mean(all, |figures| figures.latency_p999_us),
            cpu_seconds_per_gigabyte: mean(all, |figures| figures.cpu_seconds_per_gigabyte),
        }
    }
}

fn mean<T>(all: &[T], of: fn(&T) -> f64) -> f64 {
    all.iter().map(of).sum::<f64>() / all.len() as f64
}

/// The profile to measure, which is the distributed one.
pub const PROFILE: &str = "fat-lto";

/// The folder of that profile's programs. This program is in some profile's folder.
fn folder() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = own.ancestors().nth(2);
    let target = target.ok_or_else(|| format!("{} is in no target folder", own.display()))?;
    Ok(target.join(PROFILE))
}

/// Builds the `roce` command as distributed. Returns its path.
///
/// # Errors
/// If cargo fails.
pub fn build() -> Result<PathBuf, String> {
    build_binary("roce", "roce")
}

/// Builds a command of `package` as distributed. Returns its path.
///
/// # Errors
/// If cargo fails.
pub fn build_binary(package: &str, name: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--profile",
        PROFILE,
        "--quiet",
        "-p",
        package,
        "--bin",
        name,
    ]);
    output(cargo)?;
    Ok(folder()?.join(name))
}

/// Builds an example, such as the one that sends packets through a bare UDP port. Returns its path.
///
/// # Errors
/// If cargo fails.
pub fn build_example(package: &str, name: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--profile", PROFILE, "--quiet", "-p", package]);
    cargo.args(["--example", name]);
    output(cargo)?;
    Ok(folder()?.join("examples").join(name))
}

/// The rate of the bare UDP port from host 1 to host 0, without a protocol, in bits per second.
/// Packets have the size of a WRITE's at path MTU 4096.
///
/// # Errors
/// If an end fails.
pub fn run_bare_port(pair: &VethPair, example: &Path) -> Result<f64, String> {
    let example = example.to_string_lossy();
    let mut server = pair.command(0, &example);
    server.args(["serve", ADDRESSES[0], "9000"]);
    let _server = serve(server, "listening")?;
    let mut client = pair.command(1, &example);
    client.args([ADDRESSES[1], "9000", ADDRESSES[0]]);
    let text = output(client)?;
    // The second table has one more figure: bytes, Gb/s, Mpps, stalls.
    let figures = text.split("stalls").nth(1).unwrap_or_default();
    figures
        .lines()
        .filter_map(|line| line.trim().strip_prefix("4112 "))
        .find_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        .map(|gigabits| gigabits * 1e9)
        .ok_or_else(|| format!("raw_ceiling gave no rate:\n{text}"))
}

/// The rate from host 1 to host 0 of a sender and a receiver that do the same work on each packet,
/// without a protocol: copy, CRC, a socket; in bits per second of payload.
///
/// # Errors
/// If an end fails.
pub fn run_bare_ends(pair: &VethPair, program: &Path, seconds: u32) -> Result<f64, String> {
    let program = program.to_string_lossy();
    let mut server = pair.command(0, &program);
    server.args(["serve", ADDRESSES[0]]);
    let server = serve(server, "listening")?;
    let mut client = pair.command(1, &program);
    client.args(["send", ADDRESSES[0], &seconds.to_string()]);
    let text = output(client)?;
    server.wait()?;
    text.trim()
        .parse::<f64>()
        .map(|gigabits| gigabits * 1e9)
        .map_err(|_| format!("bare_ends gave no rate:\n{text}"))
}

/// WRITEs of `size` bytes from host 1 to host 0, with a datapath as in `ROCE_DATAPATH`.
///
/// # Errors
/// If an end fails.
pub fn write(
    pair: &VethPair,
    roce: &Path,
    datapath: &str,
    size: usize,
    ms: u64,
) -> Result<Figures, String> {
    // Large messages are measured for bandwidth, small ones for latency.
    let iterations = if size > 4096 { 100 } else { 100_000 };
    measure_write_with(pair, roce, datapath, size, Amount { ms, iterations }, &[])
}

/// The duration of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Milliseconds of the bandwidth measurement.
    pub ms: u64,
    /// Number of round trips of the latency measurement.
    pub iterations: u32,
}

/// As [`write()`], with other options of `roce perf`.
///
/// # Errors
/// If an end fails.
pub fn measure_write_with(
    pair: &VethPair,
    roce: &Path,
    datapath: &str,
    size: usize,
    amount: Amount,
    others: &[&str],
) -> Result<Figures, String> {
    let [size, ms, iterations] = [
        size.to_string(),
        amount.ms.to_string(),
        amount.iterations.to_string(),
    ];
    let mut options = vec![
        "--size",
        &size,
        "--duration",
        &ms,
        "--iterations",
        &iterations,
    ];
    options.extend(others);
    perf(pair, roce, datapath, "write", &options)
}

/// READs of `size` bytes by host 1 from host 0, over UDP sockets.
///
/// # Errors
/// If an end fails.
pub fn read(pair: &VethPair, roce: &Path, size: usize, ms: u64) -> Result<Figures, String> {
    let (size, ms) = (size.to_string(), ms.to_string());
    let options = ["--size", &size, "--duration", &ms, "--iterations", "100"];
    perf(pair, roce, "udp", "read", &options)
}

/// The median of half the round trip of an 8-byte WRITE over UDP sockets, in microseconds, if both
/// sides wait by polling memory alone.
///
/// # Errors
/// If an end fails.
pub fn measure_watched_latency(pair: &VethPair, roce: &Path, rounds: u32) -> Result<f64, String> {
    let rounds = rounds.to_string();
    let options = ["--size", "8", "--watch-memory", "--iterations", &rounds];
    perf(pair, roce, "udp", "write", &options).map(|figures| figures.latency_us)
}

fn perf(
    pair: &VethPair,
    roce: &Path,
    datapath: &str,
    operation: &str,
    options: &[&str],
) -> Result<Figures, String> {
    let roce = roce.to_string_lossy();
    let before = cpu_seconds();
    let mut server = pair.command(0, &roce);
    server.args(["perf", "--once", "--server", ADDRESSES[0]]);
    server.env("ROCE_DATAPATH", datapath);
    let server = serve(server, "listening")?;
    let mut client = pair.command(1, &roce);
    client.env("ROCE_DATAPATH", datapath);
    client.args(["perf", ADDRESSES[0], "--op", operation, "--json"]);
    client.args(options);
    let json: serde_json::Value =
        serde_json::from_str(&output(client)?).map_err(|e| format!("roce perf: {e}"))?;
    server.wait()?;
    let row = &json["rows"][0];
    let figure = |name| {
        row[name]
            .as_f64()
            .ok_or_else(|| format!("roce perf gave no {name}"))
    };
    let gigabytes = figure("bits_per_second")? * figure("seconds")? / 8e9;
    Ok(Figures {
        bits_per_second: figure("bits_per_second")?,
        latency_us: figure("latency_p50_us")?,
        latency_p99_us: figure("latency_p99_us")?,
        latency_p999_us: figure("latency_p999_us")?,
        cpu_seconds_per_gigabyte: (cpu_seconds() - before) / gigabytes,
    })
}

/// The results of AF_XDP's bare rings.
#[derive(Clone, Copy, Debug)]
pub struct RawRings {
    /// Half the round trip of a small frame, in microseconds.
    pub half_round_trip_us: f64,
    /// Received frames per second, with the size of a WRITE's frames.
    pub received_per_second: f64,
}

impl RawRings {
    /// The mean of several results; NaN without any.
    pub fn mean(all: &[Self]) -> Self {
        Self {
            half_round_trip_us: mean(all, |rings| rings.half_round_trip_us),
            received_per_second: mean(all, |rings| rings.received_per_second),
        }
    }
}

/// Sends frames from host 1 to host 0 through bare rings.
///
/// # Errors
/// If an end fails.
pub fn run_raw_rings(pair: &VethPair, example: &Path) -> Result<RawRings, String> {
    let example = example.to_string_lossy();
    let mut server = pair.command(0, &example);
    server.args(["serve", "veth0", ADDRESSES[0]]);
    let server = serve(server, "listening")?;
    let mut client = pair.command(1, &example);
    client.args(["veth0", ADDRESSES[1], ADDRESSES[0], pair.mac(0)]);
    let json: serde_json::Value =
        serde_json::from_str(&output(client)?).map_err(|e| format!("raw_rings: {e}"))?;
    server.wait()?;
    let figure = |name| {
        json[name]
            .as_f64()
            .ok_or_else(|| format!("raw_rings gave no {name}"))
    };
    Ok(RawRings {
        half_round_trip_us: figure("half_round_trip_us")?,
        received_per_second: figure("received_per_second")?,
    })
}
