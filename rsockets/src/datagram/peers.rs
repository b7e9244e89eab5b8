//! The peers whose UD QPs a socket knows.

use roce_verbs::datagram::Destination;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The most peers that a socket remembers. A datagram to one that it has forgotten goes over the
/// UDP socket, and the peer's answer makes it known again.
const MAX_PEERS: usize = 1024;

/// The time after which a socket asks a peer for its QPN again. A program that was started again has
/// the same address and another QP.
const VALIDITY: Duration = Duration::from_secs(3);

/// A peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The place of the endpoint that datagrams to the peer leave from.
    pub(super) endpoint: usize,
    /// The peer's QP, once it is known.
    pub(super) path: Option<Path>,
}

/// The way to a peer's QP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) destination: Destination,
    /// When the peer last said that this is its QP.
    confirmed: Instant,
    /// Whether it has been asked since.
    asked: bool,
}

impl Path {
    /// The way to a peer that has just said that this is its QP.
    pub(super) fn confirmed(destination: Destination, now: Instant) -> Self {
        Self {
            destination,
            confirmed: now,
            asked: false,
        }
    }

    /// Whether the next datagram goes to the QP. From time to time one goes over the UDP socket
    /// instead, and if the peer does not answer it, all do.
    pub(super) fn is_good(&mut self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.confirmed);
        age < VALIDITY || age < 2 * VALIDITY && std::mem::replace(&mut self.asked, true)
    }
}

/// The peers, by address. When there are too many, those go that were not used since the last one
/// had to go.
#[derive(Debug, Default)]
pub(super) struct Peers {
    places: HashMap<SocketAddr, usize>,
    entries: Vec<Entry>,
    /// The entry that is considered next for eviction.
    hand: usize,
}

#[derive(Debug)]
struct Entry {
    address: SocketAddr,
    peer: Peer,
    /// Whether the program has sent to the peer since the hand passed. Strangers that only send
    /// therefore displace each other first.
    used: bool,
}

impl Peers {
    /// The peer with an address, to which the program sends.
    pub(super) fn used(&mut self, address: SocketAddr) -> Option<&mut Peer> {
        let place = *self.places.get(&address)?;
        let entry = &mut self.entries[place];
        entry.used = true;
        Some(&mut entry.peer)
    }

    /// The peer with an address, which is made if there is none.
    pub(super) fn get_or_insert(&mut self, address: SocketAddr, new: Peer) -> &mut Peer {
        let place = match self.places.get(&address) {
            Some(place) => *place,
            None => self.insert(address, new),
        };
        &mut self.entries[place].peer
    }

    fn insert(&mut self, address: SocketAddr, peer: Peer) -> usize {
        let entry = Entry {
            address,
            peer,
            used: false,
        };
        let place = if self.entries.len() < MAX_PEERS {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let place = self.evict();
            self.entries[place] = entry;
            place
        };
        self.places.insert(address, place);
        place
    }

    /// Forgets a peer, and returns its place.
    fn evict(&mut self) -> usize {
        // Ends: each entry that the hand passes is unused when it comes by again.
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[place];
            if !std::mem::replace(&mut entry.used, false) {
                self.places.remove(&entry.address);
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> SocketAddr {
        let [.., high, low] = number.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], 7174))
    }

    fn peer(endpoint: usize) -> Peer {
        Peer {
            endpoint,
            path: None,
        }
    }

    #[test]
    fn a_flood_of_strangers_is_bounded_and_leaves_the_peers_in_use() {
        let mut peers = Peers::default();
        for number in 0..10 {
            peers.get_or_insert(address(number), peer(7));
        }
        for stranger in 10..5 * MAX_PEERS {
            // The program sends to its peers from time to time.
            if stranger % 100 == 10 {
                for number in 0..10 {
                    assert_eq!(
                        peers.used(address(number)).map(|peer| peer.endpoint),
                        Some(7)
                    );
                }
            }
            peers.get_or_insert(address(stranger), peer(0));
            assert!(peers.entries.len() <= MAX_PEERS);
            assert_eq!(peers.entries.len(), peers.places.len());
        }
        assert!(
            peers.used(address(11)).is_none(),
            "the oldest stranger is forgotten"
        );
        assert!(peers.used(address(5 * MAX_PEERS - 1)).is_some());
    }

    #[test]
    fn room_is_found_if_all_peers_are_in_use() {
        let mut peers = Peers::default();
        for number in 0..MAX_PEERS {
            peers.get_or_insert(address(number), peer(0));
            peers.used(address(number));
        }
        peers.get_or_insert(address(MAX_PEERS), peer(1));
        assert!(peers.used(address(MAX_PEERS)).is_some());
        assert_eq!(peers.places.len(), MAX_PEERS);
    }

    #[test]
    fn a_peer_that_is_known_is_not_replaced() {
        let mut peers = Peers::default();
        peers.get_or_insert(address(1), peer(3));
        assert_eq!(peers.get_or_insert(address(1), peer(4)).endpoint, 3);
    }
}
