//! `nvme-rdma discover`.

use super::args::ConnectArgs;
use super::{Outcome, say};
use crate::Address;
use crate::host::discover;
use crate::wire::discovery::{DiscoveryEntry, SubsystemType};
use clap::Args;
use comfy_table::{Table, presets};
use roce_trust::output;

/// List the subsystems that a discovery service knows
#[derive(Args, Debug)]
pub(super) struct DiscoverArgs {
    /// The discovery service: nvme://ADDRESS[:PORT]
    #[arg(value_name = "ADDRESS")]
    address: Address,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) fn run(args: &DiscoverArgs) -> Outcome {
    let ask = || discover(args.address.at, &args.connect.options());
    let entries = say::while_waiting_for(args.address.at, ask)?;
    let text = match args.json {
        true => json(&entries).to_string(),
        false => table(&entries).to_string(),
    };
    Ok(output::print_line(text)?)
}

fn kind(entry: &DiscoveryEntry) -> String {
    match entry.kind {
        SubsystemType::Referral => "referral".to_owned(),
        SubsystemType::Nvm => "NVM".to_owned(),
        SubsystemType::Itself => "this service".to_owned(),
        SubsystemType::Other(number) => format!("type {number}"),
    }
}

fn address(entry: &DiscoveryEntry) -> String {
    match entry.address.contains(':') {
        true => format!(
            "nvme://[{}]:{}/{}",
            entry.address, entry.service, entry.subsystem
        ),
        false => format!(
            "nvme://{}:{}/{}",
            entry.address, entry.service, entry.subsystem
        ),
    }
}

fn table(entries: &[DiscoveryEntry]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["kind", "transport", "address"]);
    for entry in entries {
        let transport = if entry.is_rdma { "RDMA" } else { "another" };
        table.add_row([kind(entry), transport.to_owned(), address(entry)]);
    }
    table
}

fn json(entries: &[DiscoveryEntry]) -> serde_json::Value {
    let record = |entry: &DiscoveryEntry| {
        serde_json::json!({
            "kind": kind(entry),
            "rdma": entry.is_rdma,
            "address": entry.address,
            "service": entry.service,
            "subsystem": entry.subsystem,
            "url": address(entry),
        })
    };
    entries.iter().map(record).collect()
}
