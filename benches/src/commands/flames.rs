//! Profiles both ends of a transfer, and writes flame graphs and a table.

use clap::Parser;
use roce_benches::command::print;
use roce_benches::flames::kinds::table;
use roce_benches::flames::record::{self, Profiles};
use roce_benches::flames::svg::flame_graph;
use roce_benches::page::{machine, write_between};
use roce_benches::veth::VethPair;
use std::path::{Path, PathBuf};

/// Flame graphs of both ends of 64 KiB WRITEs over a veth pair with MTU 9000
///
/// Needs root (it makes two network namespaces), iproute2 and perf. Prints a table of the processor
/// time of each end by kind of work; with --write it replaces flames-udp-sender.svg and
/// flames-udp-receiver.svg in that folder, and the profile in its benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Seconds of the transfer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,

    /// The datapath of both ends
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ["udp", "xdp"])]
    datapath: String,

    /// The folder to write into
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let roce = record::build()?;
    let pair = VethPair::new(9000)?;
    let folder = roce.with_file_name("profiles");
    std::fs::create_dir_all(&folder).map_err(|e| format!("making {}: {e}", folder.display()))?;
    let profiles = record::write(&pair, &roce, &folder, &args.datapath, 65536, args.seconds)?;
    let text = text(&profiles);
    print(&text)?;
    let Some(folder) = &args.write else {
        return Ok(());
    };
    for (end, stacks) in [
        ("sender", &profiles.sender),
        ("receiver", &profiles.receiver),
    ] {
        let by = match args.datapath.as_str() {
            "xdp" => "AF_XDP",
            _ => "UDP sockets",
        };
        let title = format!("64 KiB WRITEs over veth, MTU 9000, {by}: the {end}");
        write(
            folder,
            &format!("flames-{}-{end}.svg", args.datapath),
            &flame_graph(stacks, &title),
        )?;
    }
    let kind = format!("profile {}", args.datapath);
    write_between(&folder.join("benchmarks.md"), &kind, &text)
}

fn text(profiles: &Profiles) -> String {
    format!(
        "Machine: {}. {:.1} Gb/s while this was taken, {} and {} samples.\n\n{}",
        machine(),
        profiles.bits_per_second / 1e9,
        profiles.sender.len(),
        profiles.receiver.len(),
        table(&profiles.sender, &profiles.receiver)
    )
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("writing {}: {e}", path.display()))
}
