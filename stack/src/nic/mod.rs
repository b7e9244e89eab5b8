//! The NIC: the table of queue pairs, and the handling of each packet, each timer and each turn to
//! transmit.

mod memory;

use crate::address::{AddressError, AddressHandle};
use crate::congestion::{CongestionControl, NotificationPoint};
use crate::counters::{Counters, DropReason, Stat};
use crate::encapsulation::{RxMeta, TxMeta};
use crate::event::Event;
use crate::ids::Handle;
use crate::kind::QpState;
use crate::memory::{Access, Buffer, PdId, RegisterError};
use crate::observe::Observed;
use crate::qp::{Cx, ModifyError, PortLimits, Qp, QpAttributes, QpConfig, Shared, Turn};
use crate::qpn_range::QpnRange;
use crate::recently_freed::RecentlyFreed;
use crate::time::Instant;
use crate::transmit::Transmit;
use core::hint::cold_path;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_wire::{Operation, Packet, Psn, Qpn};
use std::collections::VecDeque;
use std::sync::Arc;

mod cache_prefetch;
mod completion_counter;
mod congestion;
mod create;
mod fragmentation;
mod intact;
mod management;
mod multicast;
mod observed;
mod persist;
mod post;
mod reports;
mod schedule;
mod srq;
mod status;
mod table;
mod usage;
mod wheel;
mod xrc;

pub use create::CreateQpError;
use intact::icrc_is_valid;
pub use management::{MAD_BYTES, MadError, ReceivedMad};
pub use multicast::MulticastError;
pub use status::QpStatus;
use table::{NEVER, Slot, Table};
pub use usage::Usage;
use wheel::Wheel;

/// The configuration of a [`Nic`].
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The seed of all randomness: QPNs, keys, PSNs. The same seed and the same calls give the same
    /// NIC. Must be unpredictable in production.
    pub seed: [u8; 32],
    /// The largest transport packet that the port sends, in bytes.
    pub max_packet_bytes: usize,
    /// The maximum number of bytes that one QP keeps in flight.
    pub window_bytes: usize,
}

/// The number of packets that a QP sends before the other QPs have their turn. A UDP datagram holds
/// 15 packets of 4 KiB and up to 62 of 1 KiB, so the turn leaves no short datagram behind: 64 packets
/// would.
const QUANTUM: usize = 60;

/// An RDMA NIC without a clock, a thread or a network.
///
/// The code that drives it calls the following, in any order and any number of times:
///
/// 1. [`Nic::receive`] with each packet that a port receives,
/// 2. [`Nic::handle_timeouts`] at [`Nic::next_timeout`] or later,
/// 3. [`Nic::transmit`] after any of these and after any posting, while
///    [`Nic::wants_to_send`],
/// 4. [`Nic::poll_event`] until it returns `None`, and [`Nic::poll_failure`], if it wants to know
///    why QPs fail,
/// 5. [`Nic::poll_persist`] until it returns `None`, if a region has memory that
///    [blocks](crate::Durable::blocks), and [`Nic::finish_persist`] for each request.
///
/// `now` must never decrease from one call to the next.
#[derive(Debug)]
pub struct Nic {
    limits: PortLimits,
    rng: ChaCha20Rng,
    qps: Table,
    freed_qpns: RecentlyFreed,
    shared: Shared,
    groups: multicast::Groups,
    observed: Observed,
    ready: VecDeque<Handle>,
    fragmentation: fragmentation::Fragmentation,
    /// QP1, if it is open.
    management: Option<Box<management::GeneralServices>>,
    /// The QPs that have a CNP to send.
    pending_cnps: VecDeque<Handle>,
    reports: reports::Reports,
    /// A timer for each QP, by its slot in the table.
    timers: Wheel,
    /// The destination QPN of the last packet received.
    last_qpn: Qpn,
    /// The range that QPNs are drawn from; `None` for all QPNs.
    part: Option<QpnRange>,
}

impl Nic {
    /// A NIC without any QP.
    pub fn new(config: &NicConfig) -> Self {
        Self {
            limits: PortLimits {
                max_packet_bytes: config.max_packet_bytes,
                window_bytes: config.window_bytes,
            },
            rng: ChaCha20Rng::from_seed(config.seed),
            qps: Table::default(),
            freed_qpns: RecentlyFreed::default(),
            shared: Shared::new(config.window_bytes),
            groups: multicast::Groups::default(),
            observed: Observed::default(),
            ready: VecDeque::new(),
            fragmentation: fragmentation::Fragmentation::default(),
            management: None,
            pending_cnps: VecDeque::new(),
            reports: reports::Reports::default(),
            timers: Wheel::default(),
            last_qpn: Qpn::MULTICAST,
            part: None,
        }
    }

    /// Draws the numbers of new QPs from `part` only, so that other NICs behind the same address
    /// can use other ranges. From now on at most [`QpnRange::MAX_QPS`] QPs can exist.
    pub fn draw_qpns_from(&mut self, part: QpnRange) {
        self.part = Some(part);
    }

    /// Sets the limits of the port, once they are known: the largest transport packet that it
    /// sends, and the window of one QP, both in bytes. QPs in RTR or a later state keep their
    /// limits.
    pub fn set_port_limits(&mut self, max_packet_bytes: usize, window_bytes: usize) {
        self.limits = PortLimits {
            max_packet_bytes,
            window_bytes,
        };
        self.shared.peer_windows.set_limit(window_bytes);
    }

    /// Sets the maximum number of out-of-order requests and responses that all QPs together keep;
    /// 1024 by default, of which one QP keeps at most nearly half. Each takes 4 KiB, allocated when
    /// it is first needed. With 0, QPs drop every out-of-order request, as the specification
    /// describes, and peers retransmit everything from the first missing one on.
    pub fn set_reorder_limit(&mut self, packets: usize) {
        self.shared.reorder.set_limit(packets);
    }

    /// Allocates a protection domain.
    pub fn alloc_pd(&mut self) -> PdId {
        self.shared.memory.alloc_pd()
    }

    /// Registers memory; see [`MemoryTable::register`](crate::MemoryTable::register).
    ///
    /// # Safety
    /// See [`MemoryTable::register`](crate::MemoryTable::register).
    ///
    /// # Errors
    /// See [`MemoryTable::register`](crate::MemoryTable::register).
    pub unsafe fn register(
        &mut self,
        pd: PdId,
        base: *mut u8,
        len: u64,
        iova: u64,
        access: Access,
    ) -> Result<u32, RegisterError> {
        // SAFETY: the caller promises what the callee demands.
        unsafe {
            self.shared
                .memory
                .register(&mut self.rng, pd, base, len, iova, access)
        }
    }

    /// Registers a buffer; see [`MemoryTable::register_buffer`](crate::MemoryTable::register_buffer).
    ///
    /// # Errors
    /// See [`MemoryTable::register_buffer`](crate::MemoryTable::register_buffer).
    pub fn register_buffer(
        &mut self,
        pd: PdId,
        buffer: Arc<Buffer>,
        access: Access,
    ) -> Result<u32, RegisterError> {
        self.shared
            .memory
            .register_buffer(&mut self.rng, pd, buffer, access)
    }

    /// Deregisters a region. The NIC does not access its memory any more, neither directly nor
    /// through a window. Requests that still name it fail. Returns whether a region had this key.
    // rule: 10.6.4-deregister
    pub fn deregister(&mut self, key: u32) -> bool {
        self.shared.memory.deregister(key)
    }

    /// Destroys a QP. The NIC drops packets for it from now on. Its requests never complete, and
    /// its completions that wait in CQs are dropped. Returns whether the QP existed.
    // rule: 11.2.5.4-destroy
    pub fn destroy_qp(&mut self, qpn: Qpn) -> bool {
        let Some(handle) = self.qps.find(qpn) else {
            return false;
        };
        // `Qp::forget` does not use the time.
        self.with_qp_unscheduled(Instant::ZERO, handle, Qp::forget);
        let Some(mut qp) = self.qps.remove(qpn) else {
            return false;
        };
        self.freed_qpns.note(qpn.get());
        self.timers.set(handle.slot(), NEVER);
        if let Some(left) = self
            .shared
            .peer_windows
            .join(&mut qp.window_share, handle, None)
        {
            self.offer_peer_window_room(left);
        }
        if let Some(srq) = qp.srq() {
            self.shared.srqs.detach(srq);
        }
        if let Some(domain) = qp.domain() {
            self.shared.srqs.leave(domain);
        }
        self.shared.memory.forget_qp(qpn);
        self.observed.forget(qpn);
        self.groups.remove(qpn);
        true
    }

    /// Creates an address handle: a path along which QPs of `pd` can send datagrams.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn create_ah(&self, pd: PdId, path: TxMeta) -> Result<AddressHandle, AddressError> {
        if !self.shared.memory.has_pd(pd) {
            return Err(AddressError::UnknownPd);
        }
        AddressHandle::new(pd, path)
    }

    /// Draws an unpredictable initial PSN.
    pub fn random_psn(&mut self) -> Psn {
        Psn::new(self.rng.next_u32())
    }

    /// Changes attributes and state of a QP.
    ///
    /// # Errors
    /// See [`ModifyError`].
    pub fn modify_qp(
        &mut self,
        now: Instant,
        qpn: Qpn,
        attributes: &QpAttributes,
    ) -> Result<(), ModifyError> {
        let limits = self.limits;
        let result = self.with_qp(now, qpn, |qp, cx| qp.modify(cx, attributes, limits));
        if let Some(handle) = self.qps.find(qpn)
            && let Some(Slot { qp, .. }) = self.qps.at_mut(handle)
        {
            let peer = qp.peer();
            if let Some(left) = self
                .shared
                .peer_windows
                .join(&mut qp.window_share, handle, peer)
            {
                self.offer_peer_window_room(left);
            }
        }
        let begins_anew = matches!(attributes.state, Some(QpState::Reset | QpState::Rts));
        if begins_anew && result == Some(Ok(())) {
            self.observed.forget(qpn);
        }
        result.unwrap_or(Err(ModifyError::UnknownQp(qpn)))
    }

    /// State and attributes of a QP, with its present PSNs; `None` if there is no such QP.
    // rule: 11.2.5.3-query
    pub fn query_qp(&self, qpn: Qpn) -> Option<(QpState, QpConfig)> {
        self.qps.get(qpn).map(|qp| (qp.state(), qp.config()))
    }

    /// The number of the QP's requests that have not completed, as (sends, receives); `None` if
    /// there is no such QP.
    pub fn queued(&self, qpn: Qpn) -> Option<(usize, usize)> {
        self.qps.get(qpn).map(Qp::queued)
    }

    /// Whether the peer of the QP has not acknowledged everything that was sent. True for a service
    /// without acknowledgements.
    pub fn has_in_flight(&self, qpn: Qpn) -> bool {
        self.qps.get(qpn).is_some_and(Qp::has_in_flight)
    }

    /// Handles a received packet. `transport` is the bytes from the BTH to the ICRC, and need not
    /// be well-formed.
    // rule: CA17-23-validation
    pub fn receive(&mut self, now: Instant, meta: &RxMeta, transport: &[u8]) {
        self.prefetch_for_packet(transport);
        // The ICRC is verified first, so no byte of a damaged packet reaches memory. It also comes
        // before the parser for speed: stores of the previous packet's payload are still in flight,
        // and the parser has to wait for them while the CRC does not.
        let intact = icrc_is_valid(&mut self.fragmentation, meta, transport);
        let taken = Packet::parse_with(transport, |packet| {
            // rule: 9.6.1-icrc, CA17-24-silent-drop
            if intact {
                self.receive_intact(now, meta, packet);
            } else {
                cold_path();
                self.shared.counters.drop(DropReason::BadIcrc);
            }
        });
        // rule: 9.6.1-malformed
        if taken.is_err() {
            cold_path();
            self.shared.counters.drop(match transport {
                [] => DropReason::Empty,
                _ => DropReason::Malformed,
            });
        }
    }

    /// Handles a well-formed packet.
    #[inline]
    fn receive_intact(&mut self, now: Instant, meta: &RxMeta, packet: &Packet<'_>) {
        let qpn = packet.bth.dest_qpn;
        // rule: 9.8.3-multicast-number
        match (meta.dst.is_multicast(), qpn == Qpn::MULTICAST) {
            (false, false) => self.receive_for(now, qpn, meta, packet),
            (true, true) => {
                cold_path();
                self.receive_multicast(now, meta, packet);
            }
            // IBTA 1.7, 9.6.1.4: neither is valid without the other.
            _ => {
                cold_path();
                self.shared.counters.drop(DropReason::NoGroup);
            }
        }
    }

    /// Handles a well-formed packet for one QP.
    fn receive_for(&mut self, now: Instant, qpn: Qpn, meta: &RxMeta, packet: &Packet<'_>) {
        // rule: 9.6.1-no-answer, A16-no-qp0
        let known = self.with_qp(now, qpn, |qp, cx| {
            cx.nic.counters.count(Stat::RxPackets);
            cx.nic
                .counters
                .add(Stat::RxBytes, packet.payload.len() as u64);
            qp.traffic.note_received(packet.payload.len());
            // rule: CA17-29-congestion-bits, CA17-44-ce-seen
            if meta.is_marked() {
                cold_path();
                cx.nic.counters.count(Stat::EcnMarked);
            }
            if packet.bth.opcode.operation() == Operation::Cnp {
                cold_path();
                qp.receive_cnp(cx, meta, packet);
            } else {
                qp.receive(cx, meta, packet);
            }
        });
        if known.is_none() {
            cold_path();
            self.receive_for_unknown_qpn(qpn, meta, packet);
        }
    }

    /// Sends what the QPs have to send, until the port is full or each QP has had one turn.
    pub fn transmit(&mut self, now: Instant, port: &mut dyn Transmit) {
        self.report(port);
        if !self.transmit_cnps(now, port) || !self.transmit_mads(port) {
            return;
        }
        // Each QP gets one turn; a QP with more to send waits for the next call.
        for _ in 0..self.ready.len() {
            let Some(handle) = self.ready.pop_front() else {
                return;
            };
            self.prefetch_for_turn();
            let alone = self.ready.is_empty();
            if self.give_turn(now, port, handle, alone) == Some(Turn::PortFull) {
                cold_path();
                return;
            }
        }
    }

    /// Sends the requests posted to the QP `qpn`, and then its pending replies to the peer, mostly
    /// acknowledgements. A port can send a request and a following acknowledgement to the same peer
    /// in one datagram, where the acknowledgement costs almost nothing. The other QPs wait for the
    /// next [`Nic::transmit`], so that their acknowledgements can leave with their own answers. If a QP
    /// that has waited longer has more than an acknowledgement to send, this does the same as
    /// [`Nic::transmit`].
    pub fn transmit_posted(&mut self, now: Instant, port: &mut dyn Transmit, qpn: Qpn) {
        let Some(position) = self.position_behind_acknowledgements(qpn) else {
            return self.transmit(now, port);
        };
        self.report(port);
        if !self.transmit_cnps(now, port) {
            return;
        }
        if let Some(handle) = self.ready.remove(position) {
            self.give_turn(now, port, handle, true);
        }
    }

    /// The position of a QP in [`Nic::ready`], if it is one of the first, and those in front of it only
    /// acknowledge.
    fn position_behind_acknowledgements(&self, qpn: Qpn) -> Option<usize> {
        const FIRST: usize = 16;
        for (position, handle) in self.ready.iter().take(FIRST).enumerate() {
            if handle.qpn == qpn {
                return Some(position);
            }
            if !self.qps.at(*handle)?.qp.wants_only_to_acknowledge() {
                return None;
            }
        }
        None
    }

    /// Gives a QP that was taken from [`Nic::ready`] its turn to send, and schedules it again if it
    /// has more. Returns how the turn ended.
    #[inline]
    fn give_turn(
        &mut self,
        now: Instant,
        port: &mut dyn Transmit,
        handle: Handle,
        nothing_follows: bool,
    ) -> Option<Turn> {
        self.qps.at_mut(handle)?.scheduled = false;
        let send = |qp: &mut Qp, cx: &mut Cx<'_>| {
            cx.nothing_follows = nothing_follows;
            send_for_a_turn(qp, cx, port)
        };
        let turn = self.take_turn(now, handle, send);
        match turn {
            Some(Turn::More) => self.schedule(handle, false),
            Some(Turn::PortFull) => {
                cold_path();
                self.schedule(handle, true);
                self.stop_pause_timer(now, handle);
            }
            Some(Turn::PeerFull) => {
                cold_path();
                self.schedule(handle, false);
                self.stop_pause_timer(now, handle);
            }
            Some(Turn::Idle) | None => {}
        }
        turn
    }

    /// Lets a QP send. Afterwards, other QPs to the same peer may use the room that is left in
    /// their shared peer window. If the port is full, the QP's turn has not ended, and the room
    /// stays reserved for the QP.
    fn take_turn(
        &mut self,
        now: Instant,
        handle: Handle,
        send: impl FnOnce(&mut Qp, &mut Cx<'_>) -> Turn,
    ) -> Option<Turn> {
        let turn = self.with_qp_unscheduled(now, handle, send)?;
        let window_share = &mut self.qps.at_mut(handle)?.qp.window_share;
        if turn == Turn::PortFull {
            cold_path();
            self.shared.peer_windows.reserve(window_share);
        } else {
            self.shared.peer_windows.release(window_share);
            if let Some(window) = window_share.window() {
                self.offer_peer_window_room(window);
            }
        }
        Some(turn)
    }

    /// Whether [`Nic::transmit`] has something to do.
    pub fn wants_to_send(&self) -> bool {
        !self.ready.is_empty()
            || !self.pending_cnps.is_empty()
            || self.has_mads_to_send()
            || !self.reports.is_empty()
    }

    /// Whether the NIC has acknowledgements to send, and nothing else. A driver may delay them
    /// until the application has posted its answer, since acknowledgements coalesce (IBTA 1.7,
    /// 9.7.5.1.2). Returns false if more than a few QPs are waiting, because checking each of them
    /// would take too long.
    pub fn wants_only_to_acknowledge(&self) -> bool {
        const FEW: usize = 8;
        let acknowledges = |handle: &Handle| {
            let slot = self.qps.at(*handle);
            slot.is_none_or(|slot| slot.qp.wants_only_to_acknowledge())
        };
        self.pending_cnps.is_empty()
            && !self.has_mads_to_send()
            && (1..=FEW).contains(&self.ready.len())
            && self.ready.iter().all(acknowledges)
    }

    /// The next time to call [`Nic::handle_timeouts`], or an earlier time; `None` if no timer is
    /// set.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.observed.intercepts() {
            cold_path();
            let late = self.observed.next_late();
            return self.timers.next().into_iter().chain(late).min();
        }
        self.timers.next()
    }

    /// Handles all timers that are due at `now`.
    pub fn handle_timeouts(&mut self, now: Instant) {
        if self.observed.intercepts() {
            cold_path();
            self.deliver_late(now);
        }
        while let Some(timer) = self.timers.take_due(now) {
            self.handle_timer(now, timer);
        }
    }

    /// Handles a timer that is due. Not inlined, because [`Nic::handle_timeouts`] is called far
    /// more often than a timer is due.
    #[inline(never)]
    fn handle_timer(&mut self, now: Instant, timer: u32) {
        let Some((handle, slot)) = self.qps.timed(timer) else {
            return;
        };
        if slot.deadline > now {
            self.set_timer(handle);
        } else if slot.is_pause {
            // The QP ends its pause at its turn to send. So the timer does not touch the QP's
            // memory, which may not be in the cache. With thousands of rate-limited QPs, almost
            // all timers end pauses.
            self.schedule(handle, false);
        } else {
            self.with_handle(now, handle, Qp::handle_timeout);
        }
    }

    /// Whether an event waits to be taken.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.shared.events.is_empty()
    }

    /// Takes the oldest event that has not been polled; `None` if there is none.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

/// Sends what a QP may send in one turn.
fn send_for_a_turn(qp: &mut Qp, cx: &mut Cx<'_>, port: &mut dyn Transmit) -> Turn {
    match qp.transmit(cx, port, QUANTUM) {
        Turn::PortFull if port.has_room_for_others() => Turn::PeerFull,
        turn => turn,
    }
}
