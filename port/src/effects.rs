//! The effects of a network on a packet before it arrived.

use roce_stack::Duration;

/// The effects of faults on a packet that arrives. The default is no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// How long the layer held it back.
    pub held: Duration,
    /// The index of the flipped bit, counted from the first byte's lowest bit.
    pub flipped_bit: Option<usize>,
    /// Whether this is the second copy of a packet that arrives twice.
    pub is_duplicate: bool,
}

/// Why a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The packet was drawn to be lost, alone or in a burst.
    Random,
    /// The layer already holds the maximum number of packets.
    Overflow,
}

impl Loss {
    /// The name of the counter for this kind of loss.
    pub const fn counter(self) -> &'static str {
        match self {
            Self::Random => "fault_lost",
            Self::Overflow => "fault_overflowed",
        }
    }

    /// The event, in a phrase.
    pub const fn explain(self) -> &'static str {
        match self {
            Self::Random => "lost",
            Self::Overflow => "lost: too many packets were held back",
        }
    }
}
