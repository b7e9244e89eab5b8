//! Joining a group.
//!
//! Only the process that holds the lock's name may change the group of an address. It requests the
//! sockets from the members, and adds the missing ones up to its own. It may add a socket only if
//! it holds all sockets of the group. Otherwise, for example while a process that is about to end
//! still has another socket open, the new socket would get the wrong number.
//!
//! Any user can take any name, so a name alone proves nothing. A process counts as a member if the
//! kernel says that it belongs to this user (`SO_PEERCRED`); only then is a message read from it. If
//! another user has a name, this user's processes take a variant of it
//! ([`owned_names`](super::owned_names)). Every wait for a name ends with an error.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_port::{Offers, PortError};
use roce_stack::QpnRange;
use roce_trust::{OwnUser, Peer, peer};
use socket2::Socket;

use super::keeper::{self, HeldSockets, Keeper};
use super::member::Member;
use super::message::{self, Kind};
use super::names::{self, SharedAddress};
use super::owned_names::{OwnedNames, Variants};
use super::{group, holder, process_sockets, sockets};
use crate::ROCE_UDP_PORT;
use crate::bind::bind;
use crate::config::UdpPortConfig;

/// The time to wait for a member's answer before asking another member.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// The time to wait for members that are about to leave or to answer.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The time to wait for the address while a socket outside any group is bound to it.
const TAKEN_TIMEOUT: Duration = Duration::from_millis(500);
/// The minimum number of attempts, even if they take longer than the timeout.
const MIN_ATTEMPTS: u32 = 5;
/// The maximum number of attempts in a row, about a second, to get the lock from a process that does
/// not show itself as one of this user. A process that begins to share an address has the lock for
/// a few milliseconds.
const MAX_STRANGE_ATTEMPTS: u32 = 200;
/// The time between attempts. The kernel does not report when another process closes a socket.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// No descriptors.
const NONE: &[OwnedFd] = &[];

/// Joins the group of `address` as the member for `part`. Returns the socket to use and the
/// membership.
///
/// # Errors
/// If another process has the port and does not share it with this one. The text says which
/// process, and what to do.
pub(crate) fn join(
    config: &UdpPortConfig,
    address: std::net::IpAddr,
    part: QpnRange,
    offers: Option<&Arc<dyn Offers>>,
) -> Result<(Socket, Member), PortError> {
    let mut joining = Joining {
        config,
        offers,
        shared: SharedAddress::new(address, config.interface_index),
        part,
        held: None,
        names: OwnedNames::new(),
    };
    let _lock = joining.lock()?;
    joining.held = process_sockets::held(joining.shared);
    let listener = joining.take_member_name()?;
    let (sockets, peers) = joining.collect_sockets()?;
    joining
        .finish(listener, sockets, peers)
        .map_err(|source| joining.error("becoming one of the processes that share it", source))
}

struct Joining<'a> {
    config: &'a UdpPortConfig,
    /// What is offered to the member goes there.
    offers: Option<&'a Arc<dyn Offers>>,
    shared: SharedAddress,
    part: QpnRange,
    /// The sockets that this process already holds, if it is already a member with another part.
    held: Option<HeldSockets>,
    names: OwnedNames,
}

/// A member in another process.
struct OtherMember {
    part: QpnRange,
    stream: UnixStream,
}

/// The members that joined earlier.
struct OtherMembers {
    other_processes: Vec<OtherMember>,
    /// Members in this process, which holds their sockets.
    this_process: Vec<QpnRange>,
}

/// Why the group's sockets are not available now.
enum Obstacle {
    /// A socket outside any group is bound to the port.
    Taken(PortError),
    /// The process with this ID does not answer.
    Silent(i32),
    /// Sockets exist that no member has handed over.
    Unknown,
    /// An error that waiting does not resolve.
    Final(PortError),
}

impl From<io::Error> for Obstacle {
    fn from(source: io::Error) -> Self {
        Self::Final(PortError {
            what: format!("making the sockets that share UDP port {ROCE_UDP_PORT}"),
            source,
        })
    }
}

impl From<PortError> for Obstacle {
    fn from(error: PortError) -> Self {
        match error.source.kind() {
            ErrorKind::AddrInUse => Self::Taken(error),
            _ => Self::Final(error),
        }
    }
}

impl Joining<'_> {
    /// Waits until no other process changes the group.
    fn lock(&self) -> Result<UnixListener, PortError> {
        let name = self.shared.lock();
        let failed = |source| self.error("waiting for a process that begins to share it", source);
        let start = Instant::now();
        // The second number is of those in a row that found no process of this user.
        let (mut attempts, mut strange_attempts) = (0, 0);
        loop {
            match self.names.listen(&name) {
                Ok(lock) => return Ok(lock),
                Err(error) if error.kind() != ErrorKind::AddrInUse => return Err(failed(error)),
                Err(_) => {}
            }
            strange_attempts = if wait_for_release(&name, &self.names.variants()) {
                0
            } else {
                strange_attempts + 1
            };
            attempts += 1;
            let is_late = attempts > MIN_ATTEMPTS && start.elapsed() > 2 * JOIN_TIMEOUT;
            if is_late || strange_attempts > MAX_STRANGE_ATTEMPTS {
                let what = format!(
                    "{} has the lock with which processes begin to share it, and keeps the lock: \
                     resume (SIGCONT) or end that process, or use another address of {}",
                    self.describe_holder(&name),
                    self.config.interface
                );
                return Err(self.error(&what, ErrorKind::TimedOut.into()));
            }
        }
    }

    /// Takes the name of the member for this part.
    fn take_member_name(&self) -> Result<UnixListener, PortError> {
        let name = self.shared.member(self.part);
        let start = Instant::now();
        let mut attempts = 0;
        loop {
            match self.names.listen(&name) {
                Ok(listener) => return Ok(listener),
                // The previous member is ending, or another member is emptying that member's
                // socket.
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse
                        && (attempts < MIN_ATTEMPTS || start.elapsed() < JOIN_TIMEOUT) =>
                {
                    attempts += 1;
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(source) => {
                    let what = format!(
                        "{} has part {} of the QPNs: it uses the address on another interface, or \
                         only has the part's name. Stop that process, or use another address of {}",
                        self.describe_holder(&name),
                        self.part.number(),
                        self.config.interface
                    );
                    return Err(self.error(&what, source));
                }
            }
        }
    }

    /// Returns all sockets from the first to this process's, and the members in other processes.
    /// Waits until they are available.
    fn collect_sockets(&self) -> Result<(Vec<OwnedFd>, Vec<OtherMember>), PortError> {
        let start = Instant::now();
        let mut attempts = 0;
        loop {
            let others = self.find_others()?;
            let obstacle = match self.sockets_up_to_own(&others) {
                Ok((sockets, added)) => {
                    let others = others.other_processes;
                    announce(&others, self.part, if added { &sockets } else { NONE });
                    return Ok((sockets, others));
                }
                Err(Obstacle::Final(error)) => return Err(error),
                Err(obstacle) => obstacle,
            };
            attempts += 1;
            let timeout = match obstacle {
                Obstacle::Taken(_) => TAKEN_TIMEOUT,
                _ => JOIN_TIMEOUT,
            };
            if attempts > MIN_ATTEMPTS && start.elapsed() > timeout {
                return Err(self.timeout_error(obstacle));
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Finds the members that exist now.
    fn find_others(&self) -> Result<OtherMembers, PortError> {
        let mut others = OtherMembers {
            other_processes: Vec::new(),
            this_process: Vec::new(),
        };
        let mut other_users = Vec::new();
        let failed = |source| self.error("asking which processes share it", source);
        let user = OwnUser::now();
        let variants = self.names.variants();
        for part in (0..QpnRange::COUNT).filter_map(QpnRange::new) {
            if part == self.part {
                continue;
            }
            let stream = match variants.connect(&self.shared.member(part)) {
                Ok(stream) => stream,
                Err(error) if no_files_left(&error) => return Err(failed(error)),
                // No process listens, or the one that does accepts no connections.
                Err(_) => continue,
            };
            let found = peer(&stream).map_err(failed)?;
            if !user.is(found.user) {
                other_users.push(found);
                continue;
            }
            if self.held.is_some() && u32::try_from(found.pid) == Ok(std::process::id()) {
                others.this_process.push(part);
                continue;
            }
            stream
                .set_read_timeout(Some(ANSWER_TIMEOUT))
                .map_err(failed)?;
            others.other_processes.push(OtherMember { part, stream });
        }
        self.check_other_users(&other_users)?;
        Ok(others)
    }

    /// Fails if another user has the port. `other_users` are the processes of other users that have
    /// members' names. A name proves nothing, so the kernel's table of sockets decides.
    fn check_other_users(&self, other_users: &[Peer]) -> Result<(), PortError> {
        if other_users.is_empty() {
            return Ok(());
        }
        let bound = sockets::bound_to(self.shared.address).unwrap_or_default();
        let has_port = |uid| bound.iter().any(|socket| socket.uid == uid);
        match other_users.iter().find(|other| has_port(other.user)) {
            Some(other) => Err(self.other_user_error(*other)),
            None => Ok(()),
        }
    }

    /// Returns the sockets from the first to this process's, and whether some of them are new.
    fn sockets_up_to_own(&self, others: &OtherMembers) -> Result<(Vec<OwnedFd>, bool), Obstacle> {
        let needed = usize::from(self.part.number()) + 1;
        let address = self.shared.address;
        let bind = |socket: &Socket| bind(socket, self.config, address);
        let mut silent_pid = None;
        let mut held = self.clone_held()?;
        // Ask the last member first, because it most likely holds all sockets.
        for other in others.other_processes.iter().rev() {
            if held.len() >= needed || !held.is_empty() && group::is_complete(&held, address)? {
                break;
            }
            match request_sockets(&other.stream, self.part) {
                Ok(more) if more.len() > held.len() => held = more,
                Ok(_) => {}
                Err(error) if no_files_left(&error) => return Err(error.into()),
                Err(_) => {
                    silent_pid = peer(&other.stream).ok().map(|peer| peer.pid);
                }
            }
        }
        // This process's socket exists already.
        if held.len() >= needed {
            return Ok((held, false));
        }
        // Some sockets are missing, and the member that does not answer may hold them.
        if let Some(pid) = silent_pid
            && (held.is_empty() || !group::is_complete(&held, address)?)
        {
            return Err(Obstacle::Silent(pid));
        }
        let is_new = held.is_empty();
        if is_new {
            // No member has handed over a socket, so begin a group.
            held.push(group::first::<Obstacle>(address, |socket| {
                Ok(bind(socket)?)
            })?);
        } else if !group::is_complete(&held, address)? {
            // Sockets exist that no member has handed over, so a new one would get the wrong
            // number.
            return Err(Obstacle::Unknown);
        }
        // This process has the first part, and its socket is the only one.
        if needed == 1 {
            group::stop_sharing(&held[0])?;
            return Ok((held, true));
        }
        // The first socket may have been the only one, and then it does not share the address.
        if !is_new {
            // A member that is too busy to accept a connection counts, too.
            let first = self.shared.member(QpnRange::FIRST);
            let is_used =
                names::is_connectable(&first)? || self.names.variants().of(&first).is_some();
            group::start_sharing(&held[0], is_used)?;
        }
        // Add the missing sockets, the last of which is this process's own.
        while held.len() < needed {
            held.push(group::next::<Obstacle>(address, |socket| {
                Ok(bind(socket)?)
            })?);
            // The kernel's table may have changed while it was read, so that a socket was missing.
            // Check again after each new socket, because the next one would get the wrong number.
            if !group::is_complete(&held, address)? {
                return Err(Obstacle::Unknown);
            }
        }
        Ok((held, true))
    }

    /// Duplicates the descriptors of the sockets that this process holds already.
    fn clone_held(&self) -> io::Result<Vec<OwnedFd>> {
        let Some(held) = &self.held else {
            return Ok(Vec::new());
        };
        let held = keeper::lock(held);
        held.iter().map(OwnedFd::try_clone).collect()
    }

    /// Makes this process's socket accept packets, and starts to answer for the group.
    fn finish(
        &self,
        listener: UnixListener,
        sockets: Vec<OwnedFd>,
        others: Vec<OtherMember>,
    ) -> io::Result<(Socket, Member)> {
        let own = sockets[usize::from(self.part.number())].try_clone()?;
        let own = Socket::from(own);
        if sockets.len() > 1 {
            group::accept_part(own.as_fd(), self.part)?;
        }
        let peers = others.into_iter().map(|other| keeper::Peer {
            stream: other.stream,
            part: Some(other.part),
            accepted: None,
        });
        let held = process_sockets::add(self.shared, sockets);
        let keeper = Keeper::start(
            self.shared,
            self.part,
            listener,
            peers.collect(),
            HeldSockets::clone(&held),
            self.offers.cloned(),
        )?;
        let member = Member::new(self.shared, self.part, own.try_clone()?, held, keeper);
        Ok((own, member))
    }

    /// Describes the process of this user that has the name or a variant of it.
    fn describe_holder(&self, name: &str) -> String {
        holder::describe(self.names.variants().of(name).unwrap_or(name))
    }

    fn timeout_error(&self, obstacle: Obstacle) -> PortError {
        match obstacle {
            Obstacle::Final(error) => error,
            Obstacle::Taken(error) => {
                let users = sockets::bound_to(self.shared.address).unwrap_or_default();
                let user = OwnUser::now();
                match users.iter().find(|socket| !user.is(socket.uid)) {
                    None => error,
                    Some(other) => PortError {
                        what: format!(
                            "{} (the process belongs to {})",
                            error.what,
                            user.describe(other.uid)
                        ),
                        source: error.source,
                    },
                }
            }
            Obstacle::Silent(pid) => self.error(
                &format!(
                    "process {pid} shares it and does not answer: resume (SIGCONT) or end that \
                     process (is it in a debugger?), or use another address"
                ),
                ErrorKind::TimedOut.into(),
            ),
            Obstacle::Unknown => self.error(
                &format!(
                    "the port is also bound by processes that do not share it. List them with \
                     `ss -ulnp sport = :{ROCE_UDP_PORT}`, and stop them"
                ),
                ErrorKind::AddrInUse.into(),
            ),
        }
    }

    fn other_user_error(&self, other: Peer) -> PortError {
        let user = OwnUser::now();
        let what = format!(
            "process {} of {} has it, and only processes of one user can share a port. This process \
             belongs to {}. Use another address of {}, {}",
            other.pid,
            user.describe(other.user),
            user.describe(user.id()),
            self.config.interface,
            remedy(user, other.user)
        );
        self.error(&what, ErrorKind::AddrInUse.into())
    }

    fn error(&self, what: &str, source: io::Error) -> PortError {
        PortError {
            what: format!(
                "sharing UDP port {ROCE_UDP_PORT} of {}: {what}",
                self.shared.address
            ),
            source,
        }
    }
}

/// Waits for the process that has the lock: until it releases the lock if it belongs to this user,
/// but at most [`ANSWER_TIMEOUT`]; otherwise for [`RETRY_INTERVAL`]. Returns whether the process
/// belongs to this user.
fn wait_for_release(lock: &str, variants: &Variants) -> bool {
    let is_own = |stream: &UnixStream| peer(stream).is_ok_and(|peer| OwnUser::now().is(peer.user));
    let Some(stream) = variants.connect(lock).ok().filter(is_own) else {
        // The process belongs to another user, has just released the lock, does not listen yet, or
        // accepts no connections.
        std::thread::sleep(RETRY_INTERVAL);
        return false;
    };
    // The connection closes when the process releases the lock.
    let mut hang_up = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let timeout = PollTimeout::try_from(ANSWER_TIMEOUT).unwrap_or(PollTimeout::ZERO);
    // An interrupted poll is followed by another attempt.
    let _ = poll(&mut hang_up, timeout);
    true
}

/// What helps, beside another address, if a process of the user `other` has the port.
fn remedy(user: OwnUser, other: u32) -> &'static str {
    let may_be_root = other == 0 || !user.is_one_user(other);
    match may_be_root {
        true => "or have that process stopped",
        false => "or run both as one user",
    }
}

/// Whether this process, or the system, is out of file descriptors.
fn no_files_left(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Requests the sockets from a member.
pub(super) fn request_sockets(member: &UnixStream, part: QpnRange) -> io::Result<Vec<OwnedFd>> {
    message::send(member, Kind::RequestSockets, part, NONE)?;
    match message::receive(member)? {
        Some(answer) => Ok(answer.descriptors),
        None => Err(ErrorKind::ConnectionReset.into()),
    }
}

/// Announces the new part to every member, and sends the sockets if the group has grown.
fn announce(others: &[OtherMember], part: QpnRange, sockets: &[OwnedFd]) {
    for other in others {
        // A member without these sockets can't hand them to later members, but other members can.
        if message::send(&other.stream, Kind::Announce, part, sockets).is_err() {
            let _ = message::send(&other.stream, Kind::Announce, part, NONE);
        }
    }
}
