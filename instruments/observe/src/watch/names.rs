//! The names by which processes are found: abstract Unix sockets, which disappear with their
//! process and leave nothing in the file system.

use roce_trust::UnixSockets;
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The prefix of all names. Its number must change with the format of the answers.
const PREFIX: &str = "roce-watch-1/";

/// The Unix sockets of the calling thread's network namespace.
const TABLE: &str = "/proc/thread-self/net/unix";

/// The maximum length of a name that is considered, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Listens at a new name for this process. The process ID is not enough, since processes in several
/// PID namespaces may share a network namespace, so the name has a random part, too.
pub(super) fn listen() -> io::Result<(UnixListener, String)> {
    let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let name = format!("{PREFIX}{}/{random:016x}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((listener, name))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) name: String,
    /// The user that owns the socket, as [`OwnUser`](roce_trust::OwnUser) compares it, if the kernel
    /// says so.
    pub(super) owner: Option<u32>,
}

/// The names at which a process listens now.
pub(super) fn all() -> io::Result<Vec<Name>> {
    if let Ok(sockets) = UnixSockets::open().and_then(|kernel| kernel.list(PREFIX)) {
        let sockets = sockets.into_iter().filter(|one| one.is_listening);
        return Ok(sockets
            .filter(|one| is_valid(&one.name))
            .map(|one| Name {
                name: one.name,
                owner: one.uid,
            })
            .collect());
    }
    // A kernel without `sock_diag` has a table without owners.
    let table = fs::read(TABLE)
        .map_err(|error| io::Error::new(error.kind(), format!("reading {TABLE}: {error}")))?;
    let names = parse(&String::from_utf8_lossy(&table)).into_iter();
    Ok(names.map(|name| Name { name, owner: None }).collect())
}

/// The names in the kernel's table. An accepted connection has its listener's name, too; only the
/// listener's flag tells them apart.
pub(super) fn parse(table: &str) -> Vec<String> {
    let mut names: Vec<String> = table.lines().filter_map(listener).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Parses `Num: RefCount Protocol Flags Type St Inode @name` of a listening stream socket.
fn listener(line: &str) -> Option<String> {
    /// The kernel's `__SO_ACCEPTCON`: the socket listens.
    const ACCEPTCON: u32 = 1 << 16;
    const STREAM: &str = "0001";
    let mut fields = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
    if flags & ACCEPTCON == 0 || fields.next()? != STREAM {
        return None;
    }
    // Names that contain a space are not ours.
    let name = fields.nth(2)?.strip_prefix('@')?;
    is_valid(name).then(|| name.to_owned())
}

fn is_valid(name: &str) -> bool {
    let is_ours = |byte: u8| byte.is_ascii_hexdigit() || byte == b'/';
    let rest = name.strip_prefix(PREFIX);
    rest.is_some_and(|rest| name.len() <= MAX_NAME_BYTES && rest.bytes().all(is_ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_TEXT: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 2589204 @roce-watch-1/17/00ff
0000000000000000: 00000003 00000000 00000000 0001 03 2589205 @roce-watch-1/17/00ff
0000000000000000: 00000002 00000000 00010000 0001 01 2589206 @roce-watch-1/4/a1
0000000000000000: 00000003 00000000 00000000 0001 03 2589213 @roce-watch-1/18/00ff
0000000000000000: 00000002 00000000 00010000 0005 01 2589207 @roce-watch-1/5/a1
0000000000000000: 00000002 00000000 00010000 0001 01 2589208 /run/roce-watch-1/6/a1
0000000000000000: 00000002 00000000 00010000 0001 01 2589209 @roce-watch-2/7/a1
0000000000000000: 00000002 00000000 00010000 0001 01 2589210 @roce-watch-1/8/\u{1b}[2J
0000000000000000: 00000002 00000000 00000000 0002 01 2589211
0000000000000000: 00000002 00000000 0001zz00 0001 01 2589212 @roce-watch-1/9/a1
0000000000000000: 000000";

    /// Only listeners, only our names, and no control characters that a terminal would obey.
    #[test]
    fn the_kernels_table_is_parsed() {
        assert_eq!(
            parse(TABLE_TEXT),
            ["roce-watch-1/17/00ff", "roce-watch-1/4/a1"]
        );
        assert_eq!(parse(""), [""; 0]);
    }

    #[test]
    fn a_listener_is_found_until_it_is_closed() {
        let (listener, name) = listen().expect("a name");
        let found = || {
            all()
                .expect("the list")
                .into_iter()
                .find(|one| one.name == name)
        };
        let owner = found().expect("it listens").owner;
        // Kernels before Linux 5.3 do not say it.
        assert!(owner.is_none_or(|owner| owner == roce_trust::OwnUser::now().id()));
        drop(listener);
        assert_eq!(found(), None);
    }

    #[test]
    fn listeners_of_one_process_have_different_names() {
        let (one, two) = (listen().expect("a name"), listen().expect("a name"));
        assert_ne!(one.1, two.1);
    }
}
