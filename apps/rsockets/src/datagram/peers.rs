//! The peers of a socket and their UD QPs.

use roce_verbs::datagram::Destination;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Maximum number of peers that a socket remembers. A datagram to a forgotten peer goes over the UDP
/// socket, and the answer makes the peer known again.
const MAX_PEERS: usize = 1024;

/// How long a peer's QPN is valid before the socket asks again: a restarted program has the same
/// address and another QP. If two QPNs were named for a peer within this time, datagrams go over the
/// UDP socket until it has passed.
const VALIDITY: Duration = Duration::from_secs(3);

/// A peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The index of the endpoint that sends to the peer.
    pub(super) endpoint: usize,
    /// The peer's QP, once known.
    path: Option<Path>,
    /// Whether the peer was asked for its QPN since it last named one.
    asked: bool,
}

/// The path to a peer's QP.
#[derive(Clone, Copy, Debug)]
struct Path {
    destination: Destination,
    /// When the peer last named this QP.
    named: Instant,
    /// Whether that was an answer to a question.
    is_confirmed: bool,
    /// When another QP was last named for the peer.
    disputed: Option<Instant>,
}

impl Peer {
    /// A peer whose QP is not known.
    pub(super) fn new(endpoint: usize) -> Self {
        Self {
            endpoint,
            path: None,
            asked: false,
        }
    }

    /// Handles a message that names the peer's QP. Its source address may be forged, so the first QP
    /// stays until the peer was asked and has not named it for [`VALIDITY`]. The QP is used only if an
    /// answer confirmed it and no message names another.
    pub(super) fn learn_qp(&mut self, endpoint: usize, destination: Destination, now: Instant) {
        let is_same = |path: &Path| path.destination.qpn == destination.qpn;
        match &mut self.path {
            Some(path) if is_same(path) => {
                path.named = now;
                path.is_confirmed |= self.asked;
                path.destination = destination;
            }
            Some(path) if !self.asked || now.saturating_duration_since(path.named) < VALIDITY => {
                path.disputed = Some(now);
                return;
            }
            path => {
                *path = Some(Path {
                    destination,
                    named: now,
                    is_confirmed: path.is_none() && self.asked,
                    disputed: path.and_then(|path| path.disputed),
                });
            }
        }
        (self.endpoint, self.asked) = (endpoint, false);
    }

    /// The QP for the next datagram. `None` sends it over the UDP socket, which asks the peer for its
    /// QPN: periodically, and always while the peer does not answer.
    pub(super) fn destination(&mut self, now: Instant) -> Option<Destination> {
        let asked = std::mem::replace(&mut self.asked, true);
        let path = self.path.filter(|path| path.is_good(asked, now))?;
        self.asked = asked;
        Some(path.destination)
    }

    /// Called when a datagram goes over the UDP socket anyway.
    pub(super) fn mark_asked(&mut self) {
        self.asked = true;
    }
}

impl Path {
    fn is_good(&self, asked: bool, now: Instant) -> bool {
        let since = |then| now.saturating_duration_since(then);
        let age = since(self.named);
        self.is_confirmed
            && self.disputed.is_none_or(|at| since(at) >= VALIDITY)
            && (age < VALIDITY || age < 2 * VALIDITY && asked)
    }
}

/// The peers by address. A full table evicts with the clock algorithm (second chance).
#[derive(Debug, Default)]
pub(super) struct Peers {
    places: HashMap<SocketAddr, usize>,
    entries: Vec<Entry>,
    /// The next candidate for eviction.
    hand: usize,
}

#[derive(Debug)]
struct Entry {
    address: SocketAddr,
    peer: Peer,
    /// Whether the program has sent to the peer since the hand passed. So strangers that only send evict
    /// each other first.
    used: bool,
}

impl Peers {
    /// The peer with an address, marked as used because the program sends to it.
    pub(super) fn touch(&mut self, address: SocketAddr) -> Option<&mut Peer> {
        let place = *self.places.get(&address)?;
        let entry = &mut self.entries[place];
        entry.used = true;
        Some(&mut entry.peer)
    }

    /// The peer with an address, inserted if there is none.
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

    /// Removes a peer and returns its index.
    fn evict(&mut self) -> usize {
        // Terminates: the hand clears `used` of each entry that it passes.
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
    use roce_verbs::datagram::{AddressHandle, AddressOptions};
    use roce_verbs::qp::QKey;
    use roce_verbs::{Device, Qpn};
    use std::net::{IpAddr, Ipv4Addr};

    fn address(number: usize) -> SocketAddr {
        let [.., high, low] = number.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], 7174))
    }

    fn peer(endpoint: usize) -> Peer {
        Peer::new(endpoint)
    }

    /// QPs at the loopback address.
    struct Qps {
        now: Instant,
        handle: AddressHandle,
    }

    impl Qps {
        fn new() -> Self {
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let context = Device::with_address(here).expect("loopback").open();
            let context = context.expect("opened");
            let index = context.gid_index(here).expect("an address");
            let options = AddressOptions::default();
            let handle = context.alloc_pd().create_ah(index, here.into(), &options);
            let handle = handle.expect("a path");
            Self {
                now: Instant::now(),
                handle,
            }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.now + Duration::from_secs(seconds)
        }

        /// A message names this QPN.
        fn learn_qp(&self, peer: &mut Peer, qpn: u32, seconds: u64) {
            let qpn = Qpn::new(qpn).expect("24 bits");
            let destination = self.handle.to(qpn, QKey(7));
            peer.learn_qp(0, destination, self.at(seconds));
        }

        /// Where a datagram goes.
        fn sent(&self, peer: &mut Peer, seconds: u64) -> Option<u32> {
            let destination = peer.destination(self.at(seconds))?;
            Some(destination.qpn.get())
        }
    }

    #[test]
    fn only_an_answer_makes_a_qp_known() {
        let (qps, mut peer) = (Qps::new(), peer(0));
        qps.learn_qp(&mut peer, 17, 0);
        assert_eq!(qps.sent(&mut peer, 0), None, "nobody has asked");
        qps.learn_qp(&mut peer, 17, 0);
        assert_eq!(qps.sent(&mut peer, 0), Some(17));
        assert_eq!(qps.sent(&mut peer, 2), Some(17));
        // It is asked again, and datagrams go there for a while.
        assert_eq!(qps.sent(&mut peer, 3), None);
        assert_eq!(qps.sent(&mut peer, 3), Some(17));
        assert_eq!(qps.sent(&mut peer, 5), Some(17));
        assert_eq!(qps.sent(&mut peer, 6), None);
        qps.learn_qp(&mut peer, 17, 6);
        assert_eq!(qps.sent(&mut peer, 6), Some(17));
    }

    #[test]
    fn a_forged_name_sends_datagrams_over_udp_and_never_elsewhere() {
        let (qps, mut peer) = (Qps::new(), peer(0));
        assert_eq!(qps.sent(&mut peer, 0), None);
        qps.learn_qp(&mut peer, 17, 0);
        assert_eq!(qps.sent(&mut peer, 0), Some(17));
        qps.learn_qp(&mut peer, 66, 1);
        for seconds in 1..4 {
            assert_eq!(qps.sent(&mut peer, seconds), None);
            qps.learn_qp(&mut peer, 17, seconds);
        }
        assert_eq!(qps.sent(&mut peer, 4), Some(17));
        // Long after the last datagram, however often.
        for _ in 0..3 {
            qps.learn_qp(&mut peer, 66, 100);
        }
        assert_eq!(qps.sent(&mut peer, 100), None);
        qps.learn_qp(&mut peer, 17, 100);
        assert_eq!(qps.sent(&mut peer, 102), None);
        qps.learn_qp(&mut peer, 17, 102);
        assert_eq!(qps.sent(&mut peer, 103), Some(17));
    }

    #[test]
    fn a_peer_that_was_started_again_is_found() {
        let (qps, mut peer) = (Qps::new(), peer(0));
        assert_eq!(qps.sent(&mut peer, 0), None);
        qps.learn_qp(&mut peer, 17, 0);
        assert_eq!(qps.sent(&mut peer, 3), None);
        qps.learn_qp(&mut peer, 18, 3);
        assert_eq!(qps.sent(&mut peer, 3), None, "it is asked once more");
        qps.learn_qp(&mut peer, 18, 3);
        assert_eq!(qps.sent(&mut peer, 3), Some(18));
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
                        peers.touch(address(number)).map(|peer| peer.endpoint),
                        Some(7)
                    );
                }
            }
            peers.get_or_insert(address(stranger), peer(0));
            assert!(peers.entries.len() <= MAX_PEERS);
            assert_eq!(peers.entries.len(), peers.places.len());
        }
        assert!(
            peers.touch(address(11)).is_none(),
            "the oldest stranger is forgotten"
        );
        assert!(peers.touch(address(5 * MAX_PEERS - 1)).is_some());
    }

    #[test]
    fn room_is_found_if_all_peers_are_in_use() {
        let mut peers = Peers::default();
        for number in 0..MAX_PEERS {
            peers.get_or_insert(address(number), peer(0));
            peers.touch(address(number));
        }
        peers.get_or_insert(address(MAX_PEERS), peer(1));
        assert!(peers.touch(address(MAX_PEERS)).is_some());
        assert_eq!(peers.places.len(), MAX_PEERS);
    }

    #[test]
    fn a_peer_that_is_known_is_not_replaced() {
        let mut peers = Peers::default();
        peers.get_or_insert(address(1), peer(3));
        assert_eq!(peers.get_or_insert(address(1), peer(4)).endpoint, 3);
    }
}
