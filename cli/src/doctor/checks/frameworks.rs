//! Which devices and transports UCX, libfabric, Open MPI and NCCL will use.

use super::Context;
use crate::doctor::finding::Finding;
use crate::doctor::loader::{Loader, Start};
use crate::doctor::machine::Machine;
use crate::run::frameworks::{Framework, lacking, mentions_fence_mode};
use std::fs;

/// The elements of a list in a variable. A leading `^` means "all but these".
struct List {
    all_but: bool,
    elements: Vec<String>,
}

impl List {
    fn of(text: &str) -> Self {
        let (all_but, list) = match text.strip_prefix('^') {
            Some(list) => (true, list),
            None => (false, text),
        };
        let elements = list.split([',', ';']).map(|part| part.trim().to_owned());
        Self {
            all_but,
            elements: elements.filter(|part| !part.is_empty()).collect(),
        }
    }

    /// Whether the list selects one of these.
    fn selects(&self, any_of: &[&str]) -> bool {
        let named = self.elements.iter().any(|e| any_of.contains(&e.as_str()));
        named != self.all_but
    }
}

/// A finding if a variable names only devices that do not exist. `what` says whether an element of
/// the list names a device, and `name` is the device's name in an element, empty if it has none. The
/// remedy gives devices these names, or else sets the variable to `right`.
fn names_no_device(
    context: &Context<'_>,
    check: &str,
    variable: &str,
    what: impl Fn(&str, &str) -> bool,
    name: fn(&str) -> &str,
    right: &str,
) -> Option<Finding> {
    let value = context.machine.variable(variable)?;
    let list = List::of(&value);
    let devices = &context.machine.devices;
    let is_there = |element: &String| devices.iter().any(|device| what(element, &device.name));
    if list.all_but || list.elements.iter().any(is_there) {
        return None;
    }
    let what = format!(
        "{variable} is {value:?}, which names none of the devices that are there: {}",
        context.machine.device_names().join(", ")
    );
    let choose = format!("export {variable}={right}");
    let names = list.elements.iter().map(|element| name(element)).collect();
    Some(match renaming(context.machine, names) {
        None => Finding::failure(check, what).remedy(choose),
        Some(value) => {
            let what = format!("{what}. Rename one, or choose one: {choose}");
            Finding::failure(check, what).remedy(format!("export ROCE_DEVICE_NAMES={value}"))
        }
    })
}

/// The value of `ROCE_DEVICE_NAMES` that gives devices these names, if that is possible. The loopback
/// gets one only if there is no other device.
fn renaming(machine: &Machine, mut names: Vec<&str>) -> Option<String> {
    let of_kernel = machine.kernel_devices();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    let is_free = |name: &&str| {
        !name.is_empty() && name.bytes().all(is_plain) && !of_kernel.iter().any(|it| it == name)
    };
    if machine.variable("ROCE_DEVICE_NAMES").is_some() || !names.iter().all(is_free) {
        return None;
    }
    names.sort();
    names.dedup();
    let is_alone = machine.devices.len() == 1;
    let devices = machine.devices.iter();
    let devices = devices.filter(|device| is_alone || !device.is_loopback);
    let pairs = devices.zip(names);
    let pairs: Vec<_> = pairs
        .map(|(it, name)| format!("{}={name}", it.interface))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(","))
}

/// UCX selects devices by its list of transports, and by their names.
pub(in crate::doctor) fn ucx(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "UCX";
    const VERBS: [&str; 8] = [
        "all", "ib", "rc", "rc_v", "rc_verbs", "ud", "ud_v", "ud_verbs",
    ];
    if let Some(tls) = context.machine.variable("UCX_TLS")
        && !List::of(&tls).selects(&VERBS)
    {
        let what =
            format!("UCX_TLS is {tls:?}: that leaves out InfiniBand verbs, and so this stack");
        let finding = Finding::failure(CHECK, what);
        return vec![finding.remedy("export UCX_TLS=rc_verbs,ud_verbs,self,sm")];
    }
    let matches = |element: &str, device: &str| {
        let name = element.split(':').next().unwrap_or_default();
        element == "all" || name == device
    };
    // Without a port, the name is that of an interface, for TCP.
    let name: fn(&str) -> &str = |element| element.split_once(':').map_or("", |(name, _)| name);
    let missing = names_no_device(context, CHECK, "UCX_NET_DEVICES", matches, name, "all");
    if let Some(finding) = missing {
        return vec![finding];
    }
    if !context.has_nodes() {
        let finding = Finding::failure(CHECK, "finds no device, since /dev/infiniband has none");
        return vec![finding.remedy("roce run PROGRAM")];
    }
    vec![is_ready(
        context,
        CHECK,
        Framework::Ucx,
        "rc_verbs and ud_verbs of",
    )]
}

/// libfabric uses its verbs provider unless a variable says otherwise.
pub(in crate::doctor) fn libfabric(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "libfabric";
    if let Some(provider) = context.machine.variable("FI_PROVIDER")
        && !List::of(&provider).selects(&["verbs", "verbs;ofi_rxm", "verbs;ofi_rxd", "ofi_rxm"])
    {
        let what = format!("FI_PROVIDER is {provider:?}: that leaves out verbs, and so this stack");
        return vec![Finding::failure(CHECK, what).remedy("export FI_PROVIDER=verbs")];
    }
    let matches = |element: &str, device: &str| element == device;
    let right = context.machine.first_device().unwrap_or("roce_lo");
    let missing = names_no_device(
        context,
        CHECK,
        "FI_VERBS_DEVICE_NAME",
        matches,
        |name| name,
        right,
    );
    vec![missing.unwrap_or_else(|| uses(context, CHECK, "the provider verbs with"))]
}

/// The administrator's settings of Open MPI, where packages install them.
const OPEN_MPI_SETTINGS: &str = "/etc/openmpi/openmpi-mca-params.conf";

/// Open MPI uses UCX by default only for devices with NVIDIA's names, and Debian's not at all.
pub(in crate::doctor) fn open_mpi(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "Open MPI";
    let machine = context.machine;
    let pml = machine.variable("OMPI_MCA_pml");
    vec![match pml.as_deref().map(List::of) {
        Some(list) if list.selects(&["ucx"]) || list.selects(&["cm"]) => {
            uses(context, CHECK, "the pml that is asked for, and so")
        }
        Some(_) => Finding::failure(
            CHECK,
            format!(
                "OMPI_MCA_pml is {:?}: messages between hosts go over TCP",
                pml.unwrap_or_default()
            ),
        )
        .remedy("export OMPI_MCA_pml=ucx"),
        None if leaves_ucx_out(&machine.text(OPEN_MPI_SETTINGS).unwrap_or_default()) => {
            let what = format!(
                "{OPEN_MPI_SETTINGS} leaves UCX out: data silently moves over shared memory or \
                 TCP"
            );
            Finding::warning(CHECK, what).remedy("export OMPI_MCA_pml=ucx")
        }
        None => is_ready(context, CHECK, Framework::OpenMpi, "UCX, and so"),
    }]
}

/// Whether a file of settings keeps Open MPI from UCX.
fn leaves_ucx_out(settings: &str) -> bool {
    let lines = settings.lines().filter_map(|line| line.split_once('='));
    let mut pml = lines.filter(|(name, _)| name.trim() == "pml");
    pml.any(|(_, value)| !List::of(value.trim()).selects(&["ucx"]))
}

/// NCCL uses all devices unless a variable disables them.
pub(in crate::doctor) fn nccl(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "NCCL";
    let machine = context.machine;
    let is_on = |value: &String| value != "0";
    if let Some(value) = machine.variable("NCCL_IB_DISABLE").filter(is_on) {
        let what = format!("NCCL_IB_DISABLE is {value:?}: data goes over TCP");
        return vec![Finding::failure(CHECK, what).remedy("export NCCL_IB_DISABLE=0")];
    }
    if let Some(net) = machine.variable("NCCL_NET").filter(|net| net != "IB") {
        let what = format!("NCCL_NET is {net:?}: data does not go over verbs");
        return vec![Finding::failure(CHECK, what).remedy("export NCCL_NET=IB")];
    }
    let name: fn(&str) -> &str = |element| {
        let name = element.strip_prefix('=').unwrap_or(element);
        name.split(':').next().unwrap_or_default()
    };
    // Without a leading `=`, a name is a prefix.
    let matches = |element: &str, device: &str| {
        let name = name(element);
        match element.starts_with('=') {
            true => device == name,
            false => device.starts_with(name),
        }
    };
    let right = machine.first_device().unwrap_or("roce_lo");
    let missing = names_no_device(context, CHECK, "NCCL_IB_HCA", matches, name, right);
    if let Some(finding) = missing {
        return vec![finding];
    }
    vec![is_ready(
        context,
        CHECK,
        Framework::Nccl,
        "its IB transport with",
    )]
}

/// A finding if the framework lacks settings, which `roce run` makes.
fn lacks_settings(context: &Context<'_>, check: &str, framework: Framework) -> Option<Finding> {
    if context.by_run {
        return None;
    }
    let machine = context.machine;
    let ucx = Loader::new(machine, Start::Directly).opened("libucp.so.0");
    let ucx = ucx.and_then(|path| fs::read(path).ok());
    let has_fence_mode = ucx.is_some_and(|library| mentions_fence_mode(&library));
    let is_set = |name: &str| machine.variable(name).is_some();
    let mut lacking = lacking(&machine.devices, has_fence_mode, is_set);
    lacking.retain(|setting| setting.framework == framework);
    if lacking.is_empty() {
        return None;
    }
    let what = lacking
        .iter()
        .map(|setting| format!("without {}, {}", setting.name, setting.without));
    let settings = lacking
        .iter()
        .map(|setting| format!("{}='{}'", setting.name, setting.value));
    let what = what.collect::<Vec<_>>().join("; ");
    let remedy = format!("export {}", settings.collect::<Vec<_>>().join(" "));
    Some(Finding::warning(check, what).remedy(remedy))
}

/// The finding that the framework lacks settings, or else that it works.
fn is_ready(context: &Context<'_>, check: &str, framework: Framework, what: &str) -> Finding {
    let lacks = lacks_settings(context, check, framework);
    lacks.unwrap_or_else(|| uses(context, check, what))
}

/// The finding that the framework works, as far as the doctor can tell.
fn uses(context: &Context<'_>, check: &str, what: &str) -> Finding {
    let devices = context.machine.device_names().join(", ");
    let how = match context.by_run {
        true => ", under `roce run`",
        false => "",
    };
    Finding::ok(check, format!("uses {what} {devices}{how}"))
}
