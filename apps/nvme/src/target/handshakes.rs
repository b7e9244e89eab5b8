//! Connections whose host has not confirmed yet that it is there.
//!
//! Anybody can send a request in the name of any address. So such a connection has no thread, and
//! no memory for the data of commands, and if there are too many, the oldest of the address with
//! the most of them makes room.

use super::protocol::Session;
use super::queue::{self, Parts};
use super::shared::{Shared, to_evict};
use crate::wire::{AcceptPrivate, Refusal, RequestPrivate};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_verbs::cm::{Connecting, Connection, Establishing, Incoming, Listener};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often the thread looks whether the target stops, in milliseconds.
const TICK: u16 = 100;

/// The time after which a handshake may have to make room for another request. A lost REP or RTU is
/// repaired by one of the next REPs, which follow 1, 2 and 4 timeouts of 1.6 s after the first.
const GRACE: Duration = Duration::from_secs(7);

/// Takes requests until the target stops. Each connection gets a thread of its own once its
/// handshake is complete: until then, the request may be forged.
pub(super) fn run(listener: &Listener, shared: &Arc<Shared>) {
    let mut handshakes = Handshakes::new(shared);
    while !shared.is_stopping() {
        handshakes.wait(listener);
        // One at a time, so that a flood of requests does not delay the others' handshakes.
        if handshakes.has_room(Instant::now())
            && let Some(incoming) = listener.try_accept()
        {
            match admit(&incoming, shared) {
                Ok(session) => handshakes.begin(incoming, session),
                Err(refusal) => shared.refuse(incoming, refusal),
            }
        }
        handshakes.proceed();
    }
}

/// Whether the request can be granted.
fn admit(incoming: &Incoming, shared: &Shared) -> Result<Session, Refusal> {
    let request = RequestPrivate::parse(incoming.private())?;
    // The target reads the host's memory.
    if incoming.request().responder_resources == 0 {
        return Err(Refusal::INVALID_IRD);
    }
    let session = Session::new(&shared.controllers, &request)?;
    match shared.has_seat() {
        true => Ok(session),
        false => Err(Refusal::NO_RESOURCES),
    }
}

/// The handshakes, the oldest first.
struct Handshakes {
    shared: Arc<Shared>,
    all: Vec<(Connecting, Handshake)>,
}

struct Handshake {
    peer: IpAddr,
    session: Session,
    parts: Parts,
    since: Instant,
}

impl Handshakes {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            all: Vec::new(),
        }
    }

    /// Waits until there is a request that can be accepted, or a handshake is over.
    fn wait(&self, listener: &Listener) {
        self.shared.nic.context.hand_over();
        let accepts = self.has_room(Instant::now());
        let fds = self.all.iter().map(|(connecting, _)| connecting.as_fd());
        // A request that must wait would keep the thread awake.
        let fds = accepts.then(|| listener.as_fd()).into_iter().chain(fds);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // An interrupted poll means that nothing is there.
        let _ = poll(&mut fds, PollTimeout::from(TICK));
    }

    /// Accepts a request.
    fn begin(&mut self, incoming: Incoming, session: Session) {
        let (peer, number) = (incoming.peer(), session.number());
        self.make_room();
        let Ok((qp, parts)) = Parts::new(&self.shared, queue::slots(&session)) else {
            return self.shared.refuse(incoming, Refusal::NO_RESOURCES);
        };
        let private = AcceptPrivate {
            controller_receive_len: session.len(),
        };
        match incoming.start_accept(qp, &queue::connect_options(), &private.encode()) {
            Ok(connecting) => {
                let handshake = Handshake {
                    peer,
                    session,
                    parts,
                    since: Instant::now(),
                };
                self.all.push((connecting, handshake));
            }
            Err(error) => self.note_failure(number, peer, error),
        }
        self.shared.set_handshakes(self.all.len());
    }

    /// Serves the connections whose host has confirmed, and drops those that have failed.
    fn proceed(&mut self) {
        for (connecting, handshake) in std::mem::take(&mut self.all) {
            match connecting.check() {
                Ok(Establishing::Pending(connecting)) => self.all.push((connecting, handshake)),
                Ok(Establishing::Established(connection)) => self.serve(connection, handshake),
                Err(error) => {
                    self.note_failure(handshake.session.number(), handshake.peer, error);
                }
            }
        }
        self.shared.set_handshakes(self.all.len());
    }

    fn serve(&self, connection: Connection, handshake: Handshake) {
        let Handshake {
            peer,
            session,
            parts,
            ..
        } = handshake;
        let number = session.number();
        let Some(seat) = self.shared.seat(peer) else {
            return self.note_failure(number, peer, "there are too many connections");
        };
        let shared = Arc::clone(&self.shared);
        let serve = move || queue::serve(connection, parts, session, seat, &shared);
        let thread = thread::Builder::new().name("nvme-target-queue".to_owned());
        // If there are no more threads, the connection is dropped here, which ends it.
        if thread.spawn(serve).is_err() {
            self.note_failure(number, peer, "there are no more threads");
        }
    }

    /// Whether a request can be accepted at the time `now`. Until then it waits.
    fn has_room(&self, now: Instant) -> bool {
        let makes_room = self.to_evict();
        makes_room.is_none_or(|index| self.all[index].1.since + GRACE <= now)
    }

    /// The handshake that has to be given up before another one begins.
    fn to_evict(&self) -> Option<usize> {
        let peers: Vec<_> = self
            .all
            .iter()
            .map(|(_, handshake)| handshake.peer)
            .collect();
        to_evict(&peers, self.shared.options.half_open)
    }

    fn make_room(&mut self) {
        if let Some(index) = self.to_evict() {
            // Dropping it ends the connection.
            let (_, Handshake { peer, session, .. }) = self.all.remove(index);
            let why = "no confirmation came, and it made room for another request";
            self.note_failure(session.number(), peer, why);
        }
    }

    fn note_failure(&self, number: u16, peer: IpAddr, why: impl std::fmt::Display) {
        let why = format!("queue {number} of {peer}: {why}");
        self.shared.note_failure(why);
    }
}
