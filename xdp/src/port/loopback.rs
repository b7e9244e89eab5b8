//! Queues packets to this port itself, which no NIC would loop back.

use std::collections::VecDeque;

use roce_port::RxSink;
use roce_stack::RxMeta;

/// The maximum number of waiting packets.
const MAX_WAITING: usize = 256;

/// The waiting packets. Their buffers are reused.
#[derive(Debug, Default)]
pub(super) struct Loopback {
    waiting: VecDeque<(RxMeta, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// The buffer that is being written.
    writing: Vec<u8>,
}

impl Loopback {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Reserves space for a packet. The space lasts until [`Loopback::commit`], or until the next
    /// `reserve` or `copy`.
    pub(super) fn reserve(&mut self, len: usize) -> &mut [u8] {
        self.writing.resize(len, 0);
        &mut self.writing
    }

    /// The reserved packet.
    pub(super) fn reserved(&self) -> &[u8] {
        &self.writing
    }

    /// Queues the reserved packet, unless too many wait. Returns whether the packet is queued.
    pub(super) fn commit(&mut self, meta: RxMeta) -> bool {
        if self.is_full() {
            return false;
        }
        let spare = self.spare.pop().unwrap_or_default();
        let written = std::mem::replace(&mut self.writing, spare);
        self.waiting.push_back((meta, written));
        true
    }

    /// Queues a copy of a packet, unless too many wait. Returns whether the packet is queued.
    pub(super) fn copy(&mut self, meta: RxMeta, transport: &[u8]) -> bool {
        self.reserve(transport.len()).copy_from_slice(transport);
        self.commit(meta)
    }

    /// Delivers up to `budget` packets.
    pub(super) fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> usize {
        if self.is_empty() {
            return 0;
        }
        // The next call delivers the packets that the sink sends in response.
        let count = budget.min(self.waiting.len());
        for (meta, packet) in self.waiting.drain(..count) {
            sink.packet(&meta, &packet);
            self.spare.push(packet);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use roce_stack::{IpCovered, RxMeta};

    use super::{Loopback, MAX_WAITING};

    const META: RxMeta = RxMeta {
        src: IpAddr::V4(Ipv4Addr::LOCALHOST),
        dst: IpAddr::V4(Ipv4Addr::LOCALHOST),
        src_port: 4791,
        traffic_class: 0,
        ip: IpCovered::V4 {
            id: 1,
            flags_fragment: 0x4000,
        },
    };

    #[test]
    fn packets_are_looped_back_in_order_and_bounded() {
        let mut loopback = Loopback::default();
        for round in 0..3 {
            for number in 0..MAX_WAITING {
                loopback.reserve(number + 1).fill(number as u8);
                assert!(loopback.commit(META), "{round}");
            }
            assert!(loopback.is_full() && !loopback.copy(META, &[1]));
            let mut next = 0;
            let mut sink = |_: &RxMeta, packet: &[u8]| {
                assert_eq!(packet.len(), next + 1);
                assert!(packet.iter().all(|&byte| byte == next as u8));
                next += 1;
            };
            assert_eq!(loopback.receive(10, &mut sink), 10);
            assert_eq!(loopback.receive(1000, &mut sink), MAX_WAITING - 10);
            assert_eq!((next, loopback.is_empty()), (MAX_WAITING, true));
        }
    }
}
