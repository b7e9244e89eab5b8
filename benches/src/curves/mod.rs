//! The picture of docs/generated/benchmarks.md: bandwidth by message size, and latency by percentile.

mod plot;

pub use plot::plot;

use crate::peers::HalfRoundTrips;
use crate::veth::VethPair;
use crate::{median, peers, roce};
use std::path::Path;

/// The message sizes, in bytes. iperf3 passes at most 1 MiB to each call.
pub const SIZES: [usize; 8] = [
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

/// Bandwidth in bits per second by message size in bytes.
pub type Curve = Vec<(usize, f64)>;

/// Everything in the picture: the median of each figure.
#[derive(Debug)]
pub struct Curves {
    /// WRITEs over UDP sockets.
    pub write: Curve,
    /// READs over UDP sockets.
    pub read: Curve,
    /// iperf3 over TCP, with calls of that size.
    pub tcp: Curve,
    /// The bare UDP port.
    pub bare_port: f64,
    /// A sender and a receiver that do the same copies and CRCs, without a protocol.
    pub bare_ends: f64,
    /// Half round trips of an 8-byte WRITE.
    pub write_latency: HalfRoundTrips,
    /// Half round trips of sockperf over UDP.
    pub udp_latency: HalfRoundTrips,
}

/// The programs to measure.
#[derive(Debug)]
pub struct Programs<'a> {
    /// The `roce` command.
    pub roce: &'a Path,
    /// The example `raw_ceiling` of roce-udp.
    pub bare_port: &'a Path,
    /// The example `bare_ends` of this crate.
    pub bare_ends: &'a Path,
}

/// The number of steps in each run of [`measure`].
pub const STEPS: u32 = SIZES.len() as u32 + 1;

/// Measures each figure `runs` times, for a second each time. Calls `step` before each size.
///
/// # Errors
/// If a program fails.
pub fn measure(
    pair: &VethPair,
    programs: &Programs<'_>,
    runs: u32,
    step: &dyn Fn(&'static str),
) -> Result<Curves, String> {
    let mut all: [Vec<Vec<f64>>; 3] = std::array::from_fn(|_| vec![Vec::new(); SIZES.len()]);
    let [mut ports, mut ends] = [Vec::new(), Vec::new()];
    let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        step("limits and latency");
        ports.push(roce::run_bare_port(pair, programs.bare_port)?);
        ends.push(roce::run_bare_ends(pair, programs.bare_ends, 1)?);
        let small = roce::write(pair, programs.roce, "udp", 8, 200)?;
        ours.push(HalfRoundTrips {
            p50_us: small.latency_us,
            p99_us: small.latency_p99_us,
            p999_us: small.latency_p999_us,
        });
        theirs.push(peers::run_sockperf_udp_percentiles(pair, 2)?);
        for (which, size) in SIZES.into_iter().enumerate() {
            step("messages of one size");
            let write = roce::write(pair, programs.roce, "udp", size, 1000)?;
            let read = roce::read(pair, programs.roce, size, 1000)?;
            let tcp = peers::run_iperf3_tcp_with_size(pair, 1, size)?;
            all[0][which].push(write.bits_per_second);
            all[1][which].push(read.bits_per_second);
            all[2][which].push(tcp.bits_per_second);
        }
    }
    let middle = |figures: &[f64]| median(figures).unwrap_or(f64::NAN);
    let [write, read, tcp] = all.map(|curve| {
        let sizes = SIZES.into_iter().zip(&curve);
        sizes.map(|(size, runs)| (size, middle(runs))).collect()
    });
    Ok(Curves {
        write,
        read,
        tcp,
        bare_port: middle(&ports),
        bare_ends: middle(&ends),
        write_latency: middle_times(&ours),
        udp_latency: middle_times(&theirs),
    })
}

/// The median of each percentile.
fn middle_times(all: &[HalfRoundTrips]) -> HalfRoundTrips {
    let middle = |of: fn(&HalfRoundTrips) -> f64| {
        let figures: Vec<f64> = all.iter().map(of).collect();
        median(&figures).unwrap_or(f64::NAN)
    };
    HalfRoundTrips {
        p50_us: middle(|times| times.p50_us),
        p99_us: middle(|times| times.p99_us),
        p999_us: middle(|times| times.p999_us),
    }
}

/// The figures as a Markdown table.
pub fn table(curves: &Curves) -> String {
    let gigabits = |bits_per_second: f64| bits_per_second / 1e9;
    let mut text = "| message size, bytes | WRITE, Gb/s | READ, Gb/s | TCP, Gb/s |\n".to_owned();
    text += "|---|---|---|---|\n";
    for (which, (size, write)) in curves.write.iter().enumerate() {
        let [read, tcp] = [&curves.read, &curves.tcp].map(|curve| gigabits(curve[which].1));
        let write = gigabits(*write);
        text += &format!("| {size} | {write:.2} | {read:.2} | {tcp:.2} |\n");
    }
    text += &format!(
        "\nThe bare port: {:.2} Gb/s. Both ends without a protocol: {:.2} Gb/s.\n\n",
        gigabits(curves.bare_port),
        gigabits(curves.bare_ends)
    );
    text += "| half round trip, us | median | 99th percentile | 99.9th percentile |\n";
    text += "|---|---|---|---|\n";
    let rows = [
        ("8-byte WRITE", curves.write_latency),
        ("sockperf UDP, nonblocked", curves.udp_latency),
    ];
    for (name, times) in rows {
        let HalfRoundTrips {
            p50_us,
            p99_us,
            p999_us,
        } = times;
        text += &format!("| {name} | {p50_us:.2} | {p99_us:.2} | {p999_us:.2} |\n");
    }
    text
}
