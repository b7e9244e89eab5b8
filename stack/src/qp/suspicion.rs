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
//! An attacker that sends consecutive PSNs may start close to those in use by luck. So packets out
//! of order that come from an unusual port count as well, though [`STRAYS`] of them are tolerated.
//!
//! Each half of a QP has its own suspicion: a peer may send requests and responses from different
//! ports. A half that has received nothing in order takes the other half's port for the peer's.
//!
//! While both halves have received nothing, the port is not known. On guard, such a half accepts no
//! packet from a port from which a packet has come since the guard began that can hardly be the
//! peer's: a guess, one with a PSN before the first, or one with a lower PSN than a packet before it.
//! Requests behind the expected one whose PSNs grow can be, since the first packet of a burst may be
//! lost. No such sequence arrives at the expected PSN, so an attacker has one guess from each port.
//!
//! A peer whose port changes, or whose packets overtake each other, notices nothing unless somebody
//! guesses at the same time.

use super::{Core, Cx};
use crate::counters::{DropReason, Stat};
use crate::time::{Duration, Instant};
use core::hint::cold_path;

/// A PSN that is farther than this from those in use is a guess. Peers have fewer packets in
/// flight.
const PLAUSIBLE: u64 = 1 << 16;

/// The number of guesses that put a QP on guard.
const TOLERATED: u32 = 16;

/// The number of packets out of order, from other ports than the peer's last packet in order, that
/// put a QP on guard. If a peer's port changes while a packet is missing, those behind it are such.
const STRAYS: u32 = 1024;

/// For how long a QP is on guard the first time. Each further time lasts twice as long as the one
/// before. So an attacker that waits has few attempts at a QP that is not on guard.
const FIRST_GUARD: Duration = Duration::from_secs(1);

/// The largest number of times that the time on guard doubles: more than 30 years.
const MAX_DOUBLINGS: u32 = 30;

/// The distance of a packet's PSN from the nearest PSN in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gap {
    /// Of a request behind the expected one. The loss of a packet causes it.
    Loss(u64),
    /// Of any other packet. If nothing has arrived in order, it is not the peer's.
    Other(u64),
}

impl Gap {
    fn distance(self) -> u64 {
        match self {
            Self::Loss(distance) | Self::Other(distance) => distance,
        }
    }
}

/// What one half of a QP knows about its peer's packets and those of others.
#[derive(Debug, Default)]
pub(crate) struct Suspicion {
    /// The UDP source port of the last packet in order; `None` if there was none.
    port: Option<u16>,
    /// The number of guesses since the QP was last on guard.
    guesses: u32,
    /// The number of packets out of order from unusual ports, since the QP was last on guard or the
    /// port changed.
    strays: u32,
    /// The ports from which packets came during this guard that can hardly be the peer's, if no port
    /// is known.
    guessers: Option<Box<Ports>>,
    /// How far the last packet was behind the expected one, during this guard.
    last_gap: u64,
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
    pub(crate) fn note_in_order(&mut self, core: &Core, port: u16) {
        self.port = Some(port);
        self.strays = 0;
        self.guessers = None;
        core.peer_port.set(Some(port));
    }

    /// The peer's port, as far as it is known.
    fn known_port(&self, core: &Core) -> Option<u16> {
        self.port.or(core.peer_port.get())
    }

    /// Whether an out-of-order packet from this port may be kept.
    pub(crate) fn may_keep(&self, now: Instant, core: &Core, port: u16) -> bool {
        self.known_port(core).is_none_or(|usual| usual == port) && !self.is_on_guard(now)
    }

    /// Whether a packet from this port must be dropped. Counts it, if so.
    pub(crate) fn refuses(&self, cx: &mut Cx<'_>, core: &Core, port: u16) -> bool {
        let is_strange = match self.known_port(core) {
            Some(usual) => usual != port,
            None => self.guessers.as_ref().is_some_and(|them| them.has(port)),
        };
        let refused = is_strange && self.is_on_guard(cx.now);
        if refused {
            cx.drop(DropReason::WrongSourcePort);
        }
        refused
    }

    /// Judges a packet by the distance of its PSN from the nearest PSN in use, and by its port.
    #[inline]
    pub(crate) fn judge(&mut self, cx: &mut Cx<'_>, core: &Core, port: u16, gap: Gap) {
        let distance = gap.distance();
        if distance > PLAUSIBLE {
            cold_path();
            cx.nic.counters.count(Stat::PsnGuesses);
            self.note_guess(cx.now, core, port, gap);
        } else if distance > 0 && !self.is_usual(port) {
            cold_path();
            self.note_guess(cx.now, core, port, gap);
        }
    }

    fn note_guess(&mut self, now: Instant, core: &Core, port: u16, gap: Gap) {
        let known = self.known_port(core);
        let is_far = gap.distance() > PLAUSIBLE;
        if self.is_on_guard(now) {
            if known.is_none() {
                let grows = gap.distance() >= self.last_gap;
                self.last_gap = gap.distance();
                if is_far || !grows || matches!(gap, Gap::Other(_)) {
                    self.guessers.get_or_insert_default().add(port);
                }
            }
            return;
        }
        self.guesses += u32::from(is_far);
        self.strays += u32::from(known != Some(port));
        if self.guesses == TOLERATED || self.strays >= STRAYS {
            self.on_guard_until = Some(now + FIRST_GUARD * (1 << self.guards));
            self.guards = (self.guards + 1).min(MAX_DOUBLINGS);
            self.guesses = 0;
            self.strays = 0;
            self.guessers = None;
            self.last_gap = 0;
        }
    }

    fn is_on_guard(&self, now: Instant) -> bool {
        self.on_guard_until.is_some_and(|until| now < until)
    }
}

/// A set of ports. Ports with the same lower 14 bits count as one: senders choose from 2^14.
#[derive(Debug)]
struct Ports([u64; 256]);

impl Default for Ports {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl Ports {
    /// The index of the word, and the bit in it.
    fn place(port: u16) -> (usize, u64) {
        (usize::from(port >> 6) % 256, 1 << (port % 64))
    }

    fn add(&mut self, port: u16) {
        let (word, bit) = Self::place(port);
        self.0[word] |= bit;
    }

    fn has(&self, port: u16) -> bool {
        let (word, bit) = Self::place(port);
        self.0[word] & bit != 0
    }
}
