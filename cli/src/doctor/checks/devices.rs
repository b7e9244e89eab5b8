//! This stack's devices, and the files that programs use to find them.

use super::Context;
use crate::doctor::finding::Finding;
use crate::doctor::machine::DeviceView;

pub(in crate::doctor) fn devices(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "devices";
    let devices = &context.machine.devices;
    if let Some(why) = &context.machine.unlisted {
        return vec![Finding::failure(CHECK, why)];
    }
    vec![match devices.is_empty() {
        false => Finding::ok(CHECK, context.machine.device_names().join(", ")),
        true => Finding::failure(
            CHECK,
            "there are none: no interface is up and has an address",
        )
        .remedy("ip link set lo up"),
    }]
}

/// Checks that there are device nodes, which UCX needs.
pub(in crate::doctor) fn nodes(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "/dev/infiniband";
    let nodes = context.machine.names("/dev/infiniband");
    let has_nodes = nodes.iter().any(|name| name.starts_with("uverbs"));
    if has_nodes {
        return vec![Finding::ok(CHECK, nodes.join(", "))];
    }
    let what = match nodes.is_empty() {
        true => "it does not exist",
        false => "it has no uverbs",
    };
    let is_shown = context.run_shows_device_files();
    let what = match is_shown {
        true => {
            format!("{what}: only programs under `roce run` find the device nodes that UCX needs")
        }
        false => format!("{what}: UCX finds no device, and so Open MPI and MPICH over UCX"),
    };
    vec![Finding::unless_by_run(is_shown, CHECK, what).remedy("roce run PROGRAM")]
}

/// Checks that programs see this stack's devices in sysfs.
pub(in crate::doctor) fn sysfs(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "sysfs";
    let machine = context.machine;
    let shown = machine.names("/sys/class/infiniband");
    let mut missing = machine.device_names();
    missing.retain(|device| !shown.iter().any(|name| name == device));
    if missing.is_empty() {
        let what = "/sys/class/infiniband has all devices of this stack";
        return vec![Finding::ok(CHECK, what)];
    }
    if !context.by_run {
        let what = format!(
            "/sys/class/infiniband does not have {}: NCCL and perftest read properties of devices \
             there, and UCX finds none",
            missing.join(", ")
        );
        return vec![Finding::failure(CHECK, what).remedy("roce run PROGRAM")];
    }
    vec![match &machine.device_view {
        DeviceView::Namespace => {
            Finding::ok(CHECK, "`roce run` shows its devices in a private /sys")
        }
        DeviceView::Preloaded(why) => Finding::ok(
            CHECK,
            format!("`roce run` shows its devices by a preloaded library, not by mounts: {why}"),
        ),
        DeviceView::Unavailable(why) => Finding::failure(
            CHECK,
            format!("`roce run` can't show programs its devices in /sys: {why}"),
        )
        .remedy(
            "sudo sysctl -w user.max_user_namespaces=15000; \
             sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    }]
}
