//! Whether hosts still take packets for this stack.
//!
//! A process that is killed says nothing, and an idle connection sends nothing. So the owner is
//! asked now and then to check each path with connections: to send something to the peer's UDP
//! port from a port of its own, so that the host's "port unreachable" comes back to it. Such a
//! message can be forged, so it raises a suspicion, no more. The agent then asks the peer over
//! the connection's own path, by a DREQ for a connection that neither side has: any agent answers
//! that with a DREP. Connections end when [`ENOUGH`] of these questions were met by another
//! "port unreachable" and by silence. Any message from the peer ends the suspicion.

use super::Agent;
use crate::{Duration, Instant, Path};
use rand_core::Rng;
use roce_wire::cm::{CmMessage, Dreq, PrivateData};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Questions that silence and "port unreachable" must answer before a peer counts as gone.
const ENOUGH: u8 = 3;
/// Questions at most.
const MOST: u8 = 8;
/// The time for the first answer; it doubles with each question, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(100);
/// Linux sends a host one "port unreachable" a second, once it has sent six.
const LONGEST: Duration = Duration::from_millis(1500);
/// The time from a check to the question. The question is refused, too: if it came first, there
/// might be no message left for the check.
const HEAD_START: Duration = Duration::from_millis(20);
/// Low bits of a communication ID, of which the upper ones name the process.
const LOW_BITS: u32 = (1 << super::ID_BITS) - 1;

/// All paths with connections.
#[derive(Debug, Default)]
pub(super) struct Checks {
    by_path: BTreeMap<Path, Check>,
    timers: BTreeSet<(Instant, Path)>,
    /// What the owner is to check now.
    wanted: VecDeque<Path>,
}

#[derive(Debug)]
struct Check {
    at: Instant,
    suspicion: Option<Suspicion>,
}

/// The host has said "port unreachable".
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    /// The communication ID of the last question; 0 before the first.
    id: u32,
    /// Whether the next thing to do is to ask the question that goes with the last check.
    is_next: bool,
    /// Whether the host has said it again since the last check.
    refused: bool,
    /// Questions that were met by that and by silence.
    in_vain: u8,
    asked: u8,
}

impl Checks {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Whether nothing is to be checked now.
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
    /// There is a connection on this path.
    pub(super) fn check_from_now_on(&mut self, now: Instant, path: Path) {
        if let Some(every) = self.config.check_every
            && !self.checks.by_path.contains_key(&path)
        {
            self.checks.set(path, now + every, None);
        }
    }

    /// The peer is expected to answer: whether it still can is of interest now.
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

    /// No answer has come to the last question.
    fn answer_is_due(&mut self, now: Instant, path: Path, mut suspicion: Suspicion) {
        suspicion.in_vain += u8::from(suspicion.refused);
        if suspicion.in_vain >= ENOUGH {
            self.checks.remove(path);
            self.end_on(now, path);
        } else if suspicion.asked < MOST {
            self.check_again(now, path, suspicion);
        } else {
            // Something answers for the host, and now and then nothing does.
            self.peer_lives(now, path);
        }
    }

    /// The host of a path's peer has said "port unreachable" to a check.
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
            // Nothing is left that could end.
            return self.peer_lives(now, path);
        };
        let (remote_id, remote_qpn) = (connection.remote_id, connection.remote_qpn);
        let id = self.free_id().get();
        // The same process, and a connection that it does not have; should it have one of this
        // ID, it is not with `id`.
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

    /// The peer has sent something.
    pub(super) fn peer_lives(&mut self, now: Instant, path: Path) {
        let check = self.checks.by_path.get(&path);
        if check.is_some_and(|check| check.suspicion.is_some()) {
            let every = self.config.check_every.unwrap_or(LONGEST);
            self.checks.set(path, now + every, None);
        }
    }

    /// Whether a DREP of this path answers to the last question.
    pub(super) fn is_answer(&self, path: Path, remote_id: u32) -> bool {
        let check = self.checks.by_path.get(&path);
        let suspicion = check.and_then(|check| check.suspicion);
        suspicion.is_some_and(|suspicion| suspicion.id == remote_id)
    }
}
