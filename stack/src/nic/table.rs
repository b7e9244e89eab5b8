//! The QPs of a NIC.
//!
//! A QP takes several hundred bytes, and with thousands of QPs, a QP is no longer in the cache when
//! its turn comes. The fields that the NIC needs to schedule QPs and to run their timers are in a
//! separate array, so that the NIC touches only QPs that have something to do.

use crate::hash::KeyMap;
use crate::ids::Handle;
use crate::memory::prefetch;
use crate::observe::Trace;
use crate::qp::Qp;
use crate::time::Instant;
use core::cell::Cell;
use roce_wire::Qpn;

/// An instant that never comes.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A QP, and the NIC's own state for it.
#[derive(Debug)]
pub(super) struct Slot {
    qpn: Qpn,
    /// It is in the list of QPs that want to send.
    pub(super) scheduled: bool,
    /// The QP's deadline, as it last reported it.
    pub(super) deadline: Instant,
    /// The deadline is the end of a pause, at which the QP gets its turn to send.
    pub(super) is_pause: bool,
    pub(super) qp: Box<Qp>,
    pub(super) trace: Trace,
}

impl Slot {
    /// Whether the QP is in a pause whose end has passed.
    pub(super) fn pause_is_over(&self, now: Instant) -> bool {
        self.is_pause && self.deadline <= now
    }
}

/// All QPs.
#[derive(Debug, Default)]
pub(super) struct Table {
    by_qpn: KeyMap<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// The slot of the last lookup. Most lookups are for the same QP as the one before.
    recent: Cell<u32>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.by_qpn.len()
    }

    pub(super) fn contains(&self, qpn: Qpn) -> bool {
        self.by_qpn.contains_key(&qpn.get())
    }

    /// Adds a QP, whose number must be new.
    pub(super) fn insert(&mut self, qpn: Qpn, qp: Qp, trace: Trace) {
        let slot = Some(Slot {
            qpn,
            scheduled: false,
            deadline: NEVER,
            is_pause: false,
            qp: Box::new(qp),
            trace,
        });
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                // There are 2^24 numbers.
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let before = self.by_qpn.insert(qpn.get(), index);
        debug_assert_eq!(before, None, "{qpn} is new");
    }

    pub(super) fn remove(&mut self, qpn: Qpn) -> Option<Box<Qp>> {
        let index = self.by_qpn.remove(&qpn.get())?;
        self.free.push(index);
        self.slots[index as usize].take().map(|slot| slot.qp)
    }

    /// The handle of the QP with this number.
    #[inline]
    pub(super) fn find(&self, qpn: Qpn) -> Option<Handle> {
        let slot = self.recent.get();
        let recent = Handle::new(slot, qpn);
        if self.at(recent).is_some() {
            return Some(recent);
        }
        self.search(qpn)
    }

    fn search(&self, qpn: Qpn) -> Option<Handle> {
        let slot = *self.by_qpn.get(&qpn.get())?;
        self.recent.set(slot);
        Some(Handle::new(slot, qpn))
    }

    /// The QP in a slot of the table, which is also the number of its timer.
    pub(super) fn timed(&self, slot: u32) -> Option<(Handle, &Slot)> {
        let found = self.slots.get(slot as usize)?.as_ref()?;
        let qpn = found.qpn;
        Some((Handle::new(slot, qpn), found))
    }

    #[inline]
    pub(super) fn at(&self, handle: Handle) -> Option<&Slot> {
        let slot = self.slots.get(handle.slot() as usize)?.as_ref()?;
        (slot.qpn == handle.qpn).then_some(slot)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, handle: Handle) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(handle.slot() as usize)?.as_mut()?;
        (slot.qpn == handle.qpn).then_some(slot)
    }

    pub(super) fn get(&self, qpn: Qpn) -> Option<&Qp> {
        self.find(qpn)
            .and_then(|handle| self.at(handle))
            .map(|slot| &*slot.qp)
    }

    /// All QPs, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Qp> {
        self.slots.iter().flatten().map(|slot| &*slot.qp)
    }

    /// All QPs, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Qp> {
        self.slots.iter_mut().flatten().map(|slot| &mut *slot.qp)
    }

    /// Prefetches the QP, which is needed soon.
    #[inline]
    pub(super) fn prefetch(&self, handle: Handle) {
        if let Some(slot) = self.at(handle) {
            prefetch(&*slot.qp);
        }
    }
}
