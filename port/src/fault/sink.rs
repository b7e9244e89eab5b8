//! The trait that receives packets from a fault layer, with the effects of the faults on each.

use crate::port::RxSink;
use roce_stack::{Duration, RxMeta};

/// Receives the packets that a [`FaultLayer`](super::FaultLayer) passes on, and a call for each
/// packet that it loses.
pub trait FaultSink {
    /// Receives one packet: the metadata from its IP header, its bytes from BTH to ICRC after the
    /// faults, and the effects of the faults on it.
    fn arrive(&mut self, meta: &RxMeta, transport: &[u8], effects: &Effects);

    /// Notes that one packet is lost. The sink must not count it as received.
    fn lose(&mut self, meta: &RxMeta, transport: &[u8], why: Loss);
}

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

/// Passes packets on to a sink that ignores the effects of the faults.
pub struct Unobserved<'a>(pub &'a mut dyn RxSink);

impl FaultSink for Unobserved<'_> {
    fn arrive(&mut self, meta: &RxMeta, transport: &[u8], _: &Effects) {
        self.0.packet(meta, transport);
    }

    fn lose(&mut self, _: &RxMeta, _: &[u8], _: Loss) {}
}
