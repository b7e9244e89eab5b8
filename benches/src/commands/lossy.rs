//! Measures goodput towards Soft-RoCE over a link that loses packets: this stack's, and Soft-RoCE's
//! own.

use clap::Parser;
use roce_benches::command::{print, progress, say, step};
use roce_benches::median;
use roce_benches::page::{machine, write_between};
use roce_tests::ends::{End, Options, Ours, connect};
use roce_tests::lab::{Direction, GUEST_IP4, Lab, LabConfig, SecondGuest};
use roce_verbs::observation::Stat;
use roce_verbs::{RemoteAddr, SendOp, SendRequest, WcStatus};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// 64 KiB WRITEs and READs against Soft-RoCE in an emulated guest, with and without 1 % loss in
/// each direction (netem, in the guest), compared with Soft-RoCE in another guest
///
/// Needs the requirements of the lab: root, QEMU, perftest. Prints Markdown; with --write it
/// replaces the figures in docs/generated/lossy.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Number of measurements of each figure
    #[arg(long, default_value_t = 3)]
    runs: u32,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(3..))]
    seconds: u64,

    /// Loss in each direction, in percent
    #[arg(long, default_value_t = 1.0)]
    loss: f64,

    /// A page to write the figures into, between its two marker lines
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

type Error = Box<dyn std::error::Error>;

const MESSAGE: u32 = 64 << 10;
/// Outstanding messages.
const DEPTH: u32 = 16;
/// The most starts of perftest for one figure. It counts completions between two points in time,
/// and on a busy machine there may be none.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Write,
    Read,
}

/// Mb/s of one run each; `None` if it ended with an error.
#[derive(Debug, Default)]
struct Figures {
    lossless: Vec<Option<f64>>,
    lossy: Vec<Option<f64>>,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let Some(lab) = Lab::boot_or_skip(&LabConfig::default()) else {
        return Err("this machine can't run the lab; the line above says why".into());
    };
    let second = lab.boot_second(&LabConfig::default())?;
    let bar = progress(args.runs * 8);
    let mut rows = Vec::new();
    for op in [Op::Write, Op::Read] {
        let mut ours = Figures::default();
        let mut theirs = Figures::default();
        for _ in 0..args.runs {
            for loss in [0.0, args.loss] {
                let netem = if loss > 0.0 {
                    format!("loss {loss}%")
                } else {
                    String::new()
                };
                for direction in [Direction::ToGuest, Direction::ToHost] {
                    lab.set_netem(direction, &netem)?;
                }
                step(&bar, format!("{op:?}, {loss} %, ours"));
                let figure = measure_ours(&lab, op, Duration::from_secs(args.seconds));
                ours.of(loss).push(figure);
                step(&bar, format!("{op:?}, {loss} %, rxe"));
                let mut figure = measure_rxe(&lab, &second, op, args.seconds)?;
                for _ in 1..ATTEMPTS {
                    if figure.is_some() {
                        break;
                    }
                    figure = measure_rxe(&lab, &second, op, args.seconds)?;
                }
                theirs.of(loss).push(figure);
            }
        }
        rows.push((op, "this stack to rxe", ours));
        rows.push((op, "rxe to rxe", theirs));
    }
    bar.finish_and_clear();
    let page = markdown(&rows, args.loss);
    print(&page)?;
    if let Some(path) = &args.write {
        write_between(path, "figures", &page)?;
    }
    Ok(())
}

impl Figures {
    fn of(&mut self, loss: f64) -> &mut Vec<Option<f64>> {
        if loss > 0.0 {
            &mut self.lossy
        } else {
            &mut self.lossless
        }
    }
}

/// This stack's goodput to or from the guest, in Mb/s.
fn measure_ours(lab: &Lab, op: Op, duration: Duration) -> Option<f64> {
    let options = Options {
        length: MESSAGE * DEPTH,
        max_rd_atomic: 16,
        ..Options::default()
    };
    let (ours, theirs) = connect(lab, &options);
    let (addr, rkey) = theirs.remote(0);
    let start = Instant::now();
    let (mut posted, mut done) = (0_u64, 0_u64);
    while start.elapsed() < duration {
        while posted - done < u64::from(DEPTH) {
            post(&ours, op, posted, addr, rkey);
            posted += 1;
        }
        if let Some(completion) = ours.cq.poll().ok()? {
            if completion.status != WcStatus::Success {
                say(format_args!("ours: {}", completion.status));
                return None;
            }
            done += 1;
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let counters = ours.context.counters();
    say(format_args!(
        "{op:?}: {done} messages, {} packets retransmitted, {} timeouts",
        counters.stat(Stat::Retransmitted),
        counters.stat(Stat::Timeouts)
    ));
    Some(done as f64 * f64::from(MESSAGE) * 8.0 / elapsed / 1e6)
}

fn post(ours: &Ours, op: Op, number: u64, addr: u64, rkey: u32) {
    let offset = (number % u64::from(DEPTH)) * u64::from(MESSAGE);
    let remote = RemoteAddr {
        addr: addr + offset,
        rkey,
    };
    let op = match op {
        Op::Write => SendOp::Write(remote),
        Op::Read => SendOp::Read(remote),
    };
    let part = ours.region.slice(offset as usize, MESSAGE as usize);
    let sges = [part.expect("the part lies in the region")];
    ours.qp
        .post_send(&SendRequest::new(number, op, &sges))
        .expect("the queue has room");
}

/// perftest's goodput between the second guest and the first, in Mb/s; `None` if it fails or counts
/// nothing.
fn measure_rxe(
    lab: &Lab,
    second: &SecondGuest<'_>,
    op: Op,
    seconds: u64,
) -> Result<Option<f64>, Error> {
    let program = match op {
        Op::Write => "ib_write_bw",
        Op::Read => "ib_read_bw",
    };
    // -f excludes only the first and the last second from the count; without it, four seconds at
    // each end.
    let options = format!(
        "{program} -d rxe0 -x 1 -F -s {MESSAGE} -D {seconds} -f 1 -t {DEPTH} -m 1024 --report_gbits"
    );
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    // It prints that it is ready only at its end, so look for its socket.
    let server = lab.guest_spawn(words(&options))?;
    lab.guest([
        "sh",
        "-c",
        "until ss -tln | grep -q :18515; do sleep 0.1; done",
    ])
    .output(Duration::from_secs(30))?
    .success()?;
    let client = second
        .command(words(&format!("{options} {GUEST_IP4}")))
        .output(Duration::from_secs(seconds + 60));
    server.kill()?;
    let said = client?.stdout_text();
    // Bytes, iterations, peak, average and rate of messages.
    let figure = said.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_it = columns.len() == 5 && columns[0] == MESSAGE.to_string();
        is_it.then(|| columns[3].parse::<f64>().ok()).flatten()
    });
    let figure = figure.filter(|gigabits| *gigabits > 0.0);
    if figure.is_none() {
        say(format_args!(
            "{program} counted nothing, or ended early:\n{said}"
        ));
    }
    Ok(figure.map(|gigabits| gigabits * 1e3))
}

fn markdown(rows: &[(Op, &str, Figures)], loss: f64) -> String {
    let mut page = format!("Machine: {}.\n\n", machine());
    page += &format!("| operation | ends | no loss, Mb/s | {loss} % lost, Mb/s | share |\n");
    page += "|---|---|---|---|---|\n";
    let middle = |figures: &[Option<f64>]| {
        let good: Vec<f64> = figures.iter().flatten().copied().collect();
        median(&good)
    };
    let each = |figures: &[Option<f64>]| {
        let shown = figures.iter().map(|figure| match figure {
            Some(figure) => format!("{figure:.0}"),
            None => "failed".to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    for (op, ends, figures) in rows {
        let share = match (middle(&figures.lossy), middle(&figures.lossless)) {
            (Some(lossy), Some(lossless)) if lossless > 0.0 => {
                format!("**{:.0} %**", 100.0 * lossy / lossless)
            }
            _ => "-".to_owned(),
        };
        page += &format!(
            "| {} | {ends} | {} | {} | {share} |\n",
            format!("{op:?}").to_uppercase(),
            each(&figures.lossless),
            each(&figures.lossy)
        );
    }
    page
}
