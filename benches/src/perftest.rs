//! Debian's perftest, unmodified, on this stack's libibverbs.

use crate::output::output;
use crate::peers::{cpu_seconds, serve};
use crate::roce::PROFILE;
use crate::veth::{ADDRESSES, VethPair};
use std::path::Path;

/// Builds `roce` and the library as distributed. `roce run` finds the library beside itself.
///
/// # Errors
/// If cargo fails.
pub fn build_library() -> Result<(), String> {
    let mut cargo =
        std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--profile", PROFILE, "--quiet"]);
    cargo.args(["-p", "roce-verbs-shim"]);
    output(cargo).map(drop)
}

/// The bandwidth that `ib_write_bw` reports for WRITEs of `size` bytes from host 1 to host 0, all
/// signaled, with `depth` outstanding, in bits per second.
///
/// # Errors
/// If an end fails.
pub fn measure_write_bandwidth(
    pair: &VethPair,
    roce: &Path,
    size: usize,
    depth: usize,
    seconds: u32,
) -> Result<f64, String> {
    let (size, depth, seconds) = (size.to_string(), depth.to_string(), seconds.to_string());
    let text = run(
        pair,
        roce,
        "ib_write_bw",
        &[
            "-s",
            &size,
            "-t",
            &depth,
            "-Q",
            "1",
            "-D",
            &seconds,
            "--report_gbits",
        ],
    )?;
    parse_figure("ib_write_bw", &text, AVERAGE_BANDWIDTH).map(|gigabits| gigabits * 1e9)
}

/// The typical latency (the median) that `ib_write_lat` reports for 8 bytes: half of the round
/// trip, in microseconds.
///
/// # Errors
/// If an end fails.
pub fn measure_write_latency(pair: &VethPair, roce: &Path, iterations: u32) -> Result<f64, String> {
    measure_latency(pair, roce, "ib_write_lat", iterations, &[])
}

/// The typical latency (the median) that `ib_send_lat` reports for 8 bytes: half of the round
/// trip, in microseconds.
///
/// # Errors
/// If an end fails.
pub fn measure_send_latency(pair: &VethPair, roce: &Path, iterations: u32) -> Result<f64, String> {
    measure_latency(pair, roce, "ib_send_lat", iterations, &[])
}

/// perftest's report of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Bits per second of payload.
    pub bits_per_second: f64,
    /// Messages per second.
    pub messages_per_second: f64,
    /// Processor time of both ends in seconds, including their start and end.
    pub cpu_seconds: f64,
}

/// The result of `program`, such as `ib_send_bw`, which transfers `count` messages of `size` bytes with
/// the program's own depth of queues, or as `options` say.
///
/// # Errors
/// If an end fails.
pub fn measure_transfer(
    pair: &VethPair,
    roce: &Path,
    program: &str,
    size: usize,
    count: usize,
    options: &[&str],
) -> Result<Transfer, String> {
    let before = cpu_seconds();
    let (size, count) = (size.to_string(), count.to_string());
    let amount = ["-s", &size, "-n", &count, "--report_gbits"];
    let text = run(pair, roce, program, &[&amount, options].concat())?;
    Ok(Transfer {
        bits_per_second: parse_figure(program, &text, AVERAGE_BANDWIDTH)? * 1e9,
        messages_per_second: parse_figure(program, &text, MESSAGE_RATE)? * 1e6,
        cpu_seconds: cpu_seconds() - before,
    })
}

/// The messages of a transfer whose processor time is that of the programs' start and end. At its end,
/// perftest measures the processor's frequency: 0.2 s in a loop that reads the clock.
const FEW: usize = 10;

/// The processor time of both ends per gigabyte in seconds, without their start and end. `transfer` is of
/// `count` messages with the same options.
///
/// # Errors
/// If an end fails.
pub fn measure_cpu_per_gigabyte(
    pair: &VethPair,
    roce: &Path,
    program: &str,
    (size, count): (usize, usize),
    options: &[&str],
    transfer: &Transfer,
) -> Result<f64, String> {
    let few = measure_transfer(pair, roce, program, size, FEW, options)?;
    let gigabytes = (size * (count - FEW)) as f64 / 1e9;
    Ok((transfer.cpu_seconds - few.cpu_seconds) / gigabytes)
}

/// The typical latency (the median) that `program`, such as `ib_send_lat`, reports for 8 bytes: half of
/// the round trip, in microseconds.
///
/// # Errors
/// If an end fails.
pub fn measure_latency(
    pair: &VethPair,
    roce: &Path,
    program: &str,
    iterations: u32,
    options: &[&str],
) -> Result<f64, String> {
    let iterations = iterations.to_string();
    let amount = ["-s", "8", "-n", &iterations];
    let text = run(pair, roce, program, &[&amount, options].concat())?;
    parse_figure(program, &text, TYPICAL_LATENCY)
}

/// Runs both ends. Returns the client's output.
fn run(pair: &VethPair, roce: &Path, program: &str, options: &[&str]) -> Result<String, String> {
    let command = |host: usize| {
        // Without stdbuf, it would buffer its output to a pipe.
        let mut command = pair.command(host, "stdbuf");
        command.arg("-oL").arg(roce);
        command.args(["run", "-q", "--", program, "-d", pair.device(), "-x", "1"]);
        command.arg("-F").args(options);
        command.env("ROCE_DATAPATH", "udp");
        command
    };
    let server = serve(command(0), "Waiting for client")?;
    let mut client = command(1);
    client.arg(ADDRESSES[0]);
    let text = output(client)?;
    server.wait()?;
    Ok(text)
}

/// The column of the bandwidth: bytes, iterations, peak, average, messages per second.
pub const AVERAGE_BANDWIDTH: usize = 3;

/// The column of the rate, in millions of messages per second.
pub const MESSAGE_RATE: usize = 4;

/// The column of the latency: bytes, iterations, least, most, typical, and more.
pub const TYPICAL_LATENCY: usize = 4;

/// A figure in a program's output for one size, by its column.
///
/// # Errors
/// If there is none, or it is `inf`, which results from a clock that stood still. The error
/// contains the output.
pub fn parse_figure(program: &str, text: &str, column: usize) -> Result<f64, String> {
    let mut lines = text.lines().skip_while(|line| !line.contains("#bytes"));
    let figures = lines.nth(1).unwrap_or_default();
    let figure = figures.split_whitespace().nth(column);
    figure
        .and_then(|figure| figure.parse().ok())
        .filter(|figure: &f64| figure.is_finite())
        .ok_or_else(|| format!("{program} gave no figures:\n{text}"))
}
