//! Next hops and their Ethernet addresses, for the paths that use them.

use std::collections::HashMap;
use std::net::IpAddr;

use roce_stack::{Duration, Instant};

use super::super::event::NeighbourState;
use super::super::facts::Mac;

/// The minimum interval between two requests to the kernel for one neighbour. It applies to a
/// neighbour that does not answer, and to one in use whose entry is stale. The kernel itself tries
/// three times, a second apart.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The state of a next hop's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The address is known.
    Known(Mac),
    /// The kernel is resolving it.
    Pending,
    /// The next hop does not answer. Its next use asks the kernel again.
    Failed,
}

/// A next hop.
#[derive(Clone, Copy, Debug)]
struct Hop {
    mac: Option<Mac>,
    state: NeighbourState,
    /// When the kernel was last asked about it.
    asked_at: Option<Instant>,
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
    /// The state of `address`, which is followed from now on.
    pub(super) fn want(&mut self, address: IpAddr) -> Resolution {
        let hop = self.hops.entry(address).or_insert(Hop {
            mac: None,
            state: NeighbourState::None,
            asked_at: None,
        });
        hop.resolution()
    }

    /// The state of `address`, if it is followed.
    pub(super) fn resolution(&self, address: IpAddr) -> Option<Resolution> {
        self.hops.get(&address).map(Hop::resolution)
    }

    /// Whether to tell the kernel now that `address` is in use. If so, records the time.
    pub(super) fn is_to_be_asked(&mut self, address: IpAddr, now: Instant) -> bool {
        let Some(hop) = self.hops.get_mut(&address) else {
            return false;
        };
        let idle = match hop.state {
            NeighbourState::Valid => hop.mac.is_none(),
            NeighbourState::Incomplete => false,
            NeighbourState::Stale | NeighbourState::Failed | NeighbourState::None => true,
        };
        let rested = hop
            .asked_at
            .is_none_or(|at| now.saturating_duration_since(at) >= ASK_EVERY);
        let ask = idle && rested;
        if ask {
            hop.asked_at = Some(now);
        }
        ask
    }

    /// Applies news of a neighbour. Returns whether packets are affected.
    pub(super) fn learn(
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
            hop.asked_at = None;
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
