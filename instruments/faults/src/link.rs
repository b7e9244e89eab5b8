//! The link of a port, which can be down.

use roce_port::{Layer, Port, PortError, RxSink};
use roce_stack::{Flow, IpCovered, ReserveError, RxMeta, Sequenced, TxMeta, TxSlot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a link is down. Its clones are about the same link, which is up at first.
#[derive(Clone, Debug, Default)]
pub struct Link(Arc<AtomicBool>);

impl Link {
    /// Takes the link down, or up again.
    pub fn set_down(&self, is_down: bool) {
        self.0.store(is_down, Ordering::Release);
    }

    /// Whether it is down.
    pub fn is_down(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The layer that drops and counts all packets, in both directions, while the [`Link`] is down.
#[derive(Debug)]
pub struct LinkGate {
    link: Link,
    /// Where the NIC builds packets that are dropped.
    packet: Vec<u8>,
    /// Whether the packet that was reserved last is one of those.
    is_reserved: bool,
    dropped: u64,
}

impl LinkGate {
    /// Name of the counter of the packets that it has dropped.
    pub const COUNTER: &str = "fault_unplugged";

    /// The gate of this link.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            packet: Vec::new(),
            is_reserved: false,
            dropped: 0,
        }
    }
}

impl Layer for LinkGate {
    fn reserve<'a>(
        &'a mut self,
        port: &'a mut impl Port,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'a>, ReserveError> {
        self.is_reserved = self.link.is_down();
        if !self.is_reserved {
            return port.reserve_run(to, flow, sequenced, len, count);
        }
        self.packet.resize(len, 0);
        Ok(TxSlot {
            bytes: &mut self.packet,
            src_port: flow.source_port(0),
            ip: match to.dst.is_ipv4() {
                true => IpCovered::V4 {
                    id: 0,
                    flags_fragment: 0x4000,
                },
                false => IpCovered::V6,
            },
            kept: false,
        })
    }

    fn commit(&mut self, port: &mut impl Port) {
        match self.is_reserved {
            false => port.commit(),
            true => self.dropped += 1,
        }
    }

    fn receive(
        &mut self,
        port: &mut impl Port,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, PortError> {
        if !self.link.is_down() {
            return port.receive(budget, sink);
        }
        port.receive(budget, &mut |_: &RxMeta, _: &[u8]| self.dropped += 1)
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        vec![(Self::COUNTER, self.dropped)]
    }
}
