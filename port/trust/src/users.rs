//! Which user something belongs to.

use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// The overflow ID of kernels that do not say another.
const DEFAULT_OVERFLOW_ID: u32 = 65534;

/// The user of this process, for comparison with the user IDs that the kernel reports: of sockets,
/// of their other ends, and of files.
///
/// The kernel translates each ID for the user namespace of the process that asks. It reports one
/// ID, the overflow ID, for every user that the namespace does not map. So unless the namespace maps
/// all users, as the initial one does, the overflow ID proves nothing, and it counts as nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnUser {
    id: u32,
    /// The ID that may stand for several users; `None` if each ID stands for one.
    ambiguous: Option<u32>,
}

impl OwnUser {
    /// The effective user of this process, in its user namespace. Both can change, so do not keep
    /// the value across such a change.
    pub fn now() -> Self {
        // SAFETY: the call only returns a number.
        let id = unsafe { libc::geteuid() };
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        Self {
            id,
            ambiguous: (!maps_all(&map)).then(overflow_id),
        }
    }

    /// A user, in a namespace where the ID `ambiguous` may stand for several users.
    pub const fn new(id: u32, ambiguous: Option<u32>) -> Self {
        Self { id, ambiguous }
    }

    /// The user's ID.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Whether the ID that the kernel reports is certainly this user's.
    pub fn is(&self, reported: u32) -> bool {
        reported == self.id && self.is_one_user(reported)
    }

    /// Whether the ID that the kernel reports is certainly this user's, or root's.
    pub fn is_or_root(&self, reported: u32) -> bool {
        self.is(reported) || (reported == 0 && self.is_one_user(reported))
    }

    /// Whether this user may read what belongs to the user whose ID the kernel reports: it is the
    /// same one, or this one is root and the other has an ID in its namespace.
    pub fn may_read(&self, reported: u32) -> bool {
        self.is(reported) || (self.id == 0 && self.is_one_user(reported))
    }

    /// Whether the ID that the kernel reports stands for one user.
    pub fn is_one_user(&self, reported: u32) -> bool {
        self.ambiguous != Some(reported)
    }

    /// The user whose ID the kernel reports, for messages: `root`, `user 1000`.
    pub fn describe(&self, reported: u32) -> String {
        match reported {
            _ if !self.is_one_user(reported) => {
                "a user that this user namespace does not map (root, perhaps)".to_owned()
            }
            0 => "root".to_owned(),
            _ => format!("user {reported}"),
        }
    }
}

/// Whether a namespace with this map (`/proc/PID/uid_map`) maps every user. A namespace can map only
/// users that its parent maps, so the parent maps every user, too.
fn maps_all(map: &str) -> bool {
    let count = |line: &str| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok();
    map.lines().filter_map(count).sum::<u64>() >= u32::MAX.into()
}

fn overflow_id() -> u32 {
    let reported = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    reported.trim().parse().unwrap_or(DEFAULT_OVERFLOW_ID)
}

/// Maps the IDs that this process had outside in the user namespace that it has just entered. An ordinary user
/// may map no others. They stay the same, but the user's is never the overflow ID, which all others have there.
/// Supplementary groups keep their rights, though they have no names in the namespace.
///
/// # Errors
/// If the system refuses.
pub fn map_ids(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    let inner = other_than(user, overflow_id());
    fs::write("/proc/self/uid_map", format!("{inner} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn other_than(id: u32, overflow: u32) -> u32 {
    match id == overflow {
        true => id.checked_sub(1).unwrap_or(DEFAULT_OVERFLOW_ID),
        false => id,
    }
}

/// The process at the other end of a Unix socket, when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its ID; 0 if this process's PID namespace does not show it.
    pub pid: i32,
    /// The ID of its user, as [`OwnUser`] compares it.
    pub user: u32,
}

/// Finds out who is at the other end of a Unix socket.
///
/// # Errors
/// If the descriptor is no Unix socket.
pub fn peer(socket: &impl AsFd) -> io::Result<Peer> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are those of a value of this size, and of the size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut size,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer {
        pid: found.pid,
        user: found.uid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_overflow_id_is_nobodys_unless_all_users_have_an_id() {
        let contained = OwnUser::new(65534, Some(65534));
        assert!(!contained.is(65534) && !contained.may_read(65534));
        assert!(contained.is_or_root(0));
        assert!(contained.describe(65534).contains("does not map"));
        let initial = OwnUser::new(65534, None);
        assert!(initial.is(65534) && !initial.is(1000) && !initial.may_read(1000));
        assert_eq!(initial.describe(65534), "user 65534");
        assert_eq!(initial.describe(0), "root");
    }

    #[test]
    fn the_same_user_and_root_are_told_from_others() {
        let user = OwnUser::new(1000, None);
        for (other, is_trusted) in [(0, true), (1000, true), (1001, false)] {
            assert_eq!(user.is_or_root(other), is_trusted, "{other}");
        }
        assert!(!OwnUser::new(0, None).is_or_root(1000));
    }

    #[test]
    fn root_of_a_namespace_is_not_root_for_users_outside() {
        let contained = OwnUser::new(0, Some(65534));
        assert!(contained.may_read(1000) && !contained.may_read(65534));
        assert!(OwnUser::new(0, None).may_read(65534));
        // A system can have any overflow ID.
        assert!(!OwnUser::new(1000, Some(0)).is_or_root(0));
    }

    #[test]
    fn only_a_whole_map_maps_all_users() {
        assert!(maps_all("         0          0 4294967295\n"));
        assert!(maps_all("0 0 1000\n1000 1001 4294966295\n"));
        for map in ["", "1000 1000 1", "0 100000 65536", "a b c", "0 0"] {
            assert!(!maps_all(map), "{map}");
        }
    }

    #[test]
    fn a_user_in_a_new_namespace_differs_from_those_outside() {
        assert_eq!(other_than(1000, 65534), 1000);
        assert_eq!(other_than(65534, 65534), 65533);
        assert_eq!(other_than(0, 0), 65534);
    }

    #[test]
    fn the_kernel_names_the_other_end() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = peer(&one).expect("a Unix socket");
        assert_eq!(peer.pid.cast_unsigned(), std::process::id());
        assert_eq!(peer.user, OwnUser::now().id());
        let other = std::fs::File::open("/dev/null").expect("there");
        super::peer(&other).expect_err("no socket");
    }
}
