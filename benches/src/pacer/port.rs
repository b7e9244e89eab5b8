//! A port that has room for everything, and counts what each QP has sent.

use roce_stack::{IpCovered, ReserveError, Transmit, TxMeta, TxSlot};
use roce_wire::Qpn;

/// The number of the first QP's peer. The others' follow.
pub const FIRST_PEER: u32 = 0x10_0000;

/// The port.
#[derive(Debug)]
pub struct CountingPort {
    /// Packets of each QP.
    pub sent: Vec<u64>,
    /// Packets of all.
    pub total: u64,
    slot: Vec<u8>,
    to: usize,
}

impl CountingPort {
    /// A port for so many QPs.
    pub fn new(qps: usize) -> Self {
        Self {
            sent: vec![0; qps],
            total: 0,
            slot: vec![0; 5000],
            to: 0,
        }
    }
}

impl Transmit for CountingPort {
    fn reserve(
        &mut self,
        _to: &TxMeta,
        to_qp: Qpn,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.to = to_qp.get().saturating_sub(FIRST_PEER) as usize;
        Ok(TxSlot {
            bytes: &mut self.slot[..len],
            src_port: 0xc000,
            ip: IpCovered::V4 {
                id: 0,
                flags_fragment: 0x4000,
            },
        })
    }

    fn commit(&mut self) {
        if let Some(sent) = self.sent.get_mut(self.to) {
            *sent += 1;
            self.total += 1;
        }
    }
}
