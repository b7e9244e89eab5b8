//! A port with unlimited room that counts the packets of each QP.

use roce_port::MemoryPort;
use roce_port::memory::MemoryIp;
use roce_stack::{Flow, ReserveError, Sequenced, Transmit, TxMeta, TxSlot};

/// The number of the first QP's peer. The others' follow.
pub const FIRST_PEER: u32 = 0x10_0000;

/// The port.
#[derive(Debug)]
pub struct CountingPort {
    /// Packets of each QP.
    pub sent: Vec<u64>,
    /// Packets of all QPs.
    pub total: u64,
    memory: MemoryPort,
    to: usize,
}

impl CountingPort {
    /// A port for `qps` QPs.
    pub fn new(qps: usize) -> Self {
        Self {
            sent: vec![0; qps],
            total: 0,
            memory: MemoryPort::new(MemoryIp::V4, 4200),
            to: 0,
        }
    }
}

impl Transmit for CountingPort {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.to = flow.to_qp.get().saturating_sub(FIRST_PEER) as usize;
        self.memory.reserve_run(to, flow, sequenced, len, 1)
    }

    fn commit(&mut self) {
        self.memory.commit();
        // All packets use the same buffer.
        while let Some(frame) = self.memory.out.pop() {
            self.memory.recycle(frame.bytes);
            if let Some(sent) = self.sent.get_mut(self.to) {
                *sent += 1;
                self.total += 1;
            }
        }
    }
}
