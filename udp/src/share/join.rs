//! Joining a group.
//!
//! Only the process that holds the lock's name may change the group of an address. It asks the
//! members for their sockets, and adds the missing ones up to its own. It may add a socket only if
//! it holds all sockets of the group. If it lacks one, because a process that is about to end still
//! has that socket open, the new socket would get the wrong place.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use roce_port::PortError;
use roce_stack::QpnRange;
use socket2::Socket;

use super::keeper::{self, Held, Keeper, Peer};
use super::member::Member;
use super::message::{self, Kind};
use super::names::{self, Place};
use super::{group, household, sockets};
use crate::ROCE_UDP_PORT;
use crate::bind::bind;
use crate::config::UdpPortConfig;

/// How long to wait for a member's answer before asking another.
const ANSWER: Duration = Duration::from_millis(200);
/// How long to wait for members that are about to leave, or to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for the address if no member of a group could answer.
const PATIENCE_ALONE: Duration = Duration::from_millis(500);
/// The minimum number of attempts, however long each takes.
const ROUNDS: u32 = 5;
/// The time between attempts: the kernel does not report when another process closes a socket.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the place of `part` in the group of `address`. Returns the place and the socket to use.
///
/// # Errors
/// If processes have the port that don't share it with this one. The text says which, and what to
/// do.
pub(crate) fn join(
    config: &UdpPortConfig,
    address: std::net::IpAddr,
    part: QpnRange,
) -> Result<(Socket, Member), PortError> {
    let mut joining = Joining {
        config,
        place: Place::new(address, config.interface_index),
        part,
        held: None,
    };
    let _lock = joining.lock()?;
    joining.held = household::held(joining.place);
    let listener = joining.own_name()?;
    let (sockets, peers) = joining.gather()?;
    joining
        .settle(listener, sockets, peers)
        .map_err(|source| joining.error("taking a place among those who share it", source))
}

struct Joining<'a> {
    config: &'a UdpPortConfig,
    place: Place,
    part: QpnRange,
    /// The sockets that this process already holds, if it is already a member with another part.
    held: Option<Held>,
}

/// A member in another process.
struct Other {
    part: QpnRange,
    stream: UnixStream,
}

/// The members that joined earlier.
struct Others {
    elsewhere: Vec<Other>,
    /// Members in this process, which holds their sockets.
    here: Vec<QpnRange>,
}

/// Why the group's sockets are not available now.
enum Obstacle {
    /// A socket outside any group is bound to the port.
    Taken(PortError),
    /// A process does not answer.
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
        let name = self.place.lock();
        let failed = |source| self.error("waiting for others who begin to share it", source);
        let start = Instant::now();
        let mut rounds = 0;
        loop {
            match names::listen(&name) {
                Ok(lock) => return Ok(lock),
                Err(error) if error.kind() != ErrorKind::AddrInUse => return Err(failed(error)),
                Err(_) => {}
            }
            let holder = match names::connect(&name) {
                Ok(stream) => {
                    // The other process sends nothing. The connection closes when it releases the
                    // lock.
                    stream.set_read_timeout(Some(ANSWER)).map_err(failed)?;
                    let _ = message::receive(&stream);
                    message::who(&stream).map_or(0, |(pid, _)| pid)
                }
                // The other process has just finished, or does not listen yet.
                Err(_) => {
                    std::thread::sleep(PAUSE);
                    0
                }
            };
            rounds += 1;
            if rounds > ROUNDS && start.elapsed() > 2 * PATIENCE {
                let source = io::Error::from(ErrorKind::TimedOut);
                let what = format!(
                    "process {holder} began to share it and does not come to an end: continue \
                     or stop that process"
                );
                return Err(self.error(&what, source));
            }
        }
    }

    /// Takes the name of this process's place.
    fn own_name(&self) -> Result<UnixListener, PortError> {
        let name = self.place.member(self.part);
        let start = Instant::now();
        let mut rounds = 0;
        loop {
            match names::listen(&name) {
                Ok(listener) => return Ok(listener),
                // The process that had the place is ending, or another process closes the socket
                // that it left.
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse
                        && (rounds < ROUNDS || start.elapsed() < PATIENCE) =>
                {
                    rounds += 1;
                    std::thread::sleep(PAUSE);
                }
                Err(source) => {
                    let what = format!(
                        "part {} of the QPNs is taken there, by a process that has the address \
                         on another interface",
                        self.part.number()
                    );
                    return Err(self.error(&what, source));
                }
            }
        }
    }

    /// All sockets from the first to this process's, and the other members.
    fn gather(&self) -> Result<(Vec<OwnedFd>, Vec<Other>), PortError> {
        let start = Instant::now();
        let mut rounds = 0;
        loop {
            let others = self.others()?;
            let obstacle = match self.sockets(&others) {
                Ok((sockets, added)) => {
                    let others = others.elsewhere;
                    introduce(&others, self.part, if added { &sockets } else { &[] });
                    return Ok((sockets, others));
                }
                Err(Obstacle::Final(error)) => return Err(error),
                Err(obstacle) => obstacle,
            };
            rounds += 1;
            let patience = match obstacle {
                Obstacle::Taken(_) => PATIENCE_ALONE,
                _ => PATIENCE,
            };
            if rounds > ROUNDS && start.elapsed() > patience {
                return Err(self.give_up(obstacle));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The members that exist now.
    fn others(&self) -> Result<Others, PortError> {
        let mut others = Others {
            elsewhere: Vec::new(),
            here: Vec::new(),
        };
        let failed = |source| self.error("asking who shares it", source);
        for part in (0..QpnRange::COUNT).filter_map(QpnRange::new) {
            if part == self.part {
                continue;
            }
            let stream = match names::connect(&self.place.member(part)) {
                Ok(stream) => stream,
                Err(error) if no_files_left(&error) => return Err(failed(error)),
                Err(_) => continue,
            };
            let (pid, uid) = message::who(&stream).map_err(failed)?;
            if uid != message::own_uid() {
                return Err(self.another_user(pid, uid));
            }
            if self.held.is_some() && u32::try_from(pid) == Ok(std::process::id()) {
                others.here.push(part);
                continue;
            }
            stream.set_read_timeout(Some(ANSWER)).map_err(failed)?;
            others.elsewhere.push(Other { part, stream });
        }
        Ok(others)
    }

    /// The sockets from the first to this process's, and whether some of them are new.
    fn sockets(&self, others: &Others) -> Result<(Vec<OwnedFd>, bool), Obstacle> {
        let needed = usize::from(self.part.number()) + 1;
        let address = self.place.address;
        let bind = |socket: &Socket| bind(socket, self.config, address);
        let mut silent = None;
        let mut held = self.held_here()?;
        // Ask the last member first, because it most likely holds all sockets.
        for other in others.elsewhere.iter().rev() {
            if held.len() >= needed || !held.is_empty() && group::is_whole(&held, address)? {
                break;
            }
            match ask(other, self.part) {
                Ok(more) if more.len() > held.len() => held = more,
                Ok(_) => {}
                Err(error) if no_files_left(&error) => return Err(error.into()),
                Err(_) => silent = message::who(&other.stream).ok().map(|(pid, _)| pid),
            }
        }
        if held.len() >= needed {
            return Ok((held, false));
        }
        if let Some(pid) = silent
            && (held.is_empty() || !group::is_whole(&held, address)?)
        {
            return Err(Obstacle::Silent(pid));
        }
        let is_new = held.is_empty();
        if is_new {
            held.push(group::first::<Obstacle>(address, |socket| {
                Ok(bind(socket)?)
            })?);
        } else if !group::is_whole(&held, address)? {
            return Err(Obstacle::Unknown);
        }
        if needed == 1 {
            group::be_alone(&held[0])?;
            return Ok((held, true));
        }
        if !is_new {
            let elsewhere = others.elsewhere.iter().map(|other| other.part);
            let mut all = elsewhere.chain(others.here.iter().copied());
            let is_used = all.any(|part| part.number() == 0);
            group::stop_being_alone(&held[0], is_used)?;
        }
        while held.len() < needed {
            held.push(group::next::<Obstacle>(address, |socket| {
                Ok(bind(socket)?)
            })?);
            // The table may have changed while it was read, so that it lacked a socket. Check again
            // after each new socket: the next one would get the wrong place.
            if !group::is_whole(&held, address)? {
                return Err(Obstacle::Unknown);
            }
        }
        Ok((held, true))
    }

    /// Copies of the sockets that this process holds already.
    fn held_here(&self) -> io::Result<Vec<OwnedFd>> {
        let Some(held) = &self.held else {
            return Ok(Vec::new());
        };
        let held = keeper::lock(held);
        held.iter().map(OwnedFd::try_clone).collect()
    }

    /// Opens this process's socket, and starts to answer for the group.
    fn settle(
        &self,
        listener: UnixListener,
        sockets: Vec<OwnedFd>,
        others: Vec<Other>,
    ) -> io::Result<(Socket, Member)> {
        let own = sockets[usize::from(self.part.number())].try_clone()?;
        let own = Socket::from(own);
        if sockets.len() > 1 {
            group::open_up(own.as_fd(), self.part)?;
        }
        let peers = others.into_iter().map(|other| Peer {
            stream: other.stream,
            part: Some(other.part),
        });
        let held = household::hold(self.place, sockets);
        let keeper = Keeper::start(
            self.place,
            self.part,
            listener,
            peers.collect(),
            Held::clone(&held),
        )?;
        let member = Member::new(self.place, self.part, own.try_clone()?, held, keeper);
        Ok((own, member))
    }

    fn give_up(&self, obstacle: Obstacle) -> PortError {
        match obstacle {
            Obstacle::Final(error) => error,
            Obstacle::Taken(error) => {
                let users = sockets::bound_to(self.place.address).unwrap_or_default();
                match users.iter().find(|socket| socket.uid != message::own_uid()) {
                    None => error,
                    Some(other) => PortError {
                        what: format!("{} (it is one of user {})", error.what, other.uid),
                        source: error.source,
                    },
                }
            }
            Obstacle::Silent(pid) => self.error(
                &format!(
                    "process {pid} has it, would share it, and does not answer: continue or stop \
                     that process (is it in a debugger?), or use another address"
                ),
                ErrorKind::TimedOut.into(),
            ),
            Obstacle::Unknown => self.error(
                &format!(
                    "others have it beside the processes that share it. See who with \
                     `ss -ulnp sport = :{ROCE_UDP_PORT}`, and stop them"
                ),
                ErrorKind::AddrInUse.into(),
            ),
        }
    }

    fn another_user(&self, pid: i32, uid: u32) -> PortError {
        let what = format!(
            "process {pid} of user {uid} has it, and the system lets only processes of one user \
             share a port, this one's is user {}: use another address of {}, or run both as one \
             user",
            message::own_uid(),
            self.config.interface
        );
        self.error(&what, ErrorKind::AddrInUse.into())
    }

    fn error(&self, what: &str, source: io::Error) -> PortError {
        PortError {
            what: format!(
                "sharing UDP port {ROCE_UDP_PORT} of {}: {what}",
                self.place.address
            ),
            source,
        }
    }
}

/// Whether this process, or the system, is out of file descriptors.
fn no_files_left(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Asks a member for the sockets.
fn ask(other: &Other, part: QpnRange) -> io::Result<Vec<OwnedFd>> {
    message::send(&other.stream, Kind::Ask, part, &[])?;
    match message::receive(&other.stream)? {
        Some(answer) => Ok(answer.sockets),
        None => Err(ErrorKind::ConnectionReset.into()),
    }
}

/// Tells every member which part is new, and sends the sockets if the group has grown.
fn introduce(others: &[Other], part: QpnRange, sockets: &[OwnedFd]) {
    for other in others {
        // A member that lacks these sockets can't pass them on to later members; another member
        // can.
        if message::send(&other.stream, Kind::Here, part, sockets).is_err() {
            let _ = message::send(&other.stream, Kind::Here, part, &[]);
        }
    }
}
