//! Peer windows: the bytes that all QPs of a NIC together may have in flight to one address.
//!
//! The window of a QP fits the buffer of a peer's port. A thousand QPs between the same two hosts
//! share that buffer: if each used its whole window, most packets would be dropped, including the
//! retransmitted ones. So all of them together stay within one window. A QP that finds no room
//! waits in a queue, and gets a turn when an acknowledgement makes room. The room is reserved for
//! the QP until its turn to send has ended, so that other QPs can't overtake it.

use crate::ids::Handle;
use crate::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The lower bound of the limit for all QPs of a peer window together, in bytes.
const MIN_LIMIT: u64 = 64 << 10;

/// A waiting QP gets a turn only if at least 1/16 of the limit is free: for a packet or two, a turn
/// costs more than it gains.
const MIN_ROOM_DIVISOR: u64 = 16;

/// After a CNP has reduced the rate of a QP, other QPs to the same peer start no faster for this
/// long.
const CNP_RATE_LIFETIME: Duration = Duration::from_millis(10);

/// A QP's share of a peer window.
#[derive(Debug, Default)]
pub(crate) struct WindowShare {
    /// The window, and its peer.
    window: Option<(usize, IpAddr)>,
    in_flight: u64,
    /// Bytes of room that are reserved for this QP.
    reserved: u64,
    is_waiting: bool,
}

/// The ID of a peer window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerWindowId(usize);

/// All peer windows of a NIC.
#[derive(Debug)]
pub(crate) struct PeerWindows {
    by_peer: BTreeMap<IpAddr, usize>,
    windows: Vec<PeerWindow>,
    unused: Vec<usize>,
    limit: u64,
}

#[derive(Debug, Default)]
struct PeerWindow {
    qps: usize,
    in_flight: u64,
    /// The room that is reserved for QPs, all together.
    reserved: u64,
    waiting: VecDeque<Handle>,
    /// When the last CNP arrived, and the rate in bits a second of the QP that got it.
    slowed: Option<(Instant, f64)>,
}

/// The limit for all QPs of a peer window together, given the window of one QP; both in bytes.
fn limit(window_bytes: usize) -> u64 {
    (window_bytes as u64).max(MIN_LIMIT)
}

impl PeerWindows {
    pub(crate) fn new(window_bytes: usize) -> Self {
        Self {
            by_peer: BTreeMap::new(),
            windows: Vec::new(),
            unused: Vec::new(),
            limit: limit(window_bytes),
        }
    }

    /// Sets the bytes that QPs may have in flight together.
    pub(crate) fn set_limit(&mut self, window_bytes: usize) {
        self.limit = limit(window_bytes);
    }

    /// Moves the QP's share to the window of `peer`, or out of all windows if `peer` is `None`. The
    /// bytes that it had in flight no longer count. Returns the window that it left, which now has
    /// room: the caller then calls [`PeerWindows::next_waiting`].
    pub(crate) fn join(
        &mut self,
        share: &mut WindowShare,
        qp: Handle,
        peer: Option<IpAddr>,
    ) -> Option<PeerWindowId> {
        if share.window.map(|(_, peer)| peer) == peer {
            return None;
        }
        self.set_in_flight(share, 0);
        self.release(share);
        let left = share.window.take();
        if let Some((index, old)) = left {
            if core::mem::take(&mut share.is_waiting) {
                self.windows[index].waiting.retain(|waits| *waits != qp);
            }
            self.leave(index, old);
        }
        if let Some(peer) = peer {
            let Self {
                by_peer,
                windows,
                unused,
                ..
            } = self;
            let index = *by_peer.entry(peer).or_insert_with(|| {
                unused.pop().unwrap_or_else(|| {
                    windows.push(PeerWindow::default());
                    windows.len() - 1
                })
            });
            windows[index].qps += 1;
            share.window = Some((index, peer));
        }
        left.map(|(index, _)| PeerWindowId(index))
    }

    fn leave(&mut self, index: usize, peer: IpAddr) {
        let window = &mut self.windows[index];
        window.qps -= 1;
        if window.qps == 0 {
            debug_assert!(window.waiting.is_empty() && window.in_flight + window.reserved == 0);
            window.slowed = None;
            self.by_peer.remove(&peer);
            self.unused.push(index);
        }
    }

    /// The number of further bytes that the QP may have in flight.
    pub(crate) fn room(&self, share: &WindowShare) -> u64 {
        let window = share.window.and_then(|(index, _)| self.windows.get(index));
        window.map_or(u64::MAX, |window| window.free(self.limit) + share.reserved)
    }

    /// Reserves all the free room for the QP, until [`PeerWindows::release`].
    pub(crate) fn reserve(&mut self, share: &mut WindowShare) {
        if let Some((index, _)) = share.window
            && let Some(window) = self.windows.get_mut(index)
        {
            let free = window.free(self.limit);
            window.reserved += free;
            share.reserved += free;
        }
    }

    /// Releases the room that is reserved for the QP.
    pub(crate) fn release(&mut self, share: &mut WindowShare) {
        if let Some((index, _)) = share.window
            && let Some(window) = self.windows.get_mut(index)
        {
            window.reserved -= core::mem::take(&mut share.reserved);
        }
    }

    /// Notes that a CNP has reduced the QP's rate to `rate`, in bits a second.
    pub(crate) fn note_rate(&mut self, now: Instant, share: &WindowShare, rate: f64) {
        if let Some((index, _)) = share.window
            && let Some(window) = self.windows.get_mut(index)
        {
            window.slowed = Some((now, rate));
        }
    }

    /// The rate, in bits a second, of a QP to the same peer that has recently got a CNP.
    pub(crate) fn neighbour_rate(&self, now: Instant, share: &WindowShare) -> Option<f64> {
        let (index, _) = share.window?;
        let (at, rate) = self.windows.get(index)?.slowed?;
        (now.saturating_duration_since(at) < CNP_RATE_LIFETIME).then_some(rate)
    }

    /// Notes the bytes that a QP has in flight now.
    pub(crate) fn set_in_flight(&mut self, share: &mut WindowShare, bytes: u64) {
        if let Some((index, _)) = share.window
            && let Some(window) = self.windows.get_mut(index)
        {
            window.in_flight = window.in_flight - share.in_flight + bytes;
            share.in_flight = bytes;
        }
    }

    /// Queues a QP that found no room, until [`PeerWindows::next_waiting`] returns it.
    pub(crate) fn wait(&mut self, share: &mut WindowShare, qp: Handle) {
        if let Some((index, _)) = share.window
            && let Some(window) = self.windows.get_mut(index)
            && !share.is_waiting
        {
            share.is_waiting = true;
            window.waiting.push_back(qp);
        }
    }

    /// Whether a QP waits for room in the window.
    #[inline]
    pub(crate) fn has_waiting(&self, window: PeerWindowId) -> bool {
        !self.windows[window.0].waiting.is_empty()
    }

    /// Removes and returns the QP that has waited longest, if the window has enough room for a
    /// turn. After its turn, the rest of the room goes to the next QP. The caller then calls
    /// [`PeerWindows::reserve`].
    pub(crate) fn next_waiting(&mut self, window: PeerWindowId) -> Option<Handle> {
        let window = &mut self.windows[window.0];
        if window.free(self.limit) < self.limit / MIN_ROOM_DIVISOR {
            return None;
        }
        window.waiting.pop_front()
    }

    /// The QP that [`PeerWindows::next_waiting`] will return after the next one.
    pub(crate) fn second(&self, window: PeerWindowId) -> Option<Handle> {
        self.windows[window.0].waiting.get(1).copied()
    }
}

impl PeerWindow {
    /// The free room.
    fn free(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.in_flight + self.reserved)
    }
}

impl WindowShare {
    /// The window, if the share is in one.
    pub(crate) fn window(&self) -> Option<PeerWindowId> {
        self.window.map(|(index, _)| PeerWindowId(index))
    }

    /// Notes that [`PeerWindows::next_waiting`] has returned the QP, which no longer waits.
    pub(crate) fn on_turn(&mut self) {
        self.is_waiting = false;
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
        let (mut windows, [mut one, mut two]) = two();
        windows.set_in_flight(&mut one, 1 << 19);
        windows.reserve(&mut one);
        assert_eq!((windows.room(&one), windows.room(&two)), (1 << 19, 0));
        windows.wait(&mut two, qp(2));
        let window = one.window().expect("joined");
        assert_eq!(windows.next_waiting(window), None, "all is reserved");
        // The packets that it has sent count until they are acknowledged.
        windows.set_in_flight(&mut one, (1 << 19) + 1000);
        assert_eq!(windows.room(&two), 0);
        windows.release(&mut one);
        assert_eq!(windows.next_waiting(window), Some(qp(2)));
        assert_eq!(windows.room(&two), (1 << 19) - 1000);
        windows.reserve(&mut two);
        windows.join(&mut two, qp(2), None);
        assert_eq!(windows.room(&one), (1 << 19) - 1000);
    }

    /// Two QPs with one peer, which share its window.
    fn two() -> (PeerWindows, [WindowShare; 2]) {
        let mut windows = PeerWindows::new(1 << 20);
        let mut shares = [WindowShare::default(), WindowShare::default()];
        for (n, share) in (1..).zip(&mut shares) {
            assert_eq!(windows.join(share, qp(n), PEER), None);
        }
        (windows, shares)
    }

    #[test]
    fn what_one_has_in_flight_the_other_has_not() {
        let (mut windows, [mut one, mut two]) = two();
        windows.set_in_flight(&mut one, 1 << 20);
        assert_eq!(windows.room(&two), 0);
        windows.wait(&mut two, qp(2));
        windows.wait(&mut two, qp(2));
        let window = one.window().expect("joined");
        assert_eq!(windows.next_waiting(window), None, "no room, no call");
        windows.set_in_flight(&mut one, 1 << 19);
        assert_eq!(windows.room(&two), 1 << 19);
        assert_eq!(windows.second(window), None, "one alone is next");
        assert_eq!(windows.next_waiting(window), Some(qp(2)));
        assert_eq!(windows.next_waiting(window), None, "called once");
        // To another peer, the whole window is free.
        windows.join(&mut two, qp(2), OTHER);
        assert_eq!(windows.room(&two), 1 << 20);
    }

    #[test]
    fn who_leaves_makes_room_and_waits_no_longer() {
        let (mut windows, [mut one, mut two]) = two();
        windows.set_in_flight(&mut one, 1 << 20);
        windows.wait(&mut two, qp(2));
        let left = windows.join(&mut one, qp(1), None).expect("it was in one");
        assert_eq!(windows.next_waiting(left), Some(qp(2)));
        two.on_turn();
        windows.wait(&mut two, qp(2));
        let left = windows.join(&mut two, qp(2), None).expect("it was in one");
        assert_eq!(windows.next_waiting(left), None);
        assert_eq!(windows.by_peer.len(), 0, "no QP is left");
    }
}
