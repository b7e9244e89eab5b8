//! A way to another NIC of the same process: a buffer that drops what it has no room for,
//! as a socket's does.

use roce_stack::{IpCovered, ReserveError, RxMeta, Transmit, TxMeta, TxSlot};
use roce_wire::Qpn;
use std::collections::VecDeque;

const SRC_PORT: u16 = 0xc000;
const IP: IpCovered = IpCovered::V4 {
    id: 0,
    flags_fragment: 0x4000,
};

/// The sending side, with what is under way to the receiving one.
#[derive(Debug)]
pub struct MemoryPort {
    under_way: VecDeque<(RxMeta, Vec<u8>)>,
    bytes: usize,
    limit: usize,
    /// Packets that found no room.
    pub dropped: u64,
    spare: Vec<Vec<u8>>,
    slot: Vec<u8>,
    to: Option<TxMeta>,
}

impl MemoryPort {
    /// A port whose receiver has room for `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            under_way: VecDeque::new(),
            bytes: 0,
            limit,
            dropped: 0,
            spare: Vec::new(),
            slot: Vec::new(),
            to: None,
        }
    }

    /// Hands out everything under way. Returns whether there was anything.
    pub fn deliver(&mut self, mut to: impl FnMut(&RxMeta, &[u8])) -> bool {
        let any = !self.under_way.is_empty();
        while let Some((meta, bytes)) = self.under_way.pop_front() {
            self.bytes -= bytes.len();
            to(&meta, &bytes);
            self.spare.push(bytes);
        }
        any
    }
}

impl Transmit for MemoryPort {
    fn reserve(
        &mut self,
        to: &TxMeta,
        _to_qp: Qpn,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.slot = self.spare.pop().unwrap_or_default();
        self.slot.resize(len, 0);
        self.to = Some(*to);
        Ok(TxSlot {
            bytes: &mut self.slot,
            src_port: SRC_PORT,
            ip: IP,
        })
    }

    fn commit(&mut self) {
        let Some(to) = self.to.take() else { return };
        let bytes = std::mem::take(&mut self.slot);
        if self.bytes + bytes.len() > self.limit {
            self.dropped += 1;
            self.spare.push(bytes);
            return;
        }
        self.bytes += bytes.len();
        let meta = RxMeta {
            src: to.src,
            dst: to.dst,
            src_port: SRC_PORT,
            traffic_class: to.traffic_class,
            ip: IP,
        };
        self.under_way.push_back((meta, bytes));
    }
}
