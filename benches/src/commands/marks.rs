//! Measures two flows through a slow port that marks packets, with DCQCN and without.

use clap::Parser;
use roce_benches::command::{Comparing, progress, step};
use roce_benches::peers::serve;
use roce_benches::report::{Comparison, Goal, compare_each};
use roce_benches::roce;
use roce_tests::bottleneck::{Bottleneck, Host, Red, SlowPort};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

/// Two flows through a slow port that marks, with DCQCN and without, as ratios
///
/// Needs root (it makes four network namespaces), iproute2 and tc. Prints Markdown; with
/// --write it replaces the figures in docs/generated/congestion.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// Duration of each measurement, in milliseconds
    #[arg(long, default_value_t = 2000)]
    ms: u64,
}

/// The port has room for six packets of path MTU 4096. It marks as DCQCN requires: none while one
/// packet waits, and just before the queue is full with a probability at which a flow with half of
/// the rate is as likely to be notified within 55 us as with the paper's switches.
const PORT: SlowPort = SlowPort {
    rate: 1_000_000_000,
    queue: 24_000,
    mtu: 4200,
    marks: Some(Red {
        kmin: 4_200,
        kmax: 24_000,
        pmax: 50,
    }),
};

/// The paper's parameters. Rates are the same fractions of the link's rate as in the paper, where
/// it is 40 Gbit/s. A sender starts at the link's rate, as an adapter does.
const DCQCN: &str = "dcqcn,paper,rpg_max_rate=1000,rpg_min_rate=1,rpg_ai_rate=1,rpg_hai_rate=10,\
                     start_rate=1000";

pub(crate) fn run(args: &Args) -> Result<(), String> {
    args.comparing.publish("figures marks", &measure(args)?)
}

/// The rates of the two flows, in bits per second, and the number of packets that the port dropped.
#[derive(Clone, Copy)]
struct Carried {
    rates: [f64; 2],
    dropped: u64,
}

/// With DCQCN, and without.
type Run = [Carried; 2];

fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let roce = roce::build()?;
    let bar = progress(args.comparing.runs * 4);
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..args.comparing.runs {
        for (datapath, runs) in ["udp", "xdp"].into_iter().zip(&mut runs) {
            let with = |control| {
                step(&bar, format!("{datapath}, {}", control_name(control)));
                measure_flows(&roce, datapath, control, args.ms)
            };
            let run: Run = [with(DCQCN)?, with("none")?];
            runs.push(run);
        }
    }
    bar.finish_and_clear();
    let [udp, xdp] = &runs;
    Ok([
        comparisons(udp, "two flows over UDP sockets"),
        comparisons(xdp, "two flows over AF_XDP"),
    ]
    .concat())
}

fn control_name(control: &str) -> &str {
    control.split(',').next().unwrap_or(control)
}

fn comparisons(runs: &[Run], what: &'static str) -> Vec<Comparison> {
    let row = compare_each(runs);
    let sum = |run: &Carried| (run.rates[0] + run.rates[1]) / 1e6;
    let dropped = |run: &Carried| run.dropped as f64;
    let without = "without DCQCN";
    vec![
        row(what, without, "Mb/s", Goal::AtLeast(2.0), &|run| {
            (sum(&run[0]), sum(&run[1]))
        }),
        row(
            "of them, the slower",
            "the faster",
            "Mb/s",
            Goal::AtLeast(0.8),
            &|run| {
                let [one, other] = run[0].rates;
                (one.min(other) / 1e6, one.max(other) / 1e6)
            },
        ),
        row(
            "dropped by the port",
            without,
            "packets",
            Goal::None,
            &|run| (dropped(&run[0]), dropped(&run[1])),
        ),
    ]
}

/// Measures two senders that send to one receiver at the same time.
fn measure_flows(roce: &Path, datapath: &str, control: &str, ms: u64) -> Result<Carried, String> {
    let fabric = Bottleneck::new_or_skip(&PORT).ok_or("the switch can't be had here")?;
    let far = Host::Far.address();
    let perf = |host, datapath: &str, arguments: &[&str]| {
        let mut command = fabric.command(host, roce);
        command.arg("perf").args(arguments);
        command
            .env("ROCE_DATAPATH", datapath)
            .env("ROCE_CC", control);
        command
    };
    let ms = ms.to_string();
    let mut servers = Vec::new();
    let mut clients = Vec::new();
    // Only one process can use an interface with AF_XDP; the other shares its address.
    let receivers = [datapath, "udp"];
    for ((host, port), datapath) in [(Host::Near, "18521"), (Host::Other, "18522")]
        .into_iter()
        .zip(receivers)
    {
        let server = ["--once", "--port", port, "--server", far];
        servers.push(serve(perf(Host::Far, datapath, &server), "listening")?);
        let client = ["--port", port, "--op", "write", "--size", "65536", "--json"];
        let more = ["-n", "10", "--duration", &ms, "--in-step", far];
        let client = [&client[..], &more].concat();
        clients.push((host, client));
    }
    let mut running = clients
        .iter()
        .map(|(host, client)| Client::spawn(perf(*host, datapath, client)))
        .collect::<Result<Vec<_>, _>>()?;
    // The clients measure at the same time: checks are done before, latencies after.
    for at in ["ready", "measured"] {
        running
            .iter_mut()
            .try_for_each(|client| client.wait_until(at))?;
        running.iter_mut().try_for_each(Client::resume)?;
    }
    let mut rates = Vec::new();
    for client in running {
        rates.push(client.rate()?);
    }
    servers.into_iter().try_for_each(|server| server.wait())?;
    let marked = fabric.marked();
    // Without marks there was nothing to react to.
    match (marked, rates.as_slice()) {
        (0, _) if control != "none" => Err("the port marked nothing".into()),
        (_, &[one, other]) => Ok(Carried {
            rates: [one, other],
            dropped: fabric.dropped(),
        }),
        _ => Err("not two flows".into()),
    }
}

/// A sender that starts and ends its measurement together with the other.
struct Client {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Client {
    fn spawn(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|e| format!("starting {command:?}: {e}"))?;
        let said = child.stderr.take().ok_or("no stderr")?;
        let said = BufReader::new(said);
        Ok(Self { child, said })
    }

    /// Waits until it reports this step.
    fn wait_until(&mut self, at: &str) -> Result<(), String> {
        let mut all = String::new();
        for line in self.said.by_ref().lines().map_while(Result::ok) {
            if line == at {
                return Ok(());
            }
            all += &line;
        }
        Err(format!("roce perf never was {at}: {all}"))
    }

    fn resume(&mut self) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("no stdin")?;
        writeln!(input).map_err(|e| format!("roce perf does not listen: {e}"))
    }

    /// Its rate in bits per second.
    fn rate(mut self) -> Result<f64, String> {
        let mut said = String::new();
        let done = self.child.wait_with_output().map_err(|e| e.to_string())?;
        self.said
            .read_to_string(&mut said)
            .map_err(|e| e.to_string())?;
        let json: serde_json::Value =
            serde_json::from_slice(&done.stdout).map_err(|e| format!("roce perf: {e}: {said}"))?;
        let rate = json["rows"][0]["bits_per_second"].as_f64();
        rate.ok_or_else(|| format!("roce perf gave no rate: {said}"))
    }
}
