//! Memory for packets that leave without a copy, and the proof that it may be used again.
//!
//! A packet that is sent by reference lies in a *block*, of [`BLOCK_BYTES`]. The kernel, the NIC or,
//! on the same host, the peer's socket may read the block long after the system call, and nothing
//! says when they have finished. The transport knows: a packet that the peer acknowledged has
//! arrived. So a block is used again when all of its packets are acknowledged.
//!
//! Two cases give no such proof: a packet was retransmitted, so that its acknowledgement may be for
//! the copy; or the connection has ended. Then the block gets new pages ([`Blocks::renew`]), and
//! the old ones live on for as long as somebody refers to them.
//!
//! A peer could acknowledge packets that it has not read yet, and read them later. It must not find
//! another peer's data there. So a block with used pages serves only the process that they were
//! sent to.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use roce_stack::{Acknowledged, Flow, Position, QpnRange};

use crate::sys::memory::{BLOCK_BYTES, Blocks};

#[cfg(test)]
mod tests;

/// What a debug build writes to blocks that are free. A packet that is sent from such memory fails
/// its ICRC check at the receiver.
const POISON: u8 = 0xdb;

/// A process that packets are sent to.
pub(crate) type Reader = (IpAddr, QpnRange);

/// The number of a block.
pub(crate) type Block = u16;

/// One block's state.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Who may have references to its pages.
    reader: Option<Reader>,
    /// The number of flows with packets in the block that are not acknowledged.
    flows: u32,
    /// Its datagram has not been sent yet.
    queued: bool,
    /// An acknowledgement of its packets does not prove that nobody reads the pages any more.
    unproven: bool,
    /// How often the block was freed.
    lives: u32,
}

/// The packets of one flow in one block.
#[derive(Clone, Copy, Debug)]
struct Stay {
    block: Block,
    /// [`State::lives`] at that time.
    life: u32,
    /// The last of the packets.
    last: Position,
}

/// The blocks of a port.
pub(crate) struct Kept {
    memory: Option<Blocks>,
    states: Box<[State]>,
    free: Vec<Block>,
    flows: HashMap<Flow, VecDeque<Stay>>,
    /// The newest packets, which are not in `flows` yet.
    newest: Option<(Flow, Stay)>,
    /// Blocks that could not get new pages, and are never used again.
    lost: usize,
}

impl Kept {
    /// At most `bytes` bytes of blocks. The memory is mapped at the first use.
    pub(crate) fn new(bytes: usize) -> Self {
        let count = (bytes / BLOCK_BYTES).min(usize::from(Block::MAX)) as Block;
        Self {
            memory: None,
            states: vec![State::default(); usize::from(count)].into_boxed_slice(),
            free: (0..count).rev().collect(),
            flows: HashMap::new(),
            newest: None,
            lost: 0,
        }
    }

    /// Blocks that are in use, or lost.
    pub(crate) fn in_use(&self) -> usize {
        self.states.len() - self.free.len()
    }

    /// A free block for packets to `reader`. It stays free until [`Kept::take`]. `None` if there is
    /// none.
    pub(crate) fn offer(&mut self, reader: Reader) -> Option<Block> {
        let states = &self.states;
        let fits = |block: &Block| states[usize::from(*block)].reader == Some(reader);
        let at = match self.free.iter().rposition(fits) {
            Some(at) => at,
            None => {
                let block = *self.free.last()?;
                self.ready(block, reader)?;
                self.free.len() - 1
            }
        };
        let last = self.free.len() - 1;
        self.free.swap(at, last);
        self.free.last().copied()
    }

    /// Makes sure that nobody but `reader` refers to the block's pages.
    fn ready(&mut self, block: Block, reader: Reader) -> Option<()> {
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

    /// Takes the block that was offered last.
    pub(crate) fn take(&mut self) {
        if let Some(block) = self.free.pop() {
            self.states[usize::from(block)].queued = true;
        }
    }

    /// The bytes of a block.
    pub(crate) fn bytes(&self, block: Block) -> &[u8] {
        let memory = self.memory.as_ref();
        memory.map_or(&[], |memory| memory.bytes(block.into()))
    }

    /// The bytes of a block that was offered or taken, to be written.
    pub(crate) fn bytes_mut(&mut self, block: Block) -> &mut [u8] {
        let memory = self.memory.as_mut();
        memory.map_or(&mut [], |memory| memory.bytes_mut(block.into()))
    }

    /// Notes that a packet of `flow` lies in a block that was taken.
    pub(crate) fn note(&mut self, flow: Flow, last: Position, block: Block) {
        match &mut self.newest {
            Some((of, stay)) if *of == flow && stay.block == block => stay.last = last,
            _ => {
                self.settle();
                let state = &mut self.states[usize::from(block)];
                state.flows += 1;
                let life = state.lives;
                self.newest = Some((flow, Stay { block, life, last }));
            }
        }
    }

    /// Notes that a packet of `flow` was retransmitted. The acknowledgement of a packet that is
    /// kept now may be for the copy.
    pub(crate) fn note_retransmission(&mut self, flow: Flow) {
        self.settle();
        for stay in self.flows.get(&flow).into_iter().flatten() {
            let state = &mut self.states[usize::from(stay.block)];
            state.unproven |= state.lives == stay.life;
        }
    }

    /// Notes that the datagram in a block was sent, by reference or by a copy, or was dropped, which
    /// is like a copy.
    pub(crate) fn left(&mut self, block: Block, by_reference: bool) {
        let state = &mut self.states[usize::from(block)];
        state.queued = false;
        if !by_reference {
            self.settle();
            self.free(block);
        } else if state.flows == 0 {
            // The flow ended first, and with it the proof.
            state.unproven = true;
            self.free(block);
        }
    }

    /// See [`Transmit::acknowledged`](roce_stack::Transmit::acknowledged).
    pub(crate) fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.settle();
        let Some(stays) = self.flows.get_mut(&flow) else {
            return;
        };
        let (before, proven) = match which {
            Acknowledged::Before(position) => (Some(position), true),
            Acknowledged::All => (None, false),
        };
        let mut ended = Vec::new();
        while let Some(stay) = stays.front()
            && before.is_none_or(|before| stay.last < before)
        {
            ended.push(*stay);
            stays.pop_front();
        }
        if stays.is_empty() {
            self.flows.remove(&flow);
        }
        for stay in ended {
            self.release(stay, proven);
        }
    }

    fn release(&mut self, stay: Stay, proven: bool) {
        let state = &mut self.states[usize::from(stay.block)];
        if state.lives != stay.life {
            return;
        }
        state.unproven |= !proven;
        state.flows -= 1;
        if state.flows == 0 && !state.queued {
            self.free(stay.block);
        }
    }

    fn free(&mut self, block: Block) {
        let index = usize::from(block);
        let state = &mut self.states[index];
        let unproven = state.unproven;
        *state = State {
            reader: state.reader.filter(|_| !unproven),
            lives: state.lives.wrapping_add(1),
            ..State::default()
        };
        if let Some(memory) = &mut self.memory {
            if unproven && memory.renew(index).is_err() {
                self.lost += 1;
                return;
            }
            if cfg!(debug_assertions) {
                memory.bytes_mut(index).fill(POISON);
            }
        }
        self.free.push(block);
    }

    /// Moves the newest packets to the others of their flow.
    fn settle(&mut self) {
        if let Some((flow, stay)) = self.newest.take() {
            self.flows.entry(flow).or_default().push_back(stay);
        }
    }
}
