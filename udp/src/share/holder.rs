//! The process that holds a name.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use roce_trust::{OwnUser, Peer, peer};

use super::names;

/// A snapshot of the process that has bound the name of an abstract Unix socket, such as a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process ID.
    pub pid: u32,
    /// The name of its program, truncated to 15 bytes; empty if the process has ended since. U+FFFD
    /// stands for control characters: any program chooses its own name.
    pub program: String,
}

impl Holder {
    /// The process that holds the abstract Unix socket of this name. `None` if it has ended or
    /// belongs to another user. This scans the descriptors of all processes, so use it only for
    /// error messages.
    pub(super) fn of(name: &str) -> Option<Self> {
        let table = fs::read("/proc/thread-self/net/unix").ok()?;
        let inode = inode(&String::from_utf8_lossy(&table), name)?;
        let link_target = PathBuf::from(format!("socket:[{inode}]"));
        let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.parse().ok()
        });
        let pid = pids.into_iter().find(|pid| has_open(*pid, &link_target))?;
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let program = program.trim_end().replace(char::is_control, "\u{fffd}");
        Some(Self { pid, program })
    }
}

/// Describes the process that has a name, for messages. The process need not be a member, because
/// any user can take any name.
pub(super) fn describe(name: &str) -> String {
    if let Ok(Peer { pid, user }) = names::connect(name).and_then(|stream| peer(&stream)) {
        return format!("process {pid} of {}", OwnUser::now().describe(user));
    }
    match Holder::of(name) {
        Some(holder) => holder.to_string(),
        None => format!(
            "a process that this one may not inspect (to find it, run `ss -xap | grep {name}` as \
             root)"
        ),
    }
}

/// The inode of a name in the kernel's table of Unix sockets. It is the seventh field, before the
/// name. A connection that waits to be accepted also has the name, but inode 0.
pub(super) fn inode(table: &str, name: &str) -> Option<u64> {
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(6);
        let inode = fields.next()?.parse().ok()?;
        let has_name = fields.next()?.strip_prefix('@')? == name;
        (has_name && inode != 0).then_some(inode)
    })
}

fn has_open(pid: u32, link_target: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut links = descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link == link_target)
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, program } = self;
        if *pid == std::process::id() {
            return write!(f, "this process ({pid})");
        }
        write!(f, "process {pid} ({program})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn the_process_that_holds_a_name_is_found() {
        let name = format!("{}/holder/{}", names::PREFIX, std::process::id());
        assert_eq!(Holder::of(&name), None);
        let held = names::hold_connectable(&name).expect("nobody else has it");
        assert_eq!(names::is_connectable(&name).ok(), Some(true));
        let found = Holder::of(&name).expect("it is there");
        assert_eq!(found.pid, std::process::id());
        assert!(!found.program.is_empty());
        let text = format!("this process ({})", std::process::id());
        assert_eq!(found.to_string(), text);
        let (user, full_backlog) = (OwnUser::now(), names::connect(&name));
        assert!(full_backlog.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        assert_eq!(describe(&name), text);
        drop(held);
        let _listener = names::listen(&name).expect("free again");
        let user = user.describe(user.id());
        let text = format!("process {} of {user}", std::process::id());
        assert_eq!(describe(&name), text);
    }

    #[test]
    fn a_message_says_how_to_find_an_unknown_process() {
        let name = format!("{}/nobody/{}", names::PREFIX, std::process::id());
        let text = describe(&name);
        assert!(text.contains(&format!("`ss -xap | grep {name}`")), "{text}");
    }
}
