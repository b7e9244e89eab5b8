//! A connection to another NIC of the same process: a buffer that drops what does not fit, as a
//! socket's does.

use roce_port::MemoryPort;
use roce_port::memory::MemoryIp;
use roce_stack::{Flow, ReserveError, RxMeta, Sequenced, Transmit, TxMeta, TxSlot};

/// A port with the packets in flight to the receiver, whose buffer is bounded in bytes.
#[derive(Debug)]
pub struct BoundedPort {
    memory: MemoryPort,
    bytes: usize,
    limit: usize,
    /// Packets that did not fit.
    pub dropped: u64,
}

impl BoundedPort {
    /// A port whose receiver has room for `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            memory: MemoryPort::new(MemoryIp::V4, 4200),
            bytes: 0,
            limit,
            dropped: 0,
        }
    }

    /// Delivers all packets in flight. Returns whether there were any.
    pub fn deliver(&mut self, mut to: impl FnMut(&RxMeta, &[u8])) -> bool {
        let any = !self.memory.out.is_empty();
        let mut out = std::mem::take(&mut self.memory.out);
        for frame in out.drain(..) {
            to(&frame.meta, &frame.bytes);
            self.memory.recycle(frame.bytes);
        }
        self.memory.out = out;
        self.bytes = 0;
        any
    }
}

impl Transmit for BoundedPort {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.memory.reserve_run(to, flow, sequenced, len, 1)
    }

    fn commit(&mut self) {
        self.memory.commit();
        let len = self.memory.out.last().map_or(0, |frame| frame.bytes.len());
        if self.bytes + len <= self.limit {
            self.bytes += len;
        } else if let Some(frame) = self.memory.out.pop() {
            self.dropped += 1;
            self.memory.recycle(frame.bytes);
        }
    }
}
