//! A port whose cable is unplugged: what is sent to it is gone.

use crate::port::RxSink;
use roce_stack::{Flow, IpCovered, ReserveError, RxMeta, Sequenced, Transmit, TxMeta, TxSlot};

/// Takes packets in place of a port, and drops them: those that a NIC sends, as a [`Transmit`], and
/// those that arrive, as an [`RxSink`].
#[derive(Clone, Debug, Default)]
pub struct Unplugged {
    packet: Vec<u8>,
    dropped: u64,
}

impl Unplugged {
    /// Name and value of the counter of the packets that it has dropped.
    pub fn counter(&self) -> (&'static str, u64) {
        ("fault_unplugged", self.dropped)
    }
}

impl Transmit for Unplugged {
    fn reserve(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        _sequenced: Option<Sequenced>,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
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

    fn commit(&mut self) {
        self.dropped += 1;
    }
}

impl RxSink for Unplugged {
    fn packet(&mut self, _meta: &RxMeta, _transport: &[u8]) {
        self.dropped += 1;
    }
}
