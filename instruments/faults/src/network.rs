//! The faults of a network.

use crate::Chance;
use roce_stack::Duration;

/// The faults of a network, and their probabilities. The default is a network without faults.
///
/// Its text form is a list of `name=value` separated by commas: `loss=CHANCE`,
/// `burst=CHANCE:PACKETS[:CHANCE]` (the fields of [`Burst`], in order; without the last, a burst
/// loses every packet), `dup=CHANCE`, `reorder=CHANCE[:TIME]`, `corrupt=CHANCE`,
/// `delay=TIME[..TIME]`, `seed=NUMBER`. A chance is `1%` or `0.01`, a time is a number with `ns`,
/// `us`, `ms` or `s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultSpec {
    /// The chance that a packet is lost, independently of other packets.
    pub loss: Chance,
    /// Loss in bursts.
    pub burst: Option<Burst>,
    /// The chance that a packet arrives twice.
    pub duplicate: Chance,
    /// The chance that a packet is held back, so that later ones may overtake it.
    pub reorder: Chance,
    /// The longest time for which a reordered packet is held back.
    pub reorder_by: ReorderBy,
    /// The chance that one bit of a packet is flipped.
    pub corrupt: Chance,
    /// The minimum delay of every packet. Delayed packets stay in order.
    pub delay: Duration,
    /// The maximum of a random delay, drawn for each packet, that is added to `delay`.
    pub jitter: Duration,
    /// The seed of all randomness. With `None`, the code that opens the device chooses a seed, and
    /// should report it.
    pub seed: Option<u64>,
}

/// Loss in bursts: the Gilbert-Elliott model, whose channel is either good or bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The chance, at each packet, that the channel turns bad.
    pub begin: Chance,
    /// The mean number of packets for which the channel stays bad; at least 1.
    pub packets: u32,
    /// The chance that a packet is lost while the channel is bad.
    pub loss: Chance,
}

/// The longest time for which a reordered packet is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderBy(pub Duration);

impl Default for ReorderBy {
    fn default() -> Self {
        Self(Duration::from_micros(100))
    }
}

impl FaultSpec {
    /// Whether there are no faults.
    pub fn is_faultless(&self) -> bool {
        let Self {
            reorder_by, seed, ..
        } = *self;
        *self
            == Self {
                reorder_by,
                seed,
                ..Self::default()
            }
    }
}
