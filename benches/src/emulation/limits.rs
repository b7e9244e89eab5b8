//! The packet rate that the emulator can carry, and the latency that it adds.

use crate::output::output;
use crate::peers::serve;
use crate::veth::{ADDRESSES, VethPair};
use std::path::Path;
use std::process::Command;

/// Payload of the packets, in bytes.
const PAYLOAD: u32 = 64;

/// The time for which programs send.
const SECONDS: u32 = 3;

/// Round trips of a measurement of latency.
const ROUND_TRIPS: &str = "5000";

/// Packets per second that arrive at hosts' interfaces, when as many pairs of hosts send as fast as
/// they can over links of 100 Gbit/s. (Whether a program then reads them all is another matter.)
///
/// # Errors
/// If a program fails.
pub fn measure_packets_per_second(roce: &Path, pairs: usize) -> Result<f64, String> {
    let command = roce.display();
    let [mut programs, mut counters] = [String::new(), String::new()];
    for pair in 1..=pairs {
        let (from, to) = (2 * pair - 1, 2 * pair);
        let send = format!("iperf3 -c h{to} -u -b 0 -l {PAYLOAD} -t {SECONDS}");
        programs += &format!(
            "{command} fabric ssh h{to} 'iperf3 -s' >/dev/null 2>&1 &\n\
             {command} fabric ssh h{from} 'until {send}; do :; done' >/dev/null 2>&1 &\n\
             clients=\"$clients $!\"\n"
        );
        let counter = "/sys/class/net/eth0/statistics/rx_packets";
        counters += &format!("{command} fabric ssh h{to} cat {counter}\n");
    }
    let text = fabric(
        roce,
        2 * pairs,
        &format!("{programs}wait $clients\n{counters}"),
    )?;
    let counts = text.lines().map(|line| line.trim().parse::<u64>());
    let counts: Result<Vec<u64>, _> = counts.collect();
    let counts = counts.map_err(|_| format!("the hosts' counters are {text:?}"))?;
    Ok(counts.iter().sum::<u64>() as f64 / f64::from(SECONDS))
}

/// Half a round trip of a 64-byte message between two hosts, in microseconds. Both programs sleep until
/// it arrives.
///
/// # Errors
/// If a program fails.
pub fn measure_latency(roce: &Path) -> Result<f64, String> {
    let ping = pingpong();
    let script = format!(
        "{} fabric ssh h2 '{ping}' >/dev/null &\nuntil {ping} h2; do :; done\n",
        roce.display()
    );
    half_round_trip(&fabric(roce, 2, &script)?)
}

/// The same between two namespaces that a cable of the kernel joins.
///
/// # Errors
/// If a program fails.
pub fn measure_latency_without_fabric(roce: &Path) -> Result<f64, String> {
    let pair = VethPair::new(1500)?;
    let command = |host: usize| {
        let mut command = pair.command(host, "stdbuf");
        command
            .arg("-oL")
            .arg(roce)
            .args(["run", "-q", "--devices", "veth0", "--"]);
        command.args(pingpong().split(' '));
        command
    };
    let server = serve(command(0), "local address")?;
    let mut client = command(1);
    client.arg(ADDRESSES[0]);
    let text = output(client)?;
    server.wait()?;
    half_round_trip(&text)
}

fn pingpong() -> String {
    format!("ibv_rc_pingpong -e -g 1 -s {PAYLOAD} -m 1024 -n {ROUND_TRIPS}")
}

/// Runs a script on the first of these hosts. Returns its output.
fn fabric(roce: &Path, hosts: usize, script: &str) -> Result<String, String> {
    let mut command = Command::new(roce);
    command.args(["fabric", "--hosts", &hosts.to_string()]);
    command.args(["--rate", "100G", "--delay", "0us", "--", "sh", "-c", script]);
    output(command)
}

fn half_round_trip(text: &str) -> Result<f64, String> {
    // "5000 iters in 0.12 seconds = 24.00 usec/iter": an iteration is a round trip.
    let line = text
        .lines()
        .find_map(|line| line.strip_suffix(" usec/iter"));
    let figure = line.and_then(|line| line.split_whitespace().last()?.parse::<f64>().ok());
    let figure = figure.ok_or_else(|| format!("ibv_rc_pingpong said {text:?}"))?;
    Ok(figure / 2.0)
}
