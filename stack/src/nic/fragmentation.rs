//! Tracks which sources set "don't fragment", for sockets that hide the flag.
//!
//! [`icrc::verify_hidden_v4`](roce_wire::icrc::verify_hidden_v4) accepts a packet for any
//! identification and for both values of "don't fragment". Because of these 17 unknown bits, some
//! damaged packets pass, among them a few with a single flipped bit. For every packet with a single
//! flipped bit that passes, the verification finds the wrong value of the flag. RoCE senders set
//! the flag in every packet or in none. So a packet whose flag differs from its source's earlier
//! packets is dropped as damaged.

use std::net::Ipv4Addr;

/// The sources that clear the flag or may clear it. Every other source is expected to set it.
#[derive(Debug, Default)]
pub(super) struct Fragmentation {
    sources: Vec<KnownSource>,
    /// The entry that the next new source replaces once the table is full.
    oldest: usize,
}

#[derive(Debug)]
struct KnownSource {
    address: Ipv4Addr,
    port: u16,
    /// The flag in the packets that are accepted.
    expected: bool,
    /// The flag in the newest packet.
    newest: bool,
}

impl Fragmentation {
    /// The size of the table. A source that sets the flag, as all known RoCE senders do, needs no
    /// entry.
    const SOURCES: usize = 16;

    /// Returns whether to accept a packet from this source with this value of the flag. The
    /// expected value changes with the second of two successive packets that carry the new value;
    /// the first one is dropped.
    #[inline]
    pub(super) fn agrees(&mut self, address: Ipv4Addr, port: u16, dont_fragment: bool) -> bool {
        if dont_fragment && self.sources.is_empty() {
            return true;
        }
        self.agrees_with_known(address, port, dont_fragment)
    }

    #[cold]
    fn agrees_with_known(&mut self, address: Ipv4Addr, port: u16, dont_fragment: bool) -> bool {
        let known = self
            .sources
            .iter_mut()
            .find(|source| (source.address, source.port) == (address, port));
        let Some(source) = known else {
            if !dont_fragment {
                self.expect_clear_flag(address, port);
            }
            return dont_fragment;
        };
        if source.newest == dont_fragment {
            source.expected = dont_fragment;
        }
        source.newest = dont_fragment;
        source.expected == dont_fragment
    }

    /// Adds a source whose first packet with the flag clear has just been refused.
    fn expect_clear_flag(&mut self, address: Ipv4Addr, port: u16) {
        let source = KnownSource {
            address,
            port,
            expected: true,
            newest: false,
        };
        if self.sources.len() < Self::SOURCES {
            self.sources.push(source);
        } else {
            self.sources[self.oldest] = source;
            self.oldest = (self.oldest + 1) % Self::SOURCES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    #[test]
    fn the_flag_is_expected_to_be_set() {
        let mut flags = Fragmentation::default();
        assert!(flags.agrees(PEER, 1, true));
        assert!(!flags.agrees(PEER, 1, false));
        assert!(flags.agrees(PEER, 1, true));
        assert!(!flags.agrees(PEER, 1, false));
    }

    #[test]
    fn a_source_that_clears_the_flag_loses_one_packet() {
        let mut flags = Fragmentation::default();
        assert!(!flags.agrees(PEER, 1, false));
        assert!(flags.agrees(PEER, 1, false));
        assert!(!flags.agrees(PEER, 1, true), "damaged");
        assert!(flags.agrees(PEER, 1, false));
        assert!(!flags.agrees(PEER, 2, false), "another source");
    }

    #[test]
    fn the_table_is_bounded_and_new_sources_replace_the_oldest() {
        let mut flags = Fragmentation::default();
        for port in 0..100 {
            assert!(!flags.agrees(PEER, port, false));
            assert!(flags.agrees(PEER, port, false));
        }
        assert_eq!(flags.sources.len(), Fragmentation::SOURCES);
        assert!(flags.agrees(PEER, 99, false));
        assert!(!flags.agrees(PEER, 0, false), "forgotten");
    }
}
