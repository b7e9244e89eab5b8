//! `nvme-rdma info`.

use super::args::ConnectArgs;
use super::{Outcome, say, size};
use crate::Address;
use crate::host::{Host, NamespaceInfo};
use crate::wire::identify::Controller;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use roce_trust::output;

/// Show a controller and its namespaces
#[derive(Args, Debug)]
pub(super) struct InfoArgs {
    /// The subsystem: nvme://ADDRESS[:PORT]/NQN
    #[arg(value_name = "ADDRESS")]
    address: Address,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) fn run(args: &InfoArgs) -> Outcome {
    let connect = || Host::connect(&args.address, &args.connect.options());
    let host = say::while_waiting_for(args.address.at, connect)?;
    let text = match args.json {
        true => json(host.controller(), host.namespaces()).to_string(),
        false => table(host.controller(), host.namespaces()),
    };
    host.shutdown()?;
    Ok(output::print_line(text)?)
}

fn version(controller: &Controller) -> String {
    let [tertiary, minor, major, _] = controller.version.to_le_bytes();
    format!("{major}.{minor}.{tertiary}")
}

fn guid(namespace: &NamespaceInfo) -> String {
    namespace
        .guid
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn table(controller: &Controller, namespaces: &[NamespaceInfo]) -> String {
    let transfer = controller
        .max_transfer()
        .map_or("no limit".to_owned(), size::show);
    let facts = [
        ("subsystem", controller.subsystem.clone()),
        ("model", controller.model.clone()),
        ("serial", controller.serial.clone()),
        ("firmware", controller.firmware.clone()),
        ("controller", controller.id.to_string()),
        ("NVMe version", version(controller)),
        ("most bytes of a command", transfer),
        (
            "data in a capsule",
            size::show(controller.in_capsule_len() as u64),
        ),
        (
            "volatile write cache",
            if controller.volatile_cache {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
        ),
    ];
    let mut text = String::new();
    for (name, value) in facts {
        text += &format!("{name:<24} {value}\n");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["namespace", "size", "bytes", "block", "NGUID"]);
    for n in namespaces {
        let (bytes, block) = (n.len().to_string(), n.block_len.to_string());
        table.add_row([
            n.number.to_string(),
            size::show(n.len()),
            bytes,
            block,
            guid(n),
        ]);
    }
    for column in table.column_iter_mut().take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{text}\n{table}")
}

fn json(controller: &Controller, namespaces: &[NamespaceInfo]) -> serde_json::Value {
    let record = |n: &NamespaceInfo| {
        serde_json::json!({
            "number": n.number, "bytes": n.len(), "block_bytes": n.block_len, "nguid": guid(n),
        })
    };
    serde_json::json!({
        "subsystem": controller.subsystem,
        "model": controller.model,
        "serial": controller.serial,
        "firmware": controller.firmware,
        "controller": controller.id,
        "version": version(controller),
        "max_transfer_bytes": controller.max_transfer(),
        "in_capsule_bytes": controller.in_capsule_len(),
        "volatile_write_cache": controller.volatile_cache,
        "namespaces": namespaces.iter().map(record).collect::<Vec<_>>(),
    })
}
