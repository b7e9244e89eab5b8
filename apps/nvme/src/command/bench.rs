//! `nvme-rdma bench`.

use super::args::DiskArgs;
use super::disk::{Disk, with_losses};
use super::pump::Pieces;
use super::{Outcome, size};
use crate::Error;
use crate::host::{IoQueue, Tag};
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use roce_trust::output;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The longest latency that is told apart: one minute.
const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// Measure operations per second, bandwidth and latency
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  nvme-rdma bench nvme://10.0.0.2/NQN --block 4K --depth 1           latency
  nvme-rdma bench nvme://10.0.0.2/NQN --block 4K --queues 4          operations per second
  nvme-rdma bench nvme://10.0.0.2/NQN --block 128K --mode read       bandwidth
  nvme-rdma bench nvme://10.0.0.2/NQN --mode randwrite --overwrite   destroys what is there")]
pub(super) struct BenchArgs {
    #[command(flatten)]
    disk: DiskArgs,

    /// The workload
    #[arg(long, value_enum, default_value_t = Mode::Randread)]
    mode: Mode,

    /// Allow modes that write, which destroys what the namespace holds
    #[arg(long)]
    overwrite: bool,

    /// How long, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    duration: f64,

    /// The seed of the random places [default: chosen at random, and printed]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A benchmark's workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Reads one block behind the other
    Read,
    /// Writes one block behind the other
    Write,
    /// Reads blocks at random places
    Randread,
    /// Writes blocks at random places
    Randwrite,
}

impl Mode {
    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Randwrite)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite)
    }
}

pub(super) fn run(args: &BenchArgs) -> Outcome {
    if args.mode.writes() && !args.overwrite {
        return Err(format!(
            "--mode {} destroys what the namespace holds: add --overwrite if that is wanted",
            name(args.mode)
        )
        .into());
    }
    let duration = Duration::try_from_secs_f64(args.duration).map_err(|_| {
        format!(
            "--duration {}: no number of seconds from now on",
            args.duration
        )
    })?;
    let seed = match args.seed {
        Some(seed) => seed,
        None => getrandom::u64()?,
    };
    let (mut host, disk) = args.disk.connect()?;
    let plan = Plan {
        mode: args.mode,
        blocks: disk.namespace.len() / disk.block as u64,
        queues: host.queues().len().max(1) as u64,
        end: Instant::now() + duration,
        seed,
    };
    if plan.blocks == 0 {
        return Err(format!("the namespace is shorter than --block {}", disk.block).into());
    }
    let started = Instant::now();
    let results: Vec<Result<Histogram<u64>, Error>> = std::thread::scope(|scope| {
        let queues = host.queues().iter_mut().enumerate();
        let threads: Vec<_> = queues
            .map(|(index, queue)| {
                let plan = &plan;
                scope.spawn(move || measure(queue, &disk, plan, index as u64))
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|t| t.join().expect("no thread panics"));
        joined.collect()
    });
    let elapsed = started.elapsed();
    let queues = results.len();
    let mut all = Histogram::new_with_max(MAX_LATENCY_NS, 3)?;
    for result in results {
        all.add(result.map_err(|error| with_losses(&host, error.into()))?)?;
    }
    host.shutdown()?;
    let figures = Figures {
        all,
        elapsed,
        block: disk.block,
        queues,
        depth: disk.depth,
        mode: args.mode,
        seed,
    };
    let text = match args.json {
        true => figures.json().to_string(),
        false => figures.table(),
    };
    Ok(output::print_line(text)?)
}

/// The work of one queue.
struct Plan {
    mode: Mode,
    /// How many places there are.
    blocks: u64,
    queues: u64,
    end: Instant,
    seed: u64,
}

/// Runs one queue until the end. Returns the latency of each operation in nanoseconds.
fn measure(
    queue: &mut IoQueue,
    disk: &Disk,
    plan: &Plan,
    index: u64,
) -> Result<Histogram<u64>, Error> {
    let mut latencies =
        Histogram::new_with_max(MAX_LATENCY_NS, 3).expect("three digits are allowed");
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(index));
    let mut pieces = Pieces::new(queue, disk)?;
    // Random bytes, which nothing on the way can compress.
    let mut bytes = vec![0; pieces.buffer.len()];
    random.fill_bytes(&mut bytes);
    pieces.buffer.write(0, &bytes)?;
    let mut posted: HashMap<Tag, Instant> = HashMap::new();
    // Queues that go through the namespace in order begin at different places.
    let mut place = index * plan.blocks / plan.queues;
    loop {
        while pieces.has_room() && Instant::now() < plan.end {
            let offset = place * disk.block as u64;
            place = match plan.mode.is_random() {
                true => random.next_u64() % plan.blocks,
                false => (place + 1) % plan.blocks,
            };
            let range = pieces.next(disk.block);
            let now = Instant::now();
            let tag = match plan.mode.writes() {
                true => queue.write(&disk.namespace, offset, &pieces.buffer, range)?,
                false => queue.read(&disk.namespace, offset, &pieces.buffer, range)?,
            };
            pieces.take(tag, offset, disk.block);
            posted.insert(tag, now);
        }
        if !pieces.any() {
            return Ok(latencies);
        }
        let done = queue.wait()?;
        done.ok()?;
        pieces.finish(&done);
        if let Some(since) = posted.remove(&done.tag) {
            latencies.saturating_record(since.elapsed().as_nanos() as u64);
        }
    }
}

struct Figures {
    all: Histogram<u64>,
    elapsed: Duration,
    block: usize,
    queues: usize,
    depth: usize,
    mode: Mode,
    seed: u64,
}

/// The quantiles of the latency, with their names.
const QUANTILES: [(&str, f64); 4] = [
    ("median", 0.5),
    ("99 %", 0.99),
    ("99.9 %", 0.999),
    ("most", 1.0),
];

impl Figures {
    fn per_second(&self) -> f64 {
        self.all.len() as f64 / self.elapsed.as_secs_f64()
    }

    fn table(&self) -> String {
        let rate = self.per_second();
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let names = QUANTILES.map(|(name, _)| format!("{name} [us]"));
        table.set_header(
            ["mode", "bytes", "queues", "depth", "op/s", "MiB/s"]
                .map(str::to_owned)
                .into_iter()
                .chain(names),
        );
        let quantiles =
            QUANTILES.map(|(_, q)| format!("{:.1}", self.all.value_at_quantile(q) as f64 / 1e3));
        let row = [
            name(self.mode),
            self.block.to_string(),
            self.queues.to_string(),
            self.depth.to_string(),
            format!("{rate:.0}"),
            format!("{:.1}", rate * self.block as f64 / 1_048_576.0),
        ];
        table.add_row(row.into_iter().chain(quantiles));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let (count, seconds) = (self.all.len(), self.elapsed.as_secs_f64());
        let bytes = size::show(count * self.block as u64);
        let seed = self.seed;
        format!("{table}\n{count} operations, {bytes}, in {seconds:.2} s; again: --seed {seed}")
    }

    fn json(&self) -> serde_json::Value {
        let latency =
            QUANTILES.map(|(name, q)| (name.to_owned(), self.all.value_at_quantile(q).into()));
        serde_json::json!({
            "mode": name(self.mode),
            "block_bytes": self.block,
            "queues": self.queues,
            "depth": self.depth,
            "operations": self.all.len(),
            "seconds": self.elapsed.as_secs_f64(),
            "operations_per_second": self.per_second(),
            "bytes_per_second": self.per_second() * self.block as f64,
            "latency_ns": serde_json::Map::from_iter(latency),
            "seed": self.seed,
        })
    }
}

fn name(mode: Mode) -> String {
    mode.to_possible_value()
        .map_or_else(String::new, |v| v.get_name().to_owned())
}
