//! The window that all QPs of a NIC share towards one address.
//!
//! The window of a QP fits the buffer of a peer's port. A thousand QPs between the same two hosts
//! share that buffer: if each used its whole window, most packets would be dropped, including the
//! retransmitted ones. So all of them together stay within one window. A QP that finds no room
//! waits in a queue, and gets a turn when an acknowledgement makes room. That room is kept for it
//! until its turn to send has ended, so that other QPs can't overtake it.

use crate::ids::Handle;
use crate::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The lower bound of the limit for all QPs of a share, in bytes.
const LEAST: u64 = 64 << 10;

/// A waiting QP gets a turn only if at least one part in this number of the window is free: for a
/// packet or two, a turn costs more than it gains.
const WORTH_A_CALL: u64 = 16;

/// How long a rate that a CNP has reduced serves other QPs to the same peer as an estimate.
const CNP_COUNTS: Duration = Duration::from_millis(10);

/// A QP's stake in a share.
#[derive(Debug, Default)]
pub(crate) struct Stake {
    /// The share, and its peer.
    share: Option<(usize, IpAddr)>,
    bytes: u64,
    /// Bytes of room that are reserved for this QP.
    kept: u64,
    waits: bool,
}

/// The ID of a share.
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
    /// The bytes of room that are reserved for QPs, in total.
    kept: u64,
    waiting: VecDeque<Handle>,
    /// When the last CNP arrived, and the rate in bits a second of the QP that got it.
    slowed: Option<(Instant, f64)>,
}

/// The limit for all QPs of a share, given the window of one QP; both in bytes.
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

    /// Sets the bytes that QPs may have in flight together.
    pub(crate) fn set_limit(&mut self, window_bytes: usize) {
        self.limit = limit(window_bytes);
    }

    /// Moves the QP's stake to the share of `peer`, if there is a peer, and forgets what the QP had
    /// in flight to its old peer. Returns the share that it left, which has room now: the caller
    /// then calls [`Shares::call`].
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

    /// The number of further bytes that the QP may have in flight.
    pub(crate) fn room(&self, stake: &Stake) -> u64 {
        let share = stake.share.and_then(|(index, _)| self.shares.get(index));
        share.map_or(u64::MAX, |share| share.free(self.limit) + stake.kept)
    }

    /// Keeps all the free room for the QP, until [`Shares::release`].
    pub(crate) fn keep(&mut self, stake: &mut Stake) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            let free = share.free(self.limit);
            share.kept += free;
            stake.kept += free;
        }
    }

    /// Releases the room that is kept for the QP.
    pub(crate) fn release(&mut self, stake: &mut Stake) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            share.kept -= core::mem::take(&mut stake.kept);
        }
    }

    /// Notes that a CNP has reduced the QP's rate to `rate`, in bits a second.
    pub(crate) fn note_rate(&mut self, now: Instant, stake: &Stake, rate: f64) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            share.slowed = Some((now, rate));
        }
    }

    /// The rate, in bits a second, of a QP to the same peer that has recently got a CNP.
    pub(crate) fn neighbour_rate(&self, now: Instant, stake: &Stake) -> Option<f64> {
        let (index, _) = stake.share?;
        let (at, rate) = self.shares.get(index)?.slowed?;
        (now.saturating_duration_since(at) < CNP_COUNTS).then_some(rate)
    }

    /// Notes the bytes that a QP has in flight now.
    pub(crate) fn settle(&mut self, stake: &mut Stake, bytes: u64) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
        {
            share.in_flight = share.in_flight - stake.bytes + bytes;
            stake.bytes = bytes;
        }
    }

    /// Queues a QP that found no room, until [`Shares::call`] returns it.
    pub(crate) fn wait(&mut self, stake: &mut Stake, qp: Handle) {
        if let Some((index, _)) = stake.share
            && let Some(share) = self.shares.get_mut(index)
            && !stake.waits
        {
            stake.waits = true;
            share.waiting.push_back(qp);
        }
    }

    /// Whether a QP waits for room in the share.
    #[inline]
    pub(crate) fn has_waiting(&self, share: ShareId) -> bool {
        !self.shares[share.0].waiting.is_empty()
    }

    /// Returns the QP that has waited longest, if there is room in the share: it gets a turn, and
    /// after it the rest of the room goes to the next QP. The caller then calls [`Shares::keep`].
    pub(crate) fn call(&mut self, share: ShareId) -> Option<Handle> {
        let share = &mut self.shares[share.0];
        if share.free(self.limit) < self.limit / WORTH_A_CALL {
            return None;
        }
        share.waiting.pop_front()
    }

    /// The QP that [`Shares::call`] will return after the next one.
    pub(crate) fn second(&self, share: ShareId) -> Option<Handle> {
        self.shares[share.0].waiting.get(1).copied()
    }
}

impl Share {
    /// The free room.
    fn free(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.in_flight + self.kept)
    }
}

impl Stake {
    /// The share, if the stake is in one.
    pub(crate) fn share(&self) -> Option<ShareId> {
        self.share.map(|(index, _)| ShareId(index))
    }

    /// Notes that [`Shares::call`] returned the QP: it no longer waits, unless it finds no room
    /// again.
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
        // What it has sent counts until it is acknowledged.
        shares.settle(&mut one, (1 << 19) + 1000);
        assert_eq!(shares.room(&two), 0);
        shares.release(&mut one);
        assert_eq!(shares.call(share), Some(qp(2)));
        assert_eq!(shares.room(&two), (1 << 19) - 1000);
        shares.keep(&mut two);
        shares.join(&mut two, qp(2), None);
        assert_eq!(shares.room(&one), (1 << 19) - 1000);
    }

    /// Two QPs with one peer, which share its window.
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
        // To another peer, the whole window is free.
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
        assert_eq!(shares.by_peer.len(), 0, "no QP is left");
    }
}
