//! What all QPs of a NIC have in flight together towards one address.
//!
//! The window of a QP fits the buffer of a peer's port. A thousand QPs between the same
//! two hosts share that buffer: if each used its window, most packets would be dropped,
//! and those sent again, too. So what they have in flight together stays within one
//! window. Who finds no room waits in a queue, and is called when an acknowledgement
//! makes some. That room is kept for it until its turn to send has ended, so that nobody
//! is overtaken by those who need not wait.

use crate::ids::Handle;
use crate::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The least that QPs may have in flight together, in bytes.
const LEAST: u64 = 64 << 10;

/// Nobody is called for less room than this part of all: for a packet or two, a turn
/// costs more than it brings.
const WORTH_A_CALL: u64 = 16;

/// For so long a CNP tells others what the way to the peer bears.
const CNP_COUNTS: Duration = Duration::from_millis(10);

/// A QP's part in a share.
#[derive(Debug, Default)]
pub(crate) struct Stake {
    /// The share, and the peer whose it is.
    share: Option<(usize, IpAddr)>,
    bytes: u64,
    /// Room that nobody else may take.
    kept: u64,
    waits: bool,
}

/// Names a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareId(usize);

/// All shares of a NIC.
#[derive(Debug)]
pub(crate) struct Shares {
    by_peer: BTreeMap<IpAddr, usize>,
    shares: Vec<Share>,
    unused: Vec<usize>,
    limit: u64,
}

#[derive(Debug, Default)]
struct Share {
    qps: usize,
    in_flight: u64,
    /// What is kept for QPs, all together.
    kept: u64,
    waiting: VecDeque<Handle>,
    /// When a CNP last came, and the rate in bits a second of the QP that got it.
    slowed: Option<(Instant, f64)>,
}

/// What QPs may have in flight together if each alone may have `window_bytes`.
fn limit(window_bytes: usize) -> u64 {
    (window_bytes as u64).max(LEAST)
}

impl Shares {
    pub(crate) fn new(window_bytes: usize) -> Self {
        Self {
            by_peer: BTreeMap::new(),
            shares: Vec::new(),
            unused: Vec::new(),
            limit: limit(window_bytes),
        }
    }

    /// Sets what QPs may have in flight together, in bytes.
    pub(crate) fn set_limit(&mut self, window_bytes: usize) {
        self.limit = limit(window_bytes);
    }

    /// Makes the QP's stake one in the share of `peer`, if there is a peer. What it had
    /// in flight to another is forgotten: [`Shares::call`] should follow with the share
    /// that this gives, which has room now.
    pub(crate) fn join(
        &mut self,
        stake: &mut Stake,
        qp: Handle,
        peer: Option<IpAddr>,
    ) -> Option<ShareId> {
        if stake.share.map(|(_, peer)| peer) == peer {
            return None;
        }
        self.settle(stake, 0);
        self.release(stake);
        let left = stake.share.take();
        if let Some((index, old)) = left {
            if core::mem::take(&mut stake.waits) {
                self.shares[index].waiting.retain(|waits| *waits != qp);
            }
            self.leave(index, old);
        }
        if let Some(peer) = peer {
            let Self {
                by_peer,
                shares,
                unused,
                ..
            } = self;
            let index = *by_peer.entry(peer).or_insert_with(|| {
                unused.pop().unwrap_or_else(|| {
                    shares.push(Share::default());
                    shares.len() - 1
                })
            });
            shares[index].qps += 1;
            stake.share = Some((index, peer));
        }
        left.map(|(index, _)| ShareId(index))
    }

    fn leave(&mut self, index: usize, peer: IpAddr) {
        let share = &mut self.shares[index];
        share.qps -= 1;
        if share.qps == 0 {
            debug_assert!(share.waiting.is_empty() && share.in_flight + share.kept == 0);
            share.slowed = None;
            self.by_peer.remove(&peer);
            self.unused.push(index);
        }
    }

    /// How many bytes more the QP may have in flight.
    pub(crate) fn room(&self, stake: &Stake) -> u64 {
        let share = stake.share.and_then(|(index, _)| self.shares.get(index));
        share.map_or(u64::MAX, |share| share.free(self.limit) + stake.kept)
    }

    /// Keeps all the room that there is for the QP, until [`Shares::release`].
    pub(crate) fn keep(&mut self, stake: &mut Stake) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            let free = share.free(self.limit);
            share.kept += free;
            stake.kept += free;
        }
    }

    /// Keeps nothing for the QP any more.
    pub(crate) fn release(&mut self, stake: &mut Stake) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            share.kept -= core::mem::take(&mut stake.kept);
        }
    }

    /// A CNP has come, and has brought the QP down to `rate`, in bits a second.
    pub(crate) fn note_rate(&mut self, now: Instant, stake: &Stake, rate: f64) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            share.slowed = Some((now, rate));
        }
    }

    /// The rate of a QP to the same peer that has just got a CNP, in bits a second.
    pub(crate) fn neighbour_rate(&self, now: Instant, stake: &Stake) -> Option<f64> {
        let (index, _) = stake.share?;
        let (at, rate) = self.shares.get(index)?.slowed?;
        (now.saturating_duration_since(at) < CNP_COUNTS).then_some(rate)
    }

    /// Takes note of what a QP has in flight now.
    pub(crate) fn settle(&mut self, stake: &mut Stake, bytes: u64) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            share.in_flight = share.in_flight - stake.bytes + bytes;
            stake.bytes = bytes;
        }
    }

    /// The QP found no room: it will be called.
    pub(crate) fn wait(&mut self, stake: &mut Stake, qp: Handle) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
            && !stake.waits
        {
            stake.waits = true;
            share.waiting.push_back(qp);
        }
    }

    /// Whether anybody waits for room in the share.
    #[inline]
    pub(crate) fn has_waiting(&self, share: ShareId) -> bool {
        !self.shares[share.0].waiting.is_empty()
    }

    /// Who should have a turn now that there may be room in the share: the one that has
    /// waited for longest. What it leaves is for the next, whom its turn leads to.
    /// [`Shares::keep`] should follow.
    pub(crate) fn call(&mut self, share: ShareId) -> Option<Handle> {
        let share = &mut self.shares[share.0];
        if share.free(self.limit) < self.limit / WORTH_A_CALL {
            return None;
        }
        share.waiting.pop_front()
    }

    /// Who will be called not next, but after that.
    pub(crate) fn second(&self, share: ShareId) -> Option<Handle> {
        self.shares[share.0].waiting.get(1).copied()
    }
}

impl Share {
    /// Room that is nobody's.
    fn free(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.in_flight + self.kept)
    }
}

impl Stake {
    /// The share, if it is one in any.
    pub(crate) fn share(&self) -> Option<ShareId> {
        self.share.map(|(index, _)| ShareId(index))
    }

    /// The QP was called: it waits no longer, unless it finds no room again.
    pub(crate) fn is_called(&mut self) {
        self.waits = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_wire::Qpn;
    use std::net::Ipv4Addr;

    const PEER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
    const OTHER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)));

    fn qp(n: u32) -> Handle {
        Handle::new(n, Qpn::from_bits(n))
    }

    #[test]
    fn what_is_kept_for_one_the_other_has_not() {
        let (mut shares, [mut one, mut two]) = two();
        shares.settle(&mut one, 1 << 19);
        shares.keep(&mut one);
        assert_eq!((shares.room(&one), shares.room(&two)), (1 << 19, 0));
        shares.wait(&mut two, qp(2));
        let share = one.share().expect("joined");
        assert_eq!(shares.call(share), None, "all is kept");
        // What was sent of it counts until it ends.
        shares.settle(&mut one, (1 << 19) + 1000);
        assert_eq!(shares.room(&two), 0);
        shares.release(&mut one);
        assert_eq!(shares.call(share), Some(qp(2)));
        assert_eq!(shares.room(&two), (1 << 19) - 1000);
        shares.keep(&mut two);
        shares.join(&mut two, qp(2), None);
        assert_eq!(shares.room(&one), (1 << 19) - 1000);
    }

    /// Two QPs with one peer: what one has in flight, the other has not.
    fn two() -> (Shares, [Stake; 2]) {
        let mut shares = Shares::new(1 << 20);
        let mut stakes = [Stake::default(), Stake::default()];
        for (n, stake) in (1..).zip(&mut stakes) {
            assert_eq!(shares.join(stake, qp(n), PEER), None);
        }
        (shares, stakes)
    }

    #[test]
    fn what_one_has_in_flight_the_other_has_not() {
        let (mut shares, [mut one, mut two]) = two();
        shares.settle(&mut one, 1 << 20);
        assert_eq!(shares.room(&two), 0);
        shares.wait(&mut two, qp(2));
        shares.wait(&mut two, qp(2));
        let share = one.share().expect("joined");
        assert_eq!(shares.call(share), None, "no room, no call");
        shares.settle(&mut one, 1 << 19);
        assert_eq!(shares.room(&two), 1 << 19);
        assert_eq!(shares.second(share), None, "one alone is next");
        assert_eq!(shares.call(share), Some(qp(2)));
        assert_eq!(shares.call(share), None, "called once");
        // To another peer there is all the room.
        shares.join(&mut two, qp(2), OTHER);
        assert_eq!(shares.room(&two), 1 << 20);
    }

    #[test]
    fn who_leaves_makes_room_and_waits_no_longer() {
        let (mut shares, [mut one, mut two]) = two();
        shares.settle(&mut one, 1 << 20);
        shares.wait(&mut two, qp(2));
        let left = shares.join(&mut one, qp(1), None).expect("it was in one");
        assert_eq!(shares.call(left), Some(qp(2)));
        two.is_called();
        shares.wait(&mut two, qp(2));
        let left = shares.join(&mut two, qp(2), None).expect("it was in one");
        assert_eq!(shares.call(left), None);
        assert_eq!(shares.by_peer.len(), 0, "nobody is left");
    }
}
