//! Tells the peer's packets from those of an attacker that guesses PSNs.
//!
//! The InfiniBand specification gives a QP one secret, the PSN, of which each packet in order proves
//! the knowledge. An attacker that can't see the packets sends many, with different PSNs. Almost all
//! of them are far from the PSNs in use, which no peer's packet ever is. After [`TOLERATED`] such
//! guesses, the QP is on guard for some time. While it is:
//!
//! - it accepts packets only from the UDP source port from which the peer's last packet in order
//!   came. A peer may choose this port for each QP, so an attacker has to guess it, too.
//! - it keeps no out-of-order packets. One of many PSNs suffices for a packet to be kept, but exactly
//!   one to be executed in order.
//!
//! Each half of a QP has its own suspicion: a peer may send requests and responses from different
//! ports. A peer whose port changes, or whose packets overtake each other, notices nothing unless
//! somebody guesses at the same time.

use super::Cx;
use crate::counters::{DropReason, Stat};
use crate::time::{Duration, Instant};
use core::hint::cold_path;

/// A PSN that is farther than this from those in use is a guess. Peers have fewer packets in
/// flight.
const PLAUSIBLE: u64 = 1 << 16;

/// The number of guesses that put a QP on guard.
const TOLERATED: u32 = 16;

/// For how long a QP is on guard the first time. Each further time lasts twice as long as the one
/// before. So an attacker that waits has few attempts at a QP that is not on guard.
const FIRST_GUARD: Duration = Duration::from_secs(1);

/// The largest number of times that the time on guard doubles: more than 30 years.
const MAX_DOUBLINGS: u32 = 30;

/// What one half of a QP knows about its peer's packets and those of others.
#[derive(Debug, Default)]
pub(crate) struct Suspicion {
    /// The UDP source port of the last packet in order; `None` if there was none.
    port: Option<u16>,
    /// The number of guesses since the QP was last on guard.
    guesses: u32,
    /// Until when the QP is on guard; `None` if it never was.
    on_guard_until: Option<Instant>,
    /// How often it was on guard.
    guards: u32,
}

impl Suspicion {
    /// Whether a packet from this port comes from where the last packet in order came from.
    #[inline]
    pub(crate) fn is_usual(&self, port: u16) -> bool {
        self.port == Some(port)
    }

    /// Notes that a packet from this port was in order.
    pub(crate) fn note_in_order(&mut self, port: u16) {
        self.port = Some(port);
    }

    /// Whether an out-of-order packet from this port may be kept.
    pub(crate) fn may_keep(&self, now: Instant, port: u16) -> bool {
        self.port.is_none_or(|usual| usual == port) && !self.is_on_guard(now)
    }

    /// Whether a packet from this port must be dropped. Counts it, if so.
    pub(crate) fn refuses(&self, cx: &mut Cx<'_>, port: u16) -> bool {
        let refused = self.port.is_some_and(|usual| usual != port) && self.is_on_guard(cx.now);
        if refused {
            cx.drop(DropReason::WrongSourcePort);
        }
        refused
    }

    /// Judges the PSN of a packet by its distance from the nearest PSN in use.
    #[inline]
    pub(crate) fn judge(&mut self, cx: &mut Cx<'_>, distance: u64) {
        if distance > PLAUSIBLE {
            cold_path();
            self.note_guess(cx);
        }
    }

    fn note_guess(&mut self, cx: &mut Cx<'_>) {
        cx.counters.count(Stat::PsnGuesses);
        if self.is_on_guard(cx.now) {
            return;
        }
        self.guesses += 1;
        if self.guesses == TOLERATED {
            self.on_guard_until = Some(cx.now + FIRST_GUARD * (1 << self.guards));
            self.guards = (self.guards + 1).min(MAX_DOUBLINGS);
            self.guesses = 0;
        }
    }

    fn is_on_guard(&self, now: Instant) -> bool {
        self.on_guard_until.is_some_and(|until| now < until)
    }
}
