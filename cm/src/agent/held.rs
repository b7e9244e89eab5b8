//! Requests for services without a listener, held in case one appears.
//!
//! A server that takes one connection, stops listening and listens again has a gap. A client that
//! connects in the gap treats a refusal as final. So the agent holds a request for up to
//! [`HELD_FOR`], and delivers it to a listener that appears meanwhile. The number of held requests
//! is bounded. Beyond the bound, the agent refuses the oldest requests early.

use super::Agent;
use super::timing::timeout_of;
use crate::{Addresses, Duration, Instant, MAD_LEN, Path, RejectReason, ServiceId, SidrStatus};
use roce_wire::cm::{CmMad, CmMessage};
use std::collections::VecDeque;
use std::net::IpAddr;

/// The longest time that a request waits for a listener. It is shorter than the time that an agent
/// of this kind waits for an answer.
const HELD_FOR: Duration = Duration::from_secs(1);
/// The maximum number of held requests.
const MAX_HELD: usize = 256;
/// The maximum number of held requests from one address.
const MAX_HELD_OF_PEER: usize = 64;

/// The identity of a held request: its path, and the peer's ID of the connection or lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestKey {
    pub(super) path: Path,
    pub(super) lookup: bool,
    pub(super) id: u32,
}

/// A held request.
#[derive(Debug)]
struct HeldRequest {
    key: RequestKey,
    service: ServiceId,
    mad: Box<[u8; MAD_LEN]>,
    deadline: Instant,
}

/// All held requests, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Held(VecDeque<HeldRequest>);

impl Held {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().map(|held| held.deadline).min()
    }

    /// Removes and returns the requests for which `is_wanted` is true.
    fn take(&mut self, is_wanted: impl Fn(&HeldRequest) -> bool) -> Vec<HeldRequest> {
        let all = std::mem::take(&mut self.0);
        let (removed, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(is_wanted);
        self.0 = kept.into();
        removed
    }

    /// If `peer` has reached its limit, removes the oldest request from it. Otherwise, if all peers
    /// together have reached theirs, removes the oldest request of all.
    fn evict_for(&mut self, peer: IpAddr) -> Option<HeldRequest> {
        let of_peer = |held: &&HeldRequest| held.key.path.remote == peer;
        if self.0.iter().filter(of_peer).count() >= MAX_HELD_OF_PEER {
            let oldest = self.0.iter().position(|held| of_peer(&held));
            return oldest.and_then(|oldest| self.0.remove(oldest));
        }
        if self.0.len() >= MAX_HELD {
            return self.0.pop_front();
        }
        None
    }
}

impl Agent {
    /// Holds a request for a service without a listener. A retransmitted request only counts as a
    /// duplicate.
    pub(super) fn hold(
        &mut self,
        now: Instant,
        path: Path,
        transaction: u64,
        request: CmMessage<'_>,
    ) {
        let (lookup, id, service, hold_for) = match &request {
            // The sender waits for an answer as long as the response timeout, plus the packets'
            // travel times.
            CmMessage::Req(req) => {
                let peer_waits = timeout_of(req.remote_response_timeout);
                (false, req.local_id, req.service, peer_waits.min(HELD_FOR))
            }
            CmMessage::SidrReq(req) => (true, req.request_id, req.service, HELD_FOR),
            _ => return,
        };
        let key = RequestKey { path, lookup, id };
        if self.held.0.iter().any(|held| held.key == key) {
            self.counters.duplicates += 1;
            return;
        }
        if let Some(oldest) = self.held.evict_for(path.remote) {
            self.refuse_held(&oldest);
        }
        let mad = CmMad {
            transaction,
            message: request,
        };
        self.held.0.push_back(HeldRequest {
            key,
            service,
            mad: Box::new(mad.to_bytes()),
            deadline: now + hold_for,
        });
    }

    /// Handles the requests that waited for a listener that has appeared.
    pub(super) fn release_held(&mut self, now: Instant, service: ServiceId, local: Addresses) {
        let is_for = |held: &HeldRequest| {
            let to = held.key.path.local;
            held.service == service && local.contains(to)
        };
        for held in self.held.take(is_for) {
            self.receive(now, held.key.path, &held.mad[..]);
        }
    }

    /// Drops a held request, because the requester has given up or has sent a DREQ for the
    /// connection. Returns whether the request was held.
    pub(super) fn drop_held_request(&mut self, key: RequestKey) -> bool {
        !self.held.take(|held| held.key == key).is_empty()
    }

    /// The services of the held requests whose deadline has passed, and the addresses that these
    /// requests were sent to.
    pub(super) fn expired_held_services(&self, now: Instant) -> Vec<(IpAddr, ServiceId)> {
        let due = self.held.0.iter().filter(|w| w.deadline <= now);
        let mut services: Vec<_> = due.map(|w| (w.key.path.local, w.service)).collect();
        services.sort_unstable();
        services.dedup();
        services
    }

    pub(super) fn drop_held_for_service(&mut self, local: IpAddr, service: ServiceId) {
        self.held
            .take(|w| (w.key.path.local, w.service) == (local, service));
    }

    /// Refuses the requests whose deadline has passed without a listener.
    pub(super) fn refuse_expired_held(&mut self, now: Instant) {
        for held in self.held.take(|held| held.deadline <= now) {
            self.refuse_held(&held);
        }
    }

    fn refuse_held(&mut self, held: &HeldRequest) {
        let path = held.key.path;
        // This agent encoded the MAD, so the MAD parses.
        let Ok(mad) = CmMad::parse(&held.mad[..]) else {
            return;
        };
        match &mad.message {
            CmMessage::Req(req) => {
                let reason = RejectReason::INVALID_SERVICE_ID;
                self.reject_req(path, mad.transaction, req, reason);
            }
            CmMessage::SidrReq(req) => {
                let status = SidrStatus::SERVICE_ID_NOT_SUPPORTED;
                self.refuse_sidr_req(path, mad.transaction, req, status);
            }
            _ => {}
        }
    }
}
