//! Memory for packets that are sent without a copy, and the proof that it can be reused.
//!
//! A packet that may be sent by reference lies in a *block* of [`BLOCK_BYTES`]. Such a packet is
//! *kept*: unless the kernel copies it, its bytes stay in the block, unchanged, until the peer
//! acknowledges it. The kernel, the NIC or, on the same host, the peer's socket may read the block
//! long after the system call, and nothing reports when they have finished. The transport has the
//! proof: a packet that the peer acknowledged has arrived. So a block is reused when all of its
//! packets are acknowledged, or when the kernel has copied them.
//!
//! The proof is missing in two cases: a packet was retransmitted, so that its acknowledgement may
//! be for the retransmission; or the connection has ended. Then the block gets new pages
//! ([`Blocks::renew`]), and the kernel keeps the old pages until nothing refers to them.
//!
//! A peer could acknowledge packets that it has not read yet, and read them later. It must not find
//! another peer's data there. So a block with used pages is reused only for the process that its
//! packets were sent to.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use roce_stack::{Acknowledged, Flow, Position, QpnRange};

use crate::sys::memory::{BLOCK_BYTES, Blocks};

#[cfg(test)]
mod tests;

/// The byte that a debug build writes to free blocks. A packet that is sent from such memory fails
/// its ICRC check at the receiver.
const POISON: u8 = 0xdb;

/// A process that packets are sent to.
pub(crate) type Reader = (IpAddr, QpnRange);

/// The number of a block.
pub(crate) type Block = u16;

/// The state of a block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockState {
    /// The process that may have references to the pages.
    reader: Option<Reader>,
    /// The number of [`FlowPackets`] of the block that are not acknowledged. A flow whose packets
    /// alternate with those of another flow has several.
    flows: u32,
    /// The datagram in the block has not been sent yet.
    queued: bool,
    /// An acknowledgement of the packets does not prove that all readers have finished.
    needs_new_pages: bool,
    /// The number of times that the block was freed.
    generation: u32,
}

/// Consecutive packets of one flow in one block.
#[derive(Clone, Copy, Debug)]
struct FlowPackets {
    block: Block,
    /// [`BlockState::generation`] when the packets were added.
    generation: u32,
    /// The last of the packets.
    last: Position,
}

/// The blocks of a port.
pub(crate) struct KeptBlocks {
    memory: Option<Blocks>,
    states: Box<[BlockState]>,
    free: Vec<Block>,
    flows: HashMap<Flow, VecDeque<FlowPackets>>,
    /// The newest packets, which are not in `flows` yet.
    newest: Option<(Flow, FlowPackets)>,
    /// The number of blocks that could not get new pages and are never reused.
    unusable: usize,
}

impl KeptBlocks {
    /// At most `bytes` bytes of blocks. The first use maps the memory.
    pub(crate) fn new(bytes: usize) -> Self {
        let count = (bytes / BLOCK_BYTES).min(usize::from(Block::MAX)) as Block;
        Self {
            memory: None,
            states: vec![BlockState::default(); usize::from(count)].into_boxed_slice(),
            free: (0..count).rev().collect(),
            flows: HashMap::new(),
            newest: None,
            unusable: 0,
        }
    }

    /// The number of blocks that are not free: those with a queued datagram or with kept packets,
    /// and those that are unusable.
    pub(crate) fn in_use(&self) -> usize {
        self.states.len() - self.free.len()
    }

    /// Returns a block for packets to `reader`; `None` if no block is free. The block stays free
    /// until [`KeptBlocks::take_prepared`].
    pub(crate) fn prepare(&mut self, reader: Reader) -> Option<Block> {
        let states = &self.states;
        let fits = |block: &Block| states[usize::from(*block)].reader == Some(reader);
        let at = match self.free.iter().rposition(fits) {
            Some(at) => at,
            None => {
                let block = *self.free.last()?;
                self.give_pages_to(block, reader)?;
                self.free.len() - 1
            }
        };
        let last = self.free.len() - 1;
        self.free.swap(at, last);
        self.free.last().copied()
    }

    /// Makes sure that no process but `reader` refers to the block's pages.
    fn give_pages_to(&mut self, block: Block, reader: Reader) -> Option<()> {
        if self.memory.is_none() {
            self.memory = Blocks::map(self.states.len()).ok();
        }
        let memory = self.memory.as_mut()?;
        let state = &mut self.states[usize::from(block)];
        if state.reader.is_some() {
            memory.renew(usize::from(block)).ok()?;
        }
        state.reader = Some(reader);
        Some(())
    }

    /// Takes the block that was prepared last.
    pub(crate) fn take_prepared(&mut self) {
        if let Some(block) = self.free.pop() {
            self.states[usize::from(block)].queued = true;
        }
    }

    /// The bytes of a block.
    pub(crate) fn bytes(&self, block: Block) -> &[u8] {
        let memory = self.memory.as_ref();
        memory.map_or(&[], |memory| memory.bytes(block.into()))
    }

    /// The bytes of a block that was prepared or taken, for writing.
    pub(crate) fn bytes_mut(&mut self, block: Block) -> &mut [u8] {
        let memory = self.memory.as_mut();
        memory.map_or(&mut [], |memory| memory.bytes_mut(block.into()))
    }

    /// Records that a packet of `flow` lies in a block that was taken. `position` is the packet's
    /// position in the flow, and is greater than those of the flow's earlier packets.
    pub(crate) fn add_packet(&mut self, flow: Flow, position: Position, block: Block) {
        match &mut self.newest {
            Some((newest_flow, packets)) if *newest_flow == flow && packets.block == block => {
                packets.last = position
            }
            _ => {
                self.store_newest();
                let state = &mut self.states[usize::from(block)];
                state.flows += 1;
                let generation = state.generation;
                self.newest = Some((
                    flow,
                    FlowPackets {
                        block,
                        generation,
                        last: position,
                    },
                ));
            }
        }
    }

    /// Records that a packet of `flow` was retransmitted. The acknowledgement of a packet that lies
    /// in a block now may be for the retransmission.
    pub(crate) fn note_retransmission(&mut self, flow: Flow) {
        self.store_newest();
        for packets in self.flows.get(&flow).into_iter().flatten() {
            let state = &mut self.states[usize::from(packets.block)];
            state.needs_new_pages |= state.generation == packets.generation;
        }
    }

    /// Records that the datagram in a block was sent, by reference or by a copy. A dropped datagram
    /// counts as sent by a copy.
    pub(crate) fn note_sent(&mut self, block: Block, by_reference: bool) {
        let state = &mut self.states[usize::from(block)];
        state.queued = false;
        if !by_reference {
            self.store_newest();
            self.free(block);
        } else if state.flows == 0 {
            // The flow ended before the datagram was sent, so no acknowledgement will come.
            state.needs_new_pages = true;
            self.free(block);
        }
    }

    /// See [`Transmit::acknowledged`](roce_stack::Transmit::acknowledged).
    pub(crate) fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.store_newest();
        let Some(entries) = self.flows.get_mut(&flow) else {
            return;
        };
        let (before, proven) = match which {
            Acknowledged::Before(position) => (Some(position), true),
            Acknowledged::All => (None, false),
        };
        let mut ended = Vec::new();
        while let Some(packets) = entries.front()
            && before.is_none_or(|before| packets.last < before)
        {
            ended.push(*packets);
            entries.pop_front();
        }
        if entries.is_empty() {
            self.flows.remove(&flow);
        }
        for packets in ended {
            self.release(packets, proven);
        }
    }

    fn release(&mut self, packets: FlowPackets, proven: bool) {
        let state = &mut self.states[usize::from(packets.block)];
        if state.generation != packets.generation {
            return;
        }
        state.needs_new_pages |= !proven;
        state.flows -= 1;
        if state.flows == 0 && !state.queued {
            self.free(packets.block);
        }
    }

    fn free(&mut self, block: Block) {
        let index = usize::from(block);
        let state = &mut self.states[index];
        let needs_new_pages = state.needs_new_pages;
        *state = BlockState {
            reader: state.reader.filter(|_| !needs_new_pages),
            generation: state.generation.wrapping_add(1),
            ..BlockState::default()
        };
        if let Some(memory) = &mut self.memory {
            if needs_new_pages && memory.renew(index).is_err() {
                self.unusable += 1;
                return;
            }
            if cfg!(debug_assertions) {
                memory.bytes_mut(index).fill(POISON);
            }
        }
        self.free.push(block);
    }

    /// Moves the newest packets to the list of their flow.
    fn store_newest(&mut self) {
        if let Some((flow, packets)) = self.newest.take() {
            self.flows.entry(flow).or_default().push_back(packets);
        }
    }
}
