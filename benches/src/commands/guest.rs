//! Measures this stack and the kernel's Soft-RoCE in the same guest.

use clap::Parser;
use roce_benches::command::{Comparing, progress, say, step};
use roce_benches::report::{Comparison, Goal, compare_each};
use roce_benches::{perftest, roce};
use roce_tests::lab::{GUEST_IP4, Lab, LabConfig};
use std::path::Path;
use std::time::Duration;

/// ib_write_bw and ib_write_lat on this stack and on Soft-RoCE, in one guest
///
/// Both ends run in the guest, over its loopback interface. Needs root, QEMU and the requirements
/// of the lab. The guest's processor is emulated, unless ROCE_LAB_ACCEL=kvm is set, so the figures
/// are comparable only with each other, in one run.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,
}

/// Timeout of each step, sufficient for an emulated processor.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The most repetitions of a program that succeeded without reporting a figure. perftest measures
/// the processor's clock rate at its end, and the clock of an emulated processor that has waited
/// for a real one may appear to stand still.
const REPETITIONS: usize = 2;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    args.comparing.publish("figures guest", &measure(args)?)
}

/// Gigabits per second, and microseconds.
struct Figures {
    bandwidth: f64,
    latency: f64,
}

/// The two alternate in each run, so that drift affects both alike.
fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let roce = roce::build()?;
    perftest::build_library()?;
    let lab = Lab::boot(&LabConfig {
        boot_timeout: TIMEOUT,
        ..LabConfig::default()
    })
    .map_err(|e| e.to_string())?;
    let bar = progress(args.comparing.runs * 2);
    let mut runs = Vec::new();
    for _ in 0..args.comparing.runs {
        step(&bar, "Soft-RoCE");
        let theirs = measure_soft_roce(&lab)?;
        // It holds UDP port 4791 while the module is loaded.
        shell(&lab, "rdma link delete rxe0 && modprobe -r rdma_rxe")?;
        step(&bar, "this stack");
        let ours = measure_this_stack(&lab, &roce)?;
        shell(
            &lab,
            "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0",
        )?;
        runs.push((ours, theirs));
    }
    bar.finish_and_clear();
    Ok(comparisons(&runs))
}

fn comparisons(runs: &[(Figures, Figures)]) -> Vec<Comparison> {
    let rows = compare_each(runs);
    let row = |what, unit, figure: fn(&Figures) -> f64| {
        rows(what, "Soft-RoCE", unit, Goal::None, &|(ours, theirs)| {
            (figure(ours), figure(theirs))
        })
    };
    vec![
        row("64 KiB WRITEs, ib_write_bw", "Gb/s", |f| f.bandwidth),
        row(
            "half round trip of an 8-byte WRITE, ib_write_lat",
            "us",
            |f| f.latency,
        ),
    ]
}

fn measure_soft_roce(lab: &Lab) -> Result<Figures, String> {
    measure_both(lab, "", "-d rxe0 -x 1", &GUEST_IP4.to_string())
}

fn measure_this_stack(lab: &Lab, roce: &Path) -> Result<Figures, String> {
    let roce = roce.canonicalize().map_err(|e| e.to_string())?;
    let prefix = format!("{} run -q -- ", lab.guest_path(&roce));
    measure_both(lab, &prefix, "-d roce_lo -x 0", "127.0.0.1")
}

fn measure_both(lab: &Lab, prefix: &str, device: &str, address: &str) -> Result<Figures, String> {
    let says = |program: &str, options: &str| {
        let command = format!("stdbuf -oL {prefix}{program} -F {device} {options}");
        let mut server = lab
            .guest(["sh", "-c", &command])
            .spawn()
            .map_err(|e| e.to_string())?;
        let waits = server.wait_for_line("Waiting for client", TIMEOUT);
        waits.map_err(|e| e.to_string())?;
        let text = shell(lab, &format!("{command} {address}"))?;
        let ended = server.wait(TIMEOUT).and_then(|output| output.success());
        ended.map_err(|e| e.to_string())?;
        Ok::<_, String>(text)
    };
    let figure = |program: &str, options: &str, column| {
        let mut figure = perftest::parse_figure(program, &says(program, options)?, column);
        for _ in 0..REPETITIONS {
            let Err(lacks) = &figure else { break };
            say(format_args!("once more: {lacks}"));
            figure = perftest::parse_figure(program, &says(program, options)?, column);
        }
        figure
    };
    Ok(Figures {
        bandwidth: figure(
            "ib_write_bw",
            "-s 65536 -m 4096 -t 64 -Q 1 -n 3000 --report_gbits",
            perftest::AVERAGE_BANDWIDTH,
        )?,
        latency: figure("ib_write_lat", "-s 8 -n 3000", perftest::TYPICAL_LATENCY)?,
    })
}

/// The output of a shell command in the guest.
fn shell(lab: &Lab, script: &str) -> Result<String, String> {
    let output = lab.guest(["sh", "-c", script]).output(TIMEOUT);
    let output = output.and_then(|output| output.success());
    output.map(|o| o.stdout_text()).map_err(|e| e.to_string())
}
