//! The kernel's RDMA devices, which programs would use before those of this stack. Hosted machines
//! often have some that do not work.

use super::Context;
use crate::doctor::finding::Finding;
use crate::quote::printable;

const CHECK: &str = "hardware";

/// The devices in sysfs that are not this stack's, each with the reason if it can't work.
pub(in crate::doctor) fn hardware(context: &Context<'_>) -> Vec<Finding> {
    let foreign = context.machine.kernel_devices();
    if foreign.is_empty() {
        let what = "no other RDMA device is in /sys/class/infiniband";
        return vec![Finding::ok(CHECK, what)];
    }
    foreign.iter().map(|name| device(context, name)).collect()
}

fn device(context: &Context<'_>, name: &str) -> Finding {
    let shown = printable(name);
    let dead = [no_active_port(context, name), no_node(context, name)];
    let dead: Vec<String> = dead.into_iter().flatten().collect();
    if dead.is_empty() {
        let what = match context.run_shows_device_files() {
            true => format!("{shown} works, and is not seen by what `roce run` starts"),
            false => format!("{shown} works beside this stack's devices"),
        };
        return Finding::ok(CHECK, what);
    }
    let is_hidden = context.run_shows_device_files();
    let what = format!(
        "{shown} is in /sys/class/infiniband, but {}: UCX, libfabric and NCCL may take it and fail",
        dead.join(" and ")
    );
    let ours = context.machine.first_device().unwrap_or("roce_lo");
    Finding::unless_by_run(is_hidden, CHECK, what).remedy(match is_hidden {
        true => "roce run PROGRAM".to_owned(),
        false => format!(
            "export UCX_NET_DEVICES={ours}:1 FI_VERBS_DEVICE_NAME={ours} NCCL_IB_HCA={ours}"
        ),
    })
}

/// The reason, if no port of the device is active.
fn no_active_port(context: &Context<'_>, name: &str) -> Option<String> {
    let machine = context.machine;
    let ports = format!("/sys/class/infiniband/{name}/ports");
    let mut states = Vec::new();
    for port in machine.names(&ports) {
        let state = machine.text(format!("{ports}/{port}/state"));
        // "4: ACTIVE"
        let state = state.unwrap_or_default();
        states.push(state.rsplit(' ').next().unwrap_or_default().to_owned());
    }
    if states.iter().any(|state| state == "ACTIVE") {
        return None;
    }
    Some(match states.first() {
        None => "has no port".to_owned(),
        Some(state) => format!("its port is {state}"),
    })
}

/// The reason, if the device has no node that programs can open.
fn no_node(context: &Context<'_>, name: &str) -> Option<String> {
    let machine = context.machine;
    let class = "/sys/class/infiniband_verbs";
    let is_its = |uverbs: &String| {
        let of = machine.text(format!("{class}/{uverbs}/ibdev"));
        of.as_deref() == Some(name)
    };
    let Some(uverbs) = machine.names(class).into_iter().find(is_its) else {
        return Some("has no uverbs (the module ib_uverbs is not loaded)".to_owned());
    };
    let node = format!("/dev/infiniband/{uverbs}");
    let is_there = machine.at(&node).exists();
    (!is_there).then(|| format!("{node} is not there"))
}
