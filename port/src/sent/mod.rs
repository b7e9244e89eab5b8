//! Makes an in-memory port behave like one that sends without copying.
//!
//! A real port may give the network a reference to a packet instead of a copy
//! ([`TxSlot::kept`](roce_stack::TxSlot::kept)). The network then reads the packet when it arrives,
//! and finds other bytes if the sender has used the memory again. [`SentMemory`] reproduces this:
//! it overwrites the memory as soon as the NIC reports the acknowledgement, and
//! [`SentMemory::arrive`] damages each copy that arrives later. For receivers that do not see all
//! that the ICRC covers, see [`SentMemory::given_away`].
//!
//! It also checks the contract of [`Transmit`](roce_stack::Transmit).

use roce_stack::{Acknowledged, Flow, Position, Sequenced};
use std::collections::{BTreeMap, HashMap};

/// The byte that fills free memory.
const POISON: u8 = 0xdb;

/// The byte of the BTH that the ICRC does not cover: FECN, BECN and reserved bits.
const BECN_BYTE: usize = 4;

/// A reference to the memory of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRef {
    block: usize,
    life: u64,
}

/// The memory of one packet.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// The packet that it contains. `None` if the block is free.
    packet: Option<(Flow, Position)>,
    /// How often the block was freed.
    life: u64,
}

/// A packet in a block.
#[derive(Clone, Copy, Debug)]
struct Packet {
    block: usize,
    /// Whether it has arrived undamaged, or another copy at the same position has.
    has_arrived: bool,
}

/// The packets of one flow that are not acknowledged.
#[derive(Debug)]
struct Outstanding {
    /// By position, and then by the number of the copy.
    packets: BTreeMap<(Position, u64), Packet>,
    /// The position of the newest packet.
    last: Position,
    /// The NIC has reported that all packets before this position are acknowledged.
    acknowledged: Option<Position>,
}

impl Outstanding {
    /// The copies of the packet at a position that are kept.
    fn copies(&mut self, position: Position) -> impl Iterator<Item = &mut Packet> {
        let copies = (position, 0)..=(position, u64::MAX);
        self.packets.range_mut(copies).map(|(_, packet)| packet)
    }
}

/// The memory of a port's sent packets.
///
/// # Panics
/// Each method panics if the NIC violates the contract.
#[derive(Debug, Default)]
pub struct SentMemory {
    /// Whether packets in flight keep the bytes of memory that was freed.
    gives_away: bool,
    blocks: Vec<Block>,
    free: Vec<usize>,
    flows: HashMap<Flow, Outstanding>,
    copies: u64,
}

impl SentMemory {
    /// Memory that is given away when it is freed: packets that arrive later keep their bytes.
    ///
    /// A port needs this after a retransmission if receivers do not see the identification of IPv4:
    /// of 65,536 damaged packets, one passes their check.
    pub fn given_away() -> Self {
        Self {
            gives_away: true,
            ..Self::default()
        }
    }

    /// Keeps a packet that was committed.
    ///
    /// # Panics
    /// If a retransmission has the position of a packet that was never sent, or of one that was
    /// acknowledged.
    pub fn keep(&mut self, flow: Flow, sequenced: Sequenced, bytes: &[u8]) -> SentRef {
        let position = sequenced.position;
        let outstanding = self.flows.entry(flow).or_insert_with(|| Outstanding {
            packets: BTreeMap::new(),
            last: position,
            acknowledged: None,
        });
        let last = outstanding.last;
        assert!(
            !sequenced.is_retransmission || position <= last,
            "{position:?} of {flow:?} was never sent: the last was {last:?}"
        );
        outstanding.last = last.max(position);
        let acknowledged = outstanding.acknowledged;
        assert!(
            acknowledged.is_none_or(|before| position >= before),
            "{position:?} of {flow:?} is sent after {acknowledged:?} was acknowledged"
        );
        let block = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Block::default());
            self.blocks.len() - 1
        });
        let memory = &mut self.blocks[block];
        memory.bytes.clear();
        memory.bytes.extend_from_slice(bytes);
        memory.packet = Some((flow, position));
        let packet = Packet {
            block,
            has_arrived: outstanding.copies(position).any(|copy| copy.has_arrived),
        };
        outstanding.packets.insert((position, self.copies), packet);
        self.copies += 1;
        SentRef {
            block,
            life: memory.life,
        }
    }

    /// Called when a packet that refers to this memory arrives at its destination. If the memory
    /// was freed meanwhile and not [given away](SentMemory::given_away), replaces the packet's
    /// `bytes` by what the memory contains now: poison, or the beginning of a later packet. If not, `bytes` may differ from the memory because the
    /// network has damaged the packet.
    pub fn arrive(&mut self, sent: SentRef, bytes: &mut [u8]) {
        let memory = &self.blocks[sent.block];
        if memory.life != sent.life && !self.gives_away {
            let both = memory.bytes.len().min(bytes.len());
            bytes[..both].copy_from_slice(&memory.bytes[..both]);
            bytes[both..].fill(POISON);
        }
        // Only bytes are compared: a receiver that can't see the IPv4 identification may accept a
        // later packet's bytes in an earlier packet's datagram.
        let is_whole = without_becn(&memory.bytes).eq(without_becn(bytes));
        if let Some((flow, position)) = memory.packet.filter(|_| is_whole)
            && let Some(outstanding) = self.flows.get_mut(&flow)
        {
            for copy in outstanding.copies(position) {
                copy.has_arrived = true;
            }
        }
    }

    /// Frees the memory of these packets.
    ///
    /// # Panics
    /// If nothing of the flow is kept, if one report is no later than the one before, or if a
    /// packet was acknowledged of which no copy has arrived.
    pub fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        let kept = self.flows.get_mut(&flow);
        let outstanding = kept.filter(|outstanding| !outstanding.packets.is_empty());
        let Some(outstanding) = outstanding else {
            panic!("{which:?} is reported for {flow:?}, of which nothing is kept");
        };
        let freed = match which {
            Acknowledged::Before(position) => {
                let earlier = outstanding.acknowledged.replace(position);
                assert!(
                    earlier.is_none_or(|earlier| earlier < position),
                    "{position:?} of {flow:?} is reported after {earlier:?}"
                );
                let rest = outstanding.packets.split_off(&(position, 0));
                let freed = std::mem::replace(&mut outstanding.packets, rest);
                for ((position, _), packet) in &freed {
                    assert!(
                        packet.has_arrived,
                        "{position:?} of {flow:?} is reported, but no copy has arrived"
                    );
                }
                freed
            }
            Acknowledged::All => {
                let freed = std::mem::take(&mut outstanding.packets);
                self.flows.remove(&flow);
                freed
            }
        };
        for packet in freed.values() {
            let memory = &mut self.blocks[packet.block];
            memory.life += 1;
            memory.bytes.fill(POISON);
            memory.packet = None;
            self.free.push(packet.block);
        }
    }

    /// Forgets all packets, as at the end of a process: their memory lives on for those in flight.
    pub fn forget(&mut self) {
        self.flows.clear();
    }

    /// The positions of a flow's packets that are kept, in ascending order. A position occurs once
    /// for each copy that was sent.
    pub fn positions(&self, flow: Flow) -> Vec<Position> {
        let outstanding = self.flows.get(&flow);
        let packets = outstanding.into_iter().flat_map(|all| all.packets.keys());
        packets.map(|(position, _)| *position).collect()
    }

    /// The number of packets that are kept.
    pub fn len(&self) -> usize {
        let packets = self.flows.values().map(|all| all.packets.len());
        packets.sum()
    }

    /// Whether no packet is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bytes of a packet that the ICRC covers: the network may change the others.
fn without_becn(bytes: &[u8]) -> impl Iterator<Item = &u8> {
    let covered = |(at, byte)| (at != BECN_BYTE).then_some(byte);
    bytes.iter().enumerate().filter_map(covered)
}

#[cfg(test)]
mod tests;
