//! The owners of UDP port 4791, which this stack shares among its own processes and with nothing
//! else.

use super::Context;
use crate::doctor::finding::Finding;
use crate::doctor::machine::Machine;
use crate::quote::quoted;
use std::collections::BTreeSet;
use std::fs;

const CHECK: &str = "port 4791";

/// Port 4791 in the kernel's tables.
const PORT: &str = "12B7";

/// A socket that is bound to the port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Socket {
    uid: u32,
    inode: u64,
}

/// A process that has such a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    pid: u32,
    name: String,
}

/// Checks whether another program holds the port.
pub(in crate::doctor) fn port(context: &Context<'_>) -> Vec<Finding> {
    let machine = context.machine;
    let sockets = sockets(machine);
    if sockets.is_empty() {
        return vec![Finding::ok(CHECK, "nothing holds it")];
    }
    let inodes: BTreeSet<u64> = sockets.iter().map(|socket| socket.inode).collect();
    let (holders, found) = holders(machine, &inodes);
    let ours = our_processes(machine);
    let (own_holders, other_holders): (BTreeSet<&Holder>, BTreeSet<&Holder>) = holders
        .iter()
        .partition(|holder| ours.contains(&holder.pid));
    let mut findings: Vec<Finding> = other_holders
        .iter()
        .map(|holder| held_by_other_program(holder))
        .collect();
    if let Some(hidden) = sockets.iter().find(|socket| !found.contains(&socket.inode)) {
        findings.extend(held_by_hidden_process(machine, hidden, !ours.is_empty()));
    }
    if findings.is_empty() && !own_holders.is_empty() {
        let names: Vec<String> = own_holders
            .iter()
            .map(|holder| holder.to_string())
            .collect();
        let what = format!("programs on this stack share it: {}", names.join(", "));
        findings.push(Finding::ok(CHECK, what));
    }
    findings
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {})", self.name.escape_debug(), self.pid)
    }
}

fn held_by_other_program(holder: &Holder) -> Finding {
    let what = format!(
        "{holder} holds it and does not use this stack: no device can be used at its addresses"
    );
    Finding::failure(CHECK, what).remedy(format!("kill {}", holder.pid))
}

/// The finding for a socket whose process is not visible from here.
fn held_by_hidden_process(machine: &Machine, socket: &Socket, has_ours: bool) -> Option<Finding> {
    let links = machine.kernel_devices();
    let rxe = links.iter().find(|name| {
        let parent = format!("/sys/class/infiniband/{name}/parent");
        machine.text(parent).is_some()
    });
    let modules = machine.text("/proc/modules").unwrap_or_default();
    let has_module = modules.lines().any(|line| line.starts_with("rdma_rxe "));
    if socket.uid == 0 && (rxe.is_some() || has_module) {
        let what =
            "the kernel's Soft-RoCE (rdma_rxe) holds it: no device of this stack works meanwhile";
        let remedy = match rxe {
            Some(name) => format!("sudo rdma link delete {}", quoted(name)),
            None => "sudo modprobe -r rdma_rxe".to_owned(),
        };
        return Some(Finding::failure(CHECK, what).remedy(remedy));
    }
    let uid = socket.uid;
    let what = match has_ours {
        // This stack's processes may own the socket, from another container in the same network
        // namespace.
        true => format!(
            "a process that is not seen from here holds it (user {uid}); if it is on this stack \
             but runs as another user, devices do not work"
        ),
        false => format!(
            "a process that is not seen from here holds it (user {uid}), and is no program on this \
             stack: no device can be used at its addresses"
        ),
    };
    let finding = match has_ours {
        true => Finding::warning(CHECK, what),
        false => Finding::failure(CHECK, what),
    };
    Some(finding.remedy("sudo ss -ulpn sport = :4791"))
}

/// The sockets bound to the port, from the kernel's tables.
fn sockets(machine: &Machine) -> Vec<Socket> {
    let mut found = Vec::new();
    for table in ["/proc/net/udp", "/proc/net/udp6"] {
        let text = machine.text(table).unwrap_or_default();
        found.extend(text.lines().filter_map(socket));
    }
    found.sort();
    found
}

/// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …`
fn socket(line: &str) -> Option<Socket> {
    let mut fields = line.split_whitespace();
    let (_, port) = fields.nth(1)?.rsplit_once(':')?;
    if port != PORT {
        return None;
    }
    let uid = fields.nth(5)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(Socket { uid, inode })
}

/// The processes that own sockets with these inodes, and the inodes found.
fn holders(machine: &Machine, inodes: &BTreeSet<u64>) -> (BTreeSet<Holder>, BTreeSet<u64>) {
    let mut holders = BTreeSet::new();
    let mut found = BTreeSet::new();
    for pid in machine.names("/proc") {
        let Ok(number) = pid.parse::<u32>() else {
            continue;
        };
        for fd in machine.names(format!("/proc/{pid}/fd")) {
            let target = fs::read_link(machine.at(format!("/proc/{pid}/fd/{fd}")));
            let target = target.unwrap_or_default();
            let inode = target.to_string_lossy();
            let inode = inode
                .strip_prefix("socket:[")
                .and_then(|t| t.strip_suffix(']'));
            let inode = inode.and_then(|inode| inode.parse().ok());
            if let Some(inode) = inode.filter(|inode| inodes.contains(inode)) {
                found.insert(inode);
                let name = machine
                    .text(format!("/proc/{pid}/comm"))
                    .unwrap_or_default();
                holders.insert(Holder { pid: number, name });
            }
        }
    }
    (holders, found)
}

/// The processes with open devices of this stack. Each answers `roce top` at a name with its
/// process ID.
fn our_processes(machine: &Machine) -> BTreeSet<u32> {
    let table = machine.text("/proc/net/unix").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| {
            let (_, name) = line.rsplit_once('@')?;
            let pid = name.strip_prefix("roce-watch-1/")?.split('/').next()?;
            pid.parse().ok()
        })
        .collect()
}
