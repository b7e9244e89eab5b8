//! Checks whether hosts still accept packets for this stack.
//!
//! A process that is killed sends nothing, and neither does an idle connection. So the owner is
//! asked at intervals to check each path with connections. It sends a datagram to the peer's UDP
//! port from a port of its own. If no process has the peer's port, the host answers "port
//! unreachable". Such a message can be forged, so it only raises a suspicion. The agent then probes
//! the peer on the connection's own path, with a DREQ for a connection that neither side has. Any
//! agent answers such a DREQ with a DREP. The connections end when [`ENOUGH`] probes got no DREP
//! while the checks sent with them got "port unreachable" again. Any message from the peer ends the
//! suspicion.

use super::Agent;
use crate::{Duration, Instant, Path};
use rand_core::Rng;
use roce_wire::cm::{CmMessage, Dreq, PrivateData};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of probes that must stay unanswered, each with another "port unreachable", before a
/// peer counts as gone.
const ENOUGH: u8 = 3;
/// The maximum number of probes for one suspicion.
const MOST: u8 = 8;
/// The timeout of the first probe. It doubles with each probe, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(100);
/// The longest timeout of a probe. Linux limits "port unreachable" messages to a host to one per
/// second, after a burst of six.
const LONGEST: Duration = Duration::from_millis(1500);
/// The time from a check to its probe. The host answers the probe with "port unreachable", too. If
/// the probe came first, the rate limit might suppress the answer to the check.
const HEAD_START: Duration = Duration::from_millis(20);
/// The low bits of a communication ID; the high bits identify the process.
const LOW_BITS: u32 = (1 << super::ID_BITS) - 1;

/// All paths with connections.
#[derive(Debug, Default)]
pub(super) struct Checks {
    by_path: BTreeMap<Path, Check>,
    timers: BTreeSet<(Instant, Path)>,
    /// The paths that the owner is to check now.
    wanted: VecDeque<Path>,
}

#[derive(Debug)]
struct Check {
    at: Instant,
    suspicion: Option<Suspicion>,
}

/// A host that has answered "port unreachable".
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    /// The communication ID of the last probe; 0 before the first.
    id: u32,
    /// Whether the next step is to send the probe that belongs to the last check.
    is_next: bool,
    /// Whether the host has answered "port unreachable" again since the last check.
    refused: bool,
    /// The number of probes that got no DREP, but a "port unreachable" to their check.
    in_vain: u8,
    asked: u8,
}

impl Checks {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Whether no check is due now.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    pub(super) fn poll(&mut self) -> Option<Path> {
        self.wanted.pop_front()
    }

    fn due(&self, now: Instant) -> Option<Path> {
        let &(at, path) = self.timers.first()?;
        (at <= now).then_some(path)
    }

    fn set(&mut self, path: Path, at: Instant, suspicion: Option<Suspicion>) {
        self.remove(path);
        self.timers.insert((at, path));
        self.by_path.insert(path, Check { at, suspicion });
    }

    fn remove(&mut self, path: Path) {
        if let Some(before) = self.by_path.remove(&path) {
            self.timers.remove(&(before.at, path));
        }
    }

    fn want(&mut self, path: Path) {
        if !self.wanted.contains(&path) {
            self.wanted.push_back(path);
        }
    }
}

impl Agent {
    /// Starts checks of a path that has a connection.
    pub(super) fn check_from_now_on(&mut self, now: Instant, path: Path) {
        if let Some(every) = self.config.check_every
            && !self.checks.by_path.contains_key(&path)
        {
            self.checks.set(path, now + every, None);
        }
    }

    /// The peer is expected to answer: check now whether it still can.
    pub(super) fn check_now(&mut self, path: Path) {
        let check = self.checks.by_path.get(&path);
        if check.is_some_and(|check| check.suspicion.is_none()) {
            self.checks.want(path);
        }
    }

    pub(super) fn handle_checks(&mut self, now: Instant) {
        while let Some(path) = self.checks.due(now) {
            self.check_is_due(now, path);
        }
    }

    fn check_is_due(&mut self, now: Instant, path: Path) {
        let check = self.checks.by_path.get(&path);
        let every = self.config.check_every.unwrap_or(LONGEST);
        if !self.table.has_peer_on(path) {
            self.checks.remove(path);
        } else if let Some(suspicion) = check.and_then(|check| check.suspicion) {
            match suspicion.is_next {
                true => self.ask_whether_alive(now, path, suspicion),
                false => self.answer_is_due(now, path, suspicion),
            }
        } else {
            if self.table.established_on(path).is_some() {
                self.checks.want(path);
            }
            self.checks.set(path, now + every, None);
        }
    }

    /// Handles the timeout of the last probe.
    fn answer_is_due(&mut self, now: Instant, path: Path, mut suspicion: Suspicion) {
        suspicion.in_vain += u8::from(suspicion.refused);
        if suspicion.in_vain >= ENOUGH {
            self.checks.remove(path);
            self.end_on(now, path);
        } else if suspicion.asked < MOST {
            self.check_again(now, path, suspicion);
        } else {
            // The evidence is not enough: the host answered too few of the checks with "port
            // unreachable".
            self.peer_lives(now, path);
        }
    }

    /// Handles the host's "port unreachable" in answer to a check.
    pub(super) fn port_refused(&mut self, now: Instant, path: Path) {
        let Some(check) = self.checks.by_path.get_mut(&path) else {
            return;
        };
        match &mut check.suspicion {
            Some(suspicion) => suspicion.refused = true,
            None => {
                let suspicion = Suspicion {
                    id: 0,
                    is_next: false,
                    refused: false,
                    in_vain: 0,
                    asked: 0,
                };
                self.check_again(now, path, suspicion);
            }
        }
    }

    fn check_again(&mut self, now: Instant, path: Path, suspicion: Suspicion) {
        self.checks.want(path);
        let suspicion = Suspicion {
            is_next: true,
            refused: false,
            ..suspicion
        };
        self.checks.set(path, now + HEAD_START, Some(suspicion));
    }

    // rule: 12.9-unknown-dreq
    fn ask_whether_alive(&mut self, now: Instant, path: Path, suspicion: Suspicion) {
        let Some(connection) = self.table.established_on(path) else {
            // No connection is left to end.
            return self.peer_lives(now, path);
        };
        let (remote_id, remote_qpn) = (connection.remote_id, connection.remote_qpn);
        let id = self.free_id().get();
        // An ID in the peer's part that most likely belongs to no connection. If the peer has a
        // connection with this ID, then its remote ID is not `id`, so the peer ignores the DREQ.
        let other = remote_id.unwrap_or(0) ^ (self.rng.next_u32() & LOW_BITS).max(1);
        let dreq = Dreq {
            local_id: id,
            remote_id: other,
            remote_qpn: remote_qpn.unwrap_or(crate::Qpn::QP0),
            private: PrivateData::NONE,
        };
        let transaction = self.rng.next_u64();
        self.send_message(path, transaction, CmMessage::Dreq(dreq));
        self.counters.questions += 1;
        let wait = LONGEST.min(FIRST * (1 << suspicion.asked.min(MOST)));
        let suspicion = Suspicion {
            id,
            is_next: false,
            asked: suspicion.asked + 1,
            ..suspicion
        };
        self.checks.set(path, now + wait, Some(suspicion));
    }

    /// Handles any message from the peer.
    pub(super) fn peer_lives(&mut self, now: Instant, path: Path) {
        let check = self.checks.by_path.get(&path);
        if check.is_some_and(|check| check.suspicion.is_some()) {
            let every = self.config.check_every.unwrap_or(LONGEST);
            self.checks.set(path, now + every, None);
        }
    }

    /// Whether a DREP on this path answers the last probe.
    pub(super) fn is_answer(&self, path: Path, remote_id: u32) -> bool {
        let check = self.checks.by_path.get(&path);
        let suspicion = check.and_then(|check| check.suspicion);
        suspicion.is_some_and(|suspicion| suspicion.id == remote_id)
    }
}
