//! What faults did to one packet.

use crate::time::Duration;

/// What the layer did to a packet, for those who tell of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suffered {
    /// It is lost, and why.
    pub lost: Option<Loss>,
    /// How long it was held back.
    pub held: Duration,
    /// The bit that was flipped, counted from the first byte's lowest.
    pub flip: Option<usize>,
    /// It is the second of a packet that arrives twice.
    pub copy: bool,
}

/// Why a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// By chance.
    Chance,
    /// Too many were held back already.
    Overflow,
}
