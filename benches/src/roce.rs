//! `roce perf` between two namespaces.

use crate::peers::{output, serve};
use crate::veth::{ADDRESSES, VethPair};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is taken from a run of `roce perf`.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Bits per second of payload.
    pub bits_per_second: f64,
    /// The median of half the round trip, in microseconds.
    pub latency_us: f64,
}

/// Builds the `roce` command with optimisation; where it is.
///
/// # Errors
/// If cargo fails.
pub fn build() -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "-p", "roce"]);
    output(cargo)?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(own.with_file_name("roce"))
}

/// Builds the example that moves packets through a bare UDP port; where it is.
///
/// # Errors
/// If cargo fails.
pub fn build_bare() -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "-p", "roce-udp"]);
    cargo.args(["--example", "raw_ceiling"]);
    output(cargo)?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(own.with_file_name("examples").join("raw_ceiling"))
}

/// What the UDP port carries from host 1 to host 0 with no protocol on it: bits per
/// second, in packets as large as those of a WRITE at path MTU 4096.
///
/// # Errors
/// If a side fails.
pub fn bare_port(pair: &VethPair, example: &Path) -> Result<f64, String> {
    let example = example.to_string_lossy();
    let mut server = pair.command(0, &example);
    server.args(["serve", ADDRESSES[0], "9000"]);
    let _server = serve(server, "listening")?;
    let mut client = pair.command(1, &example);
    client.args([ADDRESSES[1], "9000", ADDRESSES[0]]);
    let text = output(client)?;
    // The second table has one figure more: bytes, Gb/s, Mpps, stalls.
    let figures = text.split("stalls").nth(1).unwrap_or_default();
    figures
        .lines()
        .filter_map(|line| line.trim().strip_prefix("4112 "))
        .find_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        .map(|gigabits| gigabits * 1e9)
        .ok_or_else(|| format!("raw_ceiling gave no rate:\n{text}"))
}

/// WRITEs of `size` bytes from host 1 to host 0.
///
/// # Errors
/// If a side fails.
pub fn write(pair: &VethPair, roce: &Path, size: usize, ms: u64) -> Result<Figures, String> {
    let roce = roce.to_string_lossy();
    let mut server = pair.command(0, &roce);
    server.args(["perf", "--once", "--server", ADDRESSES[0]]);
    let _server = serve(server, "listening")?;
    // Large messages are there for their bandwidth, small ones for their latency.
    let iterations = if size > 4096 { "100" } else { "100000" };
    let mut client = pair.command(1, &roce);
    client.args([
        "perf",
        ADDRESSES[0],
        "--op",
        "write",
        "--json",
        "--iterations",
        iterations,
    ]);
    client.args(["--size", &size.to_string(), "--duration", &ms.to_string()]);
    let json: serde_json::Value =
        serde_json::from_str(&output(client)?).map_err(|e| format!("roce perf: {e}"))?;
    let row = &json["rows"][0];
    match (
        row["bits_per_second"].as_f64(),
        row["latency_p50_us"].as_f64(),
    ) {
        (Some(bits_per_second), Some(latency_us)) => Ok(Figures {
            bits_per_second,
            latency_us,
        }),
        _ => Err("roce perf gave no figures".to_owned()),
    }
}
