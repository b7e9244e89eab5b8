//! Where packets go behind faults, and what the faults did to each.

use crate::port::RxSink;
use roce_stack::{Duration, RxMeta};

/// Receives the packets that a [`FaultLayer`](super::FaultLayer) lets through, and is
/// told of those that it loses.
pub trait FaultSink {
    /// One packet arrives: what the port says of its IP header, its bytes from BTH to
    /// ICRC as the faults left them, and what the faults did to it.
    fn arrive(&mut self, meta: &RxMeta, transport: &[u8], effects: &Effects);

    /// One packet is lost. It must not be taken for received.
    fn lose(&mut self, meta: &RxMeta, transport: &[u8], why: Loss);
}

/// What faults did to a packet that arrives. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// How long the layer held it back.
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
    /// Too many packets were held back already.
    Overflow,
}

/// Passes packets on to a sink that does not ask what the faults did.
pub struct Unobserved<'a>(pub &'a mut dyn RxSink);

impl FaultSink for Unobserved<'_> {
    fn arrive(&mut self, meta: &RxMeta, transport: &[u8], _: &Effects) {
        self.0.packet(meta, transport);
    }

    fn lose(&mut self, _: &RxMeta, _: &[u8], _: Loss) {}
}
