//! Next hops and their Ethernet addresses, for the paths that use them.

use std::collections::HashMap;
use std::net::IpAddr;

use roce_stack::{Duration, Instant};

use super::super::event::NeighbourState;
use super::super::facts::Mac;

/// The minimum interval between two requests to the kernel for one neighbour. It applies to a
/// neighbour that does not answer, and to one in use whose entry is stale. The kernel itself tries
/// three times, one second apart.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a next hop's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The address is known.
    Known(Mac),
    /// The kernel is resolving it.
    Pending,
    /// The next hop does not answer. The next use requests it again.
    Failed,
}

/// A next hop.
#[derive(Clone, Copy, Debug)]
struct Hop {
    mac: Option<Mac>,
    state: NeighbourState,
    /// The time of the last request to the kernel.
    requested_at: Option<Instant>,
}

impl Hop {
    fn resolution(&self) -> Resolution {
        use NeighbourState::{Failed, Incomplete, None, Stale, Valid};
        match (self.state, self.mac) {
            (Valid | Stale, Some(mac)) => Resolution::Known(mac),
            (Failed, _) => Resolution::Failed,
            (Valid | Stale | Incomplete | None, _) => Resolution::Pending,
        }
    }
}

/// The next hops that paths use, and those that paths used before, until [`Hops::retain`] drops
/// them.
#[derive(Debug, Default)]
pub(super) struct Hops {
    hops: HashMap<IpAddr, Hop>,
}

impl Hops {
    /// Returns the state of `address`, and tracks it from now on.
    pub(super) fn track(&mut self, address: IpAddr) -> Resolution {
        let hop = self.hops.entry(address).or_insert(Hop {
            mac: None,
            state: NeighbourState::None,
            requested_at: None,
        });
        hop.resolution()
    }

    /// The state of `address`, if it is tracked.
    pub(super) fn resolution(&self, address: IpAddr) -> Option<Resolution> {
        self.hops.get(&address).map(Hop::resolution)
    }

    /// Whether to report to the kernel now that `address` is in use. If so, records the time.
    pub(super) fn request_is_due(&mut self, address: IpAddr, now: Instant) -> bool {
        let Some(hop) = self.hops.get_mut(&address) else {
            return false;
        };
        let needs_request = match hop.state {
            NeighbourState::Valid => hop.mac.is_none(),
            NeighbourState::Incomplete => false,
            NeighbourState::Stale | NeighbourState::Failed | NeighbourState::None => true,
        };
        let interval_has_passed = hop
            .requested_at
            .is_none_or(|at| now.saturating_duration_since(at) >= REQUEST_INTERVAL);
        let is_due = needs_request && interval_has_passed;
        if is_due {
            hop.requested_at = Some(now);
        }
        is_due
    }

    /// Applies a change of a neighbour. Returns whether packets are affected.
    pub(super) fn update(
        &mut self,
        address: IpAddr,
        mac: Option<Mac>,
        state: NeighbourState,
    ) -> bool {
        let Some(hop) = self.hops.get_mut(&address) else {
            return false;
        };
        let before = hop.resolution();
        hop.mac = mac;
        hop.state = state;
        let after = hop.resolution();
        if matches!(before, Resolution::Known(_)) && after == Resolution::Pending {
            // If the kernel has forgotten an Ethernet address, the next use requests it at once.
            hop.requested_at = None;
        }
        before != after
    }

    /// Keeps only the next hops for which `is_used` returns true.
    pub(super) fn retain(&mut self, is_used: impl Fn(IpAddr) -> bool) {
        self.hops.retain(|&address, _| is_used(address));
    }

    /// Every next hop.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.hops.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.hops.len()
    }
}
