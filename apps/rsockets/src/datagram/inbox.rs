//! Received datagrams that the program has not read.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// A received datagram.
#[derive(Debug)]
pub(super) struct Arrived {
    /// The peer.
    pub(super) source: SocketAddr,
    /// The length in bytes.
    pub(super) len: usize,
    pub(super) place: Place,
}

/// Where a datagram's bytes are.
#[derive(Debug)]
pub(super) enum Place {
    /// In a receive slot of an endpoint, which is reposted after the program has read them.
    Receive {
        /// The index of the endpoint.
        endpoint: usize,
        slot: usize,
        /// Offset of the first byte in the endpoint's memory.
        start: usize,
    },
    /// A copy of what the UDP socket received.
    Copy(Box<[u8]>),
}

/// The datagrams, oldest first. The number in receive slots is bounded by the number of slots.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    arrived: VecDeque<Arrived>,
    copies: usize,
}

impl Inbox {
    pub(super) fn push_receive(&mut self, arrived: Arrived) {
        self.arrived.push_back(arrived);
    }

    /// Adds a copy. Returns `false` if there are already `limit` copies.
    pub(super) fn push_copy(&mut self, source: SocketAddr, data: &[u8], limit: usize) -> bool {
        if self.copies >= limit {
            return false;
        }
        self.copies += 1;
        self.arrived.push_back(Arrived {
            source,
            len: data.len(),
            place: Place::Copy(data.into()),
        });
        true
    }

    pub(super) fn first(&self) -> Option<&Arrived> {
        self.arrived.front()
    }

    pub(super) fn take_first(&mut self) -> Option<Arrived> {
        let first = self.arrived.pop_front()?;
        self.copies -= usize::from(matches!(first.place, Place::Copy(_)));
        Some(first)
    }

    /// Drops the datagrams in the memory of an endpoint that is gone.
    pub(super) fn forget(&mut self, gone: usize) {
        let is_gone =
            |place: &Place| matches!(place, Place::Receive { endpoint, .. } if *endpoint == gone);
        self.arrived.retain(|each| !is_gone(&each.place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_bounded_and_come_out_in_order() {
        let source = SocketAddr::from(([10, 0, 0, 1], 7));
        let mut inbox = Inbox::default();
        assert!(inbox.push_copy(source, b"one", 2));
        inbox.push_receive(Arrived {
            source,
            len: 9,
            place: Place::Receive {
                endpoint: 3,
                slot: 0,
                start: 0,
            },
        });
        assert!(inbox.push_copy(source, b"", 2));
        assert!(!inbox.push_copy(source, b"three", 2));
        assert_eq!(inbox.take_first().map(|first| first.len), Some(3));
        inbox.forget(3);
        assert!(inbox.push_copy(source, b"four", 2), "there is room again");
        let left: Vec<usize> = std::iter::from_fn(|| inbox.take_first())
            .map(|each| each.len)
            .collect();
        assert_eq!(left, [0, 4]);
        assert_eq!(inbox.copies, 0);
    }
}
