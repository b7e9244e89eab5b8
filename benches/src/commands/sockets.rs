//! Measures sockets over RDMA beside TCP, with the same programs.

use clap::Parser;
use roce_benches::command::{Comparing, progress, step};
use roce_benches::output::output;
use roce_benches::report::{Comparison, Goal};
use roce_benches::roce;
use roce_benches::veth::{ADDRESSES, VethPair};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Sockets over RDMA beside TCP
///
/// Each program runs in two network namespaces that a cable of 9000 bytes joins, by turns over this
/// stack and over the kernel's TCP: rdma-core's rstream, which has both in it, and Redis with its
/// benchmark, under `roce run --sockets` and without. Needs root, iproute2, rdmacm-utils,
/// redis-server and redis-tools.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,
}

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The measurements of rstream.
struct Load {
    what: &'static str,
    options: &'static [&'static str],
    unit: &'static str,
    /// The column of the figure in rstream's line.
    column: usize,
}

const STREAMS: [Load; 4] = [
    Load {
        what: "rstream, 64 bytes to and fro: half a round trip",
        options: &["-S", "64", "-I", "20000", "-C", "1"],
        unit: "us",
        column: 7,
    },
    Load {
        what: "rstream, 4 KiB to and fro: half a round trip",
        options: &["-S", "4096", "-I", "10000", "-C", "1"],
        unit: "us",
        column: 7,
    },
    Load {
        what: "rstream, 64 KiB, one way",
        options: &["-S", "65536", "-I", "1", "-C", "20000"],
        unit: "Gb/s",
        column: 6,
    },
    Load {
        what: "rstream, 1 MiB, one way",
        options: &["-S", "1048576", "-I", "1", "-C", "1500"],
        unit: "Gb/s",
        column: 6,
    },
];

/// The numbers of clients of Redis.
const CLIENTS: [(&str, &str); 2] = [
    ("Redis, GET of 1 client", "1"),
    ("Redis, GET of 20 clients", "20"),
];

/// The files that were built.
struct Built {
    roce: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let built = Built::new()?;
    let pair = VethPair::new(9000)?;
    let total = STREAMS.len() + CLIENTS.len();
    let bar = progress(args.comparing.runs * total as u32 * 2);
    let mut rows = Vec::new();
    for (what, unit) in STREAMS.iter().map(|load| (load.what, load.unit)) {
        rows.push(row(what, unit));
    }
    for (what, _) in CLIENTS {
        rows.push(row(what, "1000/s"));
    }
    for _ in 0..args.comparing.runs {
        let (streams, redis) = rows.split_at_mut(STREAMS.len());
        for (load, row) in STREAMS.iter().zip(streams) {
            step(&bar, "rstream over RDMA");
            let ours = measure_rstream(&pair, &built, load, false)?;
            step(&bar, "rstream over TCP");
            row.runs
                .push((ours, measure_rstream(&pair, &built, load, true)?));
        }
        for ((_, clients), row) in CLIENTS.iter().zip(redis) {
            step(&bar, "Redis over RDMA");
            let ours = measure_redis_gets(&pair, &built, clients, false)?;
            step(&bar, "Redis over TCP");
            row.runs
                .push((ours, measure_redis_gets(&pair, &built, clients, true)?));
        }
    }
    bar.finish_and_clear();
    args.comparing.publish("figures", &rows)
}

fn row(what: &'static str, unit: &'static str) -> Comparison {
    Comparison {
        what: what.into(),
        with: "TCP",
        unit,
        runs: Vec::new(),
        goal: Goal::None,
    }
}

impl Built {
    fn new() -> Result<Self, String> {
        let roce = roce::build()?;
        for library in ["roce-verbs-shim", "roce-rspreload"] {
            let mut cargo = Command::new("cargo");
            cargo.args([
                "build",
                "--profile",
                roce::PROFILE,
                "--quiet",
                "-p",
                library,
            ]);
            output(cargo)?;
        }
        Ok(Self { roce })
    }

    /// A program on a host: over TCP as it is, or else under `roce run`.
    fn command(&self, pair: &VethPair, host: usize, words: &[&str], over: Over) -> Command {
        let (program, options): (&Path, &[&str]) = match over {
            Over::Tcp => (words[0].as_ref(), &[]),
            Over::Rdma => (&self.roce, &["run", "--quiet", "--"]),
            Over::Sockets => (&self.roce, &["run", "--quiet", "--sockets=only", "--"]),
        };
        let mut command = pair.command(host, &program.to_string_lossy());
        let rest = match over {
            Over::Tcp => &words[1..],
            _ => words,
        };
        command.args(options).args(rest);
        command
    }
}

#[derive(Clone, Copy)]
enum Over {
    Tcp,
    /// rsockets that the program itself uses.
    Rdma,
    /// Its TCP sockets on RDMA.
    Sockets,
}

/// A server that is killed when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(mut command: Command) -> Result<Server, String> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Server).map_err(|e| format!("{command:?}: {e}"))
}

/// Runs a client until its server accepts it. Programs say in different ways that it does not.
fn retry_until_connected(client: impl Fn() -> Command) -> Result<String, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match output(client()) {
            Err(_) if Instant::now() < end => {}
            result => return result,
        }
    }
}

fn measure_rstream(pair: &VethPair, built: &Built, load: &Load, tcp: bool) -> Result<f64, String> {
    let mode: &[&str] = if tcp { &["-T", "s"] } else { &[] };
    let over = if tcp { Over::Tcp } else { Over::Rdma };
    let words = [&["rstream"], load.options, mode].concat();
    let _server = serve(built.command(pair, 0, &words, over))?;
    let client = [&words[..], &["-s", ADDRESSES[0]]].concat();
    let text = retry_until_connected(|| built.command(pair, 1, &client, over))?;
    let line = text.lines().last().unwrap_or_default();
    let figure = line.split_whitespace().nth(load.column);
    let figure = figure.and_then(|figure| figure.parse().ok());
    figure.ok_or_else(|| format!("rstream said {text:?}"))
}

/// Thousands of GETs per second.
fn measure_redis_gets(
    pair: &VethPair,
    built: &Built,
    clients: &str,
    tcp: bool,
) -> Result<f64, String> {
    let over = if tcp { Over::Tcp } else { Over::Sockets };
    let words = ["redis-server", "--save", "", "--protected-mode", "no"];
    let _server = serve(built.command(pair, 0, &words, over))?;
    // The benchmark spins forever if its connection is refused, so check the server first.
    let ping = ["redis-cli", "-h", ADDRESSES[0], "ping"];
    retry_until_connected(|| built.command(pair, 1, &ping, over))?;
    let number = if clients == "1" { "20000" } else { "100000" };
    let words = ["redis-benchmark", "-h", ADDRESSES[0], "-t", "get", "--csv"];
    let words = [&words[..], &["-n", number, "-c", clients]].concat();
    let text = output(built.command(pair, 1, &words, over))?;
    let line = text.lines().find(|line| line.starts_with("\"GET\""));
    let figure = line.and_then(|line| line.split('"').nth(3)?.parse::<f64>().ok());
    let figure = figure.ok_or_else(|| format!("redis-benchmark said {text:?}"))?;
    Ok(figure / 1000.0)
}
