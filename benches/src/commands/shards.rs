//! Measures the cost of a device's single lock: two threads on one device, compared with two
//! threads on one device each.
//!
//! Each thread has a QP pair, a CQ and memory of its own, and WRITEs from one of its QPs to the
//! other through the loopback interface. On one device, both threads take the same lock. Each
//! thread is bound to a processor of its own, since the scheduler may leave both on one for
//! seconds.

use clap::Parser;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use roce_benches::command::print;
use roce_benches::median;
use roce_verbs::prelude::*;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// The cost of two threads on one device, compared with two devices
///
/// Alternates between one thread, two threads on one device, and two threads on two devices.
/// Figures are medians.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// WRITEs of each thread in each run
    #[arg(long, default_value_t = 50_000)]
    writes: u32,

    /// Runs of each arrangement
    #[arg(long, default_value_t = 9)]
    runs: usize,

    /// Bytes of a WRITE
    #[arg(long, default_value_t = 8)]
    bytes: usize,

    /// WRITEs in flight for each thread
    #[arg(long, default_value_t = 1)]
    depth: u32,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One thread's QPs, CQ and memory.
struct Lane {
    qp: QueuePair,
    _peer: QueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
    bytes: usize,
}

impl Lane {
    fn new(context: &Context, bytes: usize) -> Result<Self, Failure> {
        let pd = context.alloc_pd();
        let cq = context.create_cq(1024);
        let memory = pd.allocate(2 * bytes, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
        let peer = pd.create_qp(&cq, &cq, &QpOptions::default())?;
        qp.connect(0, &peer.endpoint(0)?, &ConnectOptions::default())?;
        peer.connect(0, &qp.endpoint(0)?, &ConnectOptions::default())?;
        Ok(Self {
            qp,
            _peer: peer,
            cq,
            memory,
            bytes,
        })
    }

    /// WRITEs `writes` times, with `depth` of them in flight.
    fn run(&self, writes: u32, depth: u32) -> Result<(), Failure> {
        let place = self.memory.slice(0, self.bytes)?;
        let write = SendRequest::write(place, self.memory.remote(self.bytes as u64));
        let (mut posted, mut completed) = (0, 0);
        while completed < writes {
            while posted < writes && posted - completed < depth {
                self.qp.post_send(&write)?;
                posted += 1;
            }
            self.cq.wait_polling()?.ok()?;
            completed += 1;
        }
        Ok(())
    }
}

/// The result of a run.
struct Figures {
    /// WRITEs of all threads in a second.
    rate: f64,
    /// Processor time of a WRITE, in microseconds.
    busy: f64,
}

/// The processors that this process may run on.
fn processors() -> Result<Vec<usize>, Failure> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let all = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    Ok(all.collect())
}

/// Binds the calling thread to `processor`.
fn bind_to(processor: usize) -> Result<(), Failure> {
    let mut only = CpuSet::new();
    only.set(processor)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &only)?)
}

/// A thread for each lane, each on a processor of its own.
fn drive(lanes: &[Lane], processors: &[usize], args: &Args) -> Result<Figures, Failure> {
    let before = processor_time()?;
    let started = Instant::now();
    let start = Barrier::new(lanes.len());
    thread::scope(|scope| {
        let threads: Vec<_> = lanes
            .iter()
            .zip(processors)
            .map(|(lane, processor)| {
                let start = &start;
                scope.spawn(move || {
                    bind_to(*processor)?;
                    start.wait();
                    lane.run(args.writes, args.depth)
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a lane returns its errors"))
    })?;
    let writes = f64::from(args.writes) * lanes.len() as f64;
    Ok(Figures {
        rate: writes / started.elapsed().as_secs_f64(),
        busy: (processor_time()? - before) / writes,
    })
}

/// This process's processor time, in microseconds.
fn processor_time() -> Result<f64, Failure> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    Ok(micros as f64)
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    measure(args).map_err(|error| error.to_string())
}

fn measure(args: &Args) -> Result<(), Failure> {
    let processors = processors()?;
    if processors.len() < 2 {
        return Err("two threads need two processors; taskset or the container allows one".into());
    }
    let device = || Device::named("roce_lo")?.open();
    let (one, another) = (device()?, device()?);
    let arrangements = [
        ("one thread", vec![Lane::new(&one, args.bytes)?]),
        (
            "two threads, one device",
            vec![Lane::new(&one, args.bytes)?, Lane::new(&one, args.bytes)?],
        ),
        (
            "two threads, two devices",
            vec![
                Lane::new(&one, args.bytes)?,
                Lane::new(&another, args.bytes)?,
            ],
        ),
    ];
    let mut figures = arrangements.each_ref().map(|_| (Vec::new(), Vec::new()));
    for _ in 0..args.runs {
        for ((_, lanes), (rates, busy)) in arrangements.iter().zip(&mut figures) {
            let run = drive(lanes, &processors, args)?;
            rates.push(run.rate / 1e3);
            busy.push(run.busy);
        }
    }
    print(format_args!(
        "WRITEs of {} bytes, {} in flight",
        args.bytes, args.depth
    ))?;
    print(format_args!(
        "{:26} {:>12} {:>18}",
        "", "thousand/s", "processor us each"
    ))?;
    for ((name, _), (rates, busy)) in arrangements.iter().zip(&figures) {
        let [rate, busy] = [rates, busy].map(|all| median(all).unwrap_or(f64::NAN));
        print(format_args!("{name:26} {rate:12.1} {busy:18.2}"))?;
    }
    Ok(())
}
