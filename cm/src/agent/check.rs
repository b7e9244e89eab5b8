//! Checks whether hosts still accept packets for this stack.
//!
//! A process that is killed sends nothing, and neither does an idle connection. So the agent asks
//! its owner at intervals to check each path with connections. The owner sends a datagram to the
//! peer's UDP port from a port of its own. If no process has the peer's port, the host answers
//! "port unreachable". Such a message can be forged, so it only raises a suspicion. The agent then
//! probes the peer on the connection's own path, with a DREQ for a connection that neither side
//! has. Any agent answers such a DREQ with a DREP. The connections end when [`ENOUGH_PROBES`]
//! probes got no DREP while the checks sent with them got "port unreachable" again. Any message
//! from the peer ends the suspicion.
//!
//! A request that nobody has answered yet causes a check at once. Its probes are retransmissions of
//! the request: an agent that has the request answers them (MRA).

use super::Agent;
use super::state::State;
use crate::{Duration, Instant, Path};
use rand_core::Rng;
use roce_wire::cm::{CmMessage, Dreq, PrivateData};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of unanswered probes, each with another "port unreachable", after which a peer counts
/// as gone.
const ENOUGH_PROBES: u8 = 3;
/// The maximum number of probes for one suspicion.
const MAX_PROBES: u8 = 8;
/// The timeout of the first probe. It doubles with each probe, up to [`MAX_TIMEOUT`].
const FIRST_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest timeout of a probe. Linux limits "port unreachable" messages to a host to one per
/// second, after a burst of six.
const MAX_TIMEOUT: Duration = Duration::from_millis(1500);
/// The timeout of a probe on a path without an established connection. [`ENOUGH_PROBES`] of them
/// take longer than an agent of this kind holds a request for which it has no listener, so that the
/// request ends as that agent decides if "port unreachable" was forged. A server that starts a
/// moment after its client gets a retransmitted request in time.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
/// The time from a check to its probe. The host answers the probe with "port unreachable", too. If
/// the probe came first, the rate limit might suppress the answer to the check.
const PROBE_DELAY: Duration = Duration::from_millis(20);
/// The low bits of a communication ID; the high bits identify the process.
const LOW_BITS: u32 = (1 << super::ID_BITS) - 1;

/// All paths with connections.
#[derive(Debug, Default)]
pub(super) struct Checks {
    by_path: BTreeMap<Path, Check>,
    timers: BTreeSet<(Instant, Path)>,
    /// The paths that the owner should check now.
    due_now: VecDeque<Path>,
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
    probe_is_next: bool,
    /// Whether the host has answered "port unreachable" again since the last check.
    is_unreachable: bool,
    /// The number of probes that got no answer, but a "port unreachable" to their check.
    unanswered: u8,
    /// The number of probes sent.
    probes: u8,
}

impl Checks {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Whether no check is due now.
    pub(super) fn is_empty(&self) -> bool {
        self.due_now.is_empty()
    }

    pub(super) fn poll(&mut self) -> Option<Path> {
        self.due_now.pop_front()
    }

    fn due(&self, now: Instant) -> Option<Path> {
        let &(at, path) = self.timers.first()?;
        (at <= now).then_some(path)
    }

    fn schedule(&mut self, path: Path, at: Instant, suspicion: Option<Suspicion>) {
        self.remove(path);
        self.timers.insert((at, path));
        self.by_path.insert(path, Check { at, suspicion });
    }

    fn remove(&mut self, path: Path) {
        if let Some(before) = self.by_path.remove(&path) {
            self.timers.remove(&(before.at, path));
        }
    }

    fn queue_check(&mut self, path: Path) {
        if !self.due_now.contains(&path) {
            self.due_now.push_back(path);
        }
    }
}

impl Agent {
    /// Starts the checks of a path that has a connection.
    pub(super) fn start_checks(&mut self, now: Instant, path: Path) {
        if let Some(every) = self.config.check_every
            && !self.checks.by_path.contains_key(&path)
        {
            self.checks.schedule(path, now + every, None);
        }
    }

    /// Checks the path of a request that was just sent.
    pub(super) fn check_requested_path(&mut self, now: Instant, path: Path) {
        self.start_checks(now, path);
        self.check_path_now(path);
    }

    /// Checks the path now, because the agent expects an answer from the peer.
    pub(super) fn check_path_now(&mut self, path: Path) {
        let check = self.checks.by_path.get(&path);
        if check.is_some_and(|check| check.suspicion.is_none()) {
            self.checks.queue_check(path);
        }
    }

    pub(super) fn handle_checks(&mut self, now: Instant) {
        while let Some(path) = self.checks.due(now) {
            self.handle_due_check(now, path);
        }
    }

    fn handle_due_check(&mut self, now: Instant, path: Path) {
        let check = self.checks.by_path.get(&path);
        let every = self.config.check_every.unwrap_or(MAX_TIMEOUT);
        let is_requested = self.table.first_request_on(path).is_some();
        if !is_requested && !self.table.has_peer_on(path) {
            self.checks.remove(path);
        } else if let Some(suspicion) = check.and_then(|check| check.suspicion) {
            match suspicion.probe_is_next {
                true => self.send_probe(now, path, suspicion),
                false => self.probe_timed_out(now, path, suspicion),
            }
        } else {
            if is_requested || self.table.established_on(path).is_some() {
                self.checks.queue_check(path);
            }
            self.checks.schedule(path, now + every, None);
        }
    }

    /// Handles the timeout of the last probe.
    fn probe_timed_out(&mut self, now: Instant, path: Path, mut suspicion: Suspicion) {
        suspicion.unanswered += u8::from(suspicion.is_unreachable);
        if suspicion.unanswered >= ENOUGH_PROBES {
            self.checks.remove(path);
            self.end_on_path(now, path);
        } else if suspicion.probes < MAX_PROBES {
            self.check_then_probe(now, path, suspicion);
        } else {
            // The evidence is not enough: the host answered too few of the checks with "port
            // unreachable".
            self.clear_suspicion(now, path);
        }
    }

    /// Handles the host's "port unreachable" in answer to a check.
    pub(super) fn on_port_unreachable(&mut self, now: Instant, path: Path) {
        let Some(check) = self.checks.by_path.get_mut(&path) else {
            return;
        };
        if let Some(suspicion) = &mut check.suspicion {
            suspicion.is_unreachable = true;
            return;
        }
        let suspicion = Suspicion {
            id: 0,
            probe_is_next: false,
            is_unreachable: true,
            unanswered: 0,
            probes: 0,
        };
        if self.table.established_on(path).is_some() {
            self.check_then_probe(now, path, suspicion);
        } else if self.table.first_request_on(path).is_some() {
            // The request itself was the first probe.
            let timeout = now + REQUEST_TIMEOUT;
            self.checks.schedule(path, timeout, Some(suspicion));
        }
    }

    fn check_then_probe(&mut self, now: Instant, path: Path, suspicion: Suspicion) {
        self.checks.queue_check(path);
        let suspicion = Suspicion {
            probe_is_next: true,
            is_unreachable: false,
            ..suspicion
        };
        self.checks
            .schedule(path, now + PROBE_DELAY, Some(suspicion));
    }

    fn send_probe(&mut self, now: Instant, path: Path, suspicion: Suspicion) {
        let (id, timeout) = if let Some(id) = self.send_dreq_probe(path) {
            (id, probe_timeout(suspicion.probes))
        } else if self.repeat_request(path) {
            (0, REQUEST_TIMEOUT)
        } else {
            // Nothing is left to end.
            return self.clear_suspicion(now, path);
        };
        let suspicion = Suspicion {
            id,
            probe_is_next: false,
            probes: suspicion.probes + 1,
            ..suspicion
        };
        self.checks.schedule(path, now + timeout, Some(suspicion));
    }

    /// Retransmits a request on the path, without a change of its timeout. Returns whether there is
    /// one.
    fn repeat_request(&mut self, path: Path) -> bool {
        let request = self.table.first_request_on(path);
        let request = request.and_then(|id| self.table.get(id));
        let Some(State::ReqSent(request) | State::LookupSent(request)) = request.map(|c| &c.state)
        else {
            return false;
        };
        let mad = *request.mad;
        self.counters.retransmitted += 1;
        self.send(path, mad);
        true
    }

    /// Probes the peer of a connection on the path, if there is one. Returns the probe's ID.
    // rule: 12.9-unknown-dreq
    fn send_dreq_probe(&mut self, path: Path) -> Option<u32> {
        let connection = self.table.established_on(path)?;
        let (remote_id, remote_qpn) = (connection.remote_id, connection.remote_qpn);
        let id = self.draw_unused_id().get();
        // An ID in the peer's part that most likely belongs to no connection. If the peer has a
        // connection with this ID, then its remote ID is not `id`, so the peer ignores the DREQ.
        let unused_remote_id = remote_id.unwrap_or(0) ^ (self.rng.next_u32() & LOW_BITS).max(1);
        let dreq = Dreq {
            local_id: id,
            remote_id: unused_remote_id,
            remote_qpn: remote_qpn.unwrap_or(crate::Qpn::QP0),
            private: PrivateData::NONE,
        };
        let transaction = self.rng.next_u64();
        self.send_message(path, transaction, CmMessage::Dreq(dreq));
        self.counters.probes += 1;
        Some(id)
    }

    /// Handles any message from the peer.
    pub(super) fn clear_suspicion(&mut self, now: Instant, path: Path) {
        let check = self.checks.by_path.get(&path);
        if check.is_some_and(|check| check.suspicion.is_some()) {
            let every = self.config.check_every.unwrap_or(MAX_TIMEOUT);
            self.checks.schedule(path, now + every, None);
        }
    }

    /// Whether a DREP on this path answers the last probe.
    pub(super) fn is_probe_answer(&self, path: Path, remote_id: u32) -> bool {
        let check = self.checks.by_path.get(&path);
        let suspicion = check.and_then(|check| check.suspicion);
        suspicion.is_some_and(|suspicion| suspicion.id == remote_id)
    }
}

/// The timeout of a probe for a connection that `sent` other probes preceded.
pub(super) fn probe_timeout(sent: u8) -> Duration {
    MAX_TIMEOUT.min(FIRST_TIMEOUT * (1 << sent.min(MAX_PROBES)))
}
