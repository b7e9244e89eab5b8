//! Limits of this process and of the kernel that affect data transfer.

use super::Context;
use crate::doctor::finding::Finding;
use crate::doctor::machine::Machine;
use crate::quote::quoted;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// With less memory than this, a program with a few queues and its buffers is killed.
const TOO_LITTLE_MEMORY: u64 = 64 * MIB;

/// With less memory than this, a larger program may be killed.
const LITTLE_MEMORY: u64 = 512 * MIB;

/// Checks how much of the cgroup's memory limit is left.
pub(in crate::doctor) fn memory(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "memory";
    let Some(left) = memory_left(context.machine) else {
        return vec![Finding::ok(CHECK, "the memory cgroup sets no limit")];
    };
    let Left { bytes, limit, file } = left;
    let what = format!(
        "{} MiB are left of the {} MiB that the memory cgroup allows ({file})",
        bytes / MIB,
        limit / MIB
    );
    let remedy = format!(
        "echo {} | sudo tee {}",
        limit.max(bytes).saturating_add(1024 * MIB),
        quoted(&file)
    );
    vec![match bytes {
        ..TOO_LITTLE_MEMORY => {
            Finding::failure(CHECK, format!("{what}: programs are killed")).remedy(remedy)
        }
        TOO_LITTLE_MEMORY..LITTLE_MEMORY => Finding::warning(CHECK, what).remedy(remedy),
        _ => Finding::ok(CHECK, what),
    }]
}

/// The rest of a memory limit.
struct Left {
    bytes: u64,
    limit: u64,
    file: String,
}

/// The tightest limit of this process's cgroups, of either version.
fn memory_left(machine: &Machine) -> Option<Left> {
    let text = machine.text("/proc/self/cgroup")?;
    let mut tightest: Option<Left> = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (mount, limit, usage) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            "memory" => (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => continue,
        };
        let group = PathBuf::from(mount).join(path.trim_start_matches('/'));
        // The limits of the parent groups apply, too. In a container the path may be that of the
        // host, and only the mount itself exists.
        for folder in group.ancestors().take_while(|at| at.starts_with(mount)) {
            let Some(limit_bytes) = machine.number(folder.join(limit)) else {
                continue;
            };
            // Version 1's value for "no limit".
            if limit_bytes >= 1 << 60 {
                continue;
            }
            let used = machine.number(folder.join(usage)).unwrap_or(0);
            let used = used.saturating_sub(cached(machine, &folder.join("memory.stat")));
            let bytes = limit_bytes.saturating_sub(used);
            if tightest.as_ref().is_none_or(|found| bytes < found.bytes) {
                tightest = Some(Left {
                    bytes,
                    limit: limit_bytes,
                    file: folder.join(limit).display().to_string(),
                });
            }
        }
    }
    tightest
}

/// File cache that the kernel frees when memory is short.
fn cached(machine: &Machine, file: &std::path::Path) -> u64 {
    let text = machine.text(file).unwrap_or_default();
    let is_it = |line: &&str| line.starts_with("inactive_file ");
    let line = text.lines().find(is_it).unwrap_or_default();
    let number = line.rsplit(' ').next().unwrap_or_default();
    number.parse().unwrap_or(0)
}

/// The soft limit with this name; `None` if it is unlimited or unknown.
fn limit(machine: &Machine, name: &str) -> Option<u64> {
    let text = machine.text("/proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Checks how much memory may be locked. This stack locks none; programs may.
pub(in crate::doctor) fn locked_memory(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "locked memory";
    const LITTLE: u64 = 8 * MIB;
    vec![match limit(context.machine, "Max locked memory") {
        None => Finding::ok(CHECK, "unlimited"),
        Some(bytes) if bytes >= LITTLE => {
            Finding::ok(CHECK, format!("{} KiB; this stack locks none", bytes >> 10))
        }
        Some(bytes) => Finding::warning(
            CHECK,
            format!(
                "{} KiB: enough for this stack, which locks none, but not for programs that lock \
                 their buffers, nor for AF_XDP before Linux 5.11",
                bytes >> 10
            ),
        )
        .remedy("ulimit -l unlimited"),
    }]
}

/// Checks the limit on descriptors: sockets, event descriptors, completion channels.
pub(in crate::doctor) fn open_files(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "open files";
    const REMEDY: &str = "ulimit -n $(ulimit -H -n)";
    vec![match limit(context.machine, "Max open files") {
        None => Finding::ok(CHECK, "unlimited"),
        Some(files @ ..64) => Finding::failure(
            CHECK,
            format!("{files}: a device needs some 20, for its sockets, threads and channels"),
        )
        .remedy(REMEDY),
        Some(files @ 64..1024) => Finding::warning(
            CHECK,
            format!("{files}: too few for programs with many devices or processes"),
        )
        .remedy(REMEDY),
        Some(files) => Finding::ok(CHECK, files.to_string()),
    }]
}

/// Checks the capacity of pipes, which programs and launchers use to exchange data.
pub(in crate::doctor) fn pipes(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "pipes";
    const PAGES: u64 = 1024;
    let number = |name: &str| context.machine.number(format!("/proc/sys/fs/{name}"));
    let size = number("pipe-max-size").unwrap_or(MIB);
    if size < 64 << 10 {
        let what = format!("a pipe may hold {size} bytes at most, not even the usual 65536");
        let remedy = format!("sudo sysctl -w fs.pipe-max-size={MIB}");
        return vec![Finding::warning(CHECK, what).remedy(remedy)];
    }
    // 0 means no limit.
    for (name, usual) in [
        ("pipe-user-pages-soft", 16_384),
        ("pipe-user-pages-hard", 0),
    ] {
        if let Some(pages @ 1..PAGES) = number(name) {
            let what = format!("all pipes of a user may hold {pages} pages only (fs.{name})");
            let remedy = format!("sudo sysctl -w fs.{name}={usual}");
            return vec![Finding::warning(CHECK, what).remedy(remedy)];
        }
    }
    vec![Finding::ok(CHECK, format!("up to {} KiB each", size >> 10))]
}

/// Checks the receive buffer that the kernel gives to a device's sockets.
pub(in crate::doctor) fn udp_buffer(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "UDP buffers";
    let asked = context.machine.variable("ROCE_UDP_BUFFER_MIB");
    let asked = asked.and_then(|mib| mib.parse().ok()).unwrap_or(4_u64);
    let wanted = asked.saturating_mul(MIB);
    vec![
        match context.machine.number("/proc/sys/net/core/rmem_max") {
            Some(most) if most < wanted => Finding::warning(
                CHECK,
                format!(
                    "net.core.rmem_max allows {} KiB, and this stack asks for {} KiB: without \
                 CAP_NET_ADMIN, bursts overflow the buffer, and the lost packets are retransmitted",
                    most >> 10,
                    wanted >> 10
                ),
            )
            .remedy(format!("sudo sysctl -w net.core.rmem_max={wanted}")),
            Some(most) => Finding::ok(CHECK, format!("up to {} KiB", most >> 10)),
            // A container may hide it.
            None => Finding::ok(CHECK, "their limit is not shown here"),
        },
    ]
}
