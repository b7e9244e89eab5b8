//! Next hops and their Ethernet addresses, as far as paths lead by them.

use std::collections::HashMap;
use std::net::IpAddr;

use roce_stack::{Duration, Instant};

use super::super::event::NeighbourState;
use super::super::facts::Mac;

/// The kernel is not asked more often than this for one neighbour that does not
/// answer, or told that a stale one is in use. It tries three times a second apart
/// itself.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What is known of a next hop's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It is this.
    Known(Mac),
    /// The kernel is finding it out.
    Pending,
    /// The next hop does not answer. It is asked again when it is wanted again.
    Failed,
}

/// A next hop.
#[derive(Clone, Copy, Debug)]
struct Hop {
    mac: Option<Mac>,
    state: NeighbourState,
    /// When the kernel was last asked for it.
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

/// The next hops that paths lead by. There are no more of them than paths.
#[derive(Debug, Default)]
pub(super) struct Hops {
    hops: HashMap<IpAddr, Hop>,
}

impl Hops {
    /// What is known of `address`, which is remembered from now on.
    pub(super) fn want(&mut self, address: IpAddr) -> Resolution {
        let hop = self.hops.entry(address).or_insert(Hop {
            mac: None,
            state: NeighbourState::None,
            asked_at: None,
        });
        hop.resolution()
    }

    /// What is known of `address`.
    pub(super) fn resolution(&self, address: IpAddr) -> Option<Resolution> {
        self.hops.get(&address).map(Hop::resolution)
    }

    /// Whether the kernel has to be told now that `address` is in use; if so, it is
    /// taken for told.
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

    /// Takes news of a neighbour. Returns whether packets are concerned.
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
            // What was known and is forgotten is asked for at once.
            hop.asked_at = None;
        }
        before != after
    }

    /// Keeps only what `is_used` says.
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
