//! The timers of QPs: a hierarchical timing wheel.
//!
//! Times are numbers to base 64. A timer's level is the highest digit in which its time differs
//! from the wheel's time, and its slot in that level is the value of this digit. Setting, moving
//! and stopping a timer takes the same few steps for any number of timers. As time passes, a timer
//! moves to a finer level a few times at most. The wheel serves tens of thousands of rate-limited
//! QPs, each of which sets a timer after every burst.
//!
//! A timer is identified by a small number, and has at most one time.

use super::table::NEVER;
use crate::time::Instant;
use core::hint::cold_path;

/// Bits of a digit.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// The number of digits in 64 bits.
const LEVELS: usize = 11;
/// No timer.
const NONE: u32 = u32::MAX;
/// The number of timers of a slot that are examined to find the earliest.
const MAX_EXAMINED: usize = 8;

/// A timer. The timers of a slot form a doubly linked ring, in which the newest comes last.
#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Instant,
    /// Its slot, as level times `SLOTS` plus slot. Valid only while the timer is set.
    slot: u16,
    next: u32,
    previous: u32,
}

/// All timers of a NIC.
#[derive(Debug)]
pub(super) struct Wheel {
    timers: Vec<Timer>,
    /// The wheel's time, in nanoseconds. No timer is due before it, except timers that were overdue
    /// when they were set.
    time: u64,
    /// The first timer of each slot.
    slots: Box<[[u32; SLOTS]; LEVELS]>,
    /// A bit for each slot that has timers.
    used: [u64; LEVELS],
    /// A bit for each level that has timers.
    used_levels: u16,
    set: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            timers: Vec::new(),
            time: 0,
            slots: Box::new([[NONE; SLOTS]; LEVELS]),
            used: [0; LEVELS],
            used_levels: 0,
            set: 0,
        }
    }
}

impl Wheel {
    /// The number of timers that are set.
    pub(super) fn len(&self) -> usize {
        self.set
    }

    /// When the timer is due; [`NEVER`] if it is not set.
    #[inline]
    pub(super) fn at(&self, timer: u32) -> Instant {
        self.timers.get(timer as usize).map_or(NEVER, |t| t.at)
    }

    /// Sets or moves a timer, or stops it with [`NEVER`].
    pub(super) fn set(&mut self, timer: u32, at: Instant) {
        let index = timer as usize;
        if index >= self.timers.len() {
            cold_path();
            let unset = Timer {
                at: NEVER,
                slot: 0,
                next: NONE,
                previous: NONE,
            };
            self.timers.resize(index + 1, unset);
        }
        if self.timers[index].at != NEVER {
            self.unlink(timer);
        }
        self.timers[index].at = at;
        if at != NEVER {
            self.link(timer);
        }
    }

    /// The time when the next timer is due, or an earlier time; `None` if no timer is set.
    pub(super) fn next(&self) -> Option<Instant> {
        let (level, slot) = self.first_slot()?;
        let first = self.slots[level][slot];
        let (mut earliest, mut timer) = (NEVER, first);
        for _ in 0..MAX_EXAMINED {
            let looked_at = self.timers[timer as usize];
            earliest = earliest.min(looked_at.at);
            timer = looked_at.next;
            if timer == first {
                return Some(earliest);
            }
        }
        Some(Instant::from_nanos(self.start_of(level, slot)))
    }

    /// Takes the earliest timer that is due at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u32> {
        let now = now.as_nanos();
        while let Some((level, slot)) = self.first_slot() {
            let start = self.start_of(level, slot);
            if start > now {
                break;
            }
            self.time = self.time.max(start);
            let first = self.slots[level][slot];
            let timer = self.timers[first as usize];
            // If the first slot holds one timer, it is the earliest of all.
            let alone = timer.next == first && timer.at.as_nanos() <= now;
            if level == 0 || alone {
                self.unlink(first);
                self.timers[first as usize].at = NEVER;
                return Some(first);
            }
            // All timers of the slot move to finer levels.
            while self.slots[level][slot] != NONE {
                let first = self.slots[level][slot];
                self.unlink(first);
                self.link(first);
            }
        }
        self.time = self.time.max(now);
        None
    }

    /// The slot that holds the earliest timers.
    fn first_slot(&self) -> Option<(usize, usize)> {
        if self.used_levels == 0 {
            return None;
        }
        let level = self.used_levels.trailing_zeros() as usize;
        Some((level, self.used[level].trailing_zeros() as usize))
    }

    /// The earliest time that belongs to a slot.
    fn start_of(&self, level: usize, slot: usize) -> u64 {
        let shift = BITS * level as u32;
        let above = self.time.checked_shr(shift + BITS).unwrap_or(0);
        (above.checked_shl(shift + BITS).unwrap_or(0)) | (slot as u64) << shift
    }

    /// Puts a timer into the slot of its time.
    fn link(&mut self, timer: u32) {
        let at = self.timers[timer as usize].at.as_nanos().max(self.time);
        let differs = (at ^ self.time) | 1;
        let level = (u64::BITS - 1 - differs.leading_zeros()) / BITS;
        let slot = (at >> (BITS * level)) as usize % SLOTS;
        let level = level as usize;
        let first = self.slots[level][slot];
        let entry = &mut self.timers[timer as usize];
        entry.slot = (level * SLOTS + slot) as u16;
        if first == NONE {
            (entry.next, entry.previous) = (timer, timer);
            self.slots[level][slot] = timer;
            self.used[level] |= 1 << slot;
            self.used_levels |= 1 << level;
        } else {
            let last = self.timers[first as usize].previous;
            let entry = &mut self.timers[timer as usize];
            (entry.next, entry.previous) = (first, last);
            self.timers[last as usize].next = timer;
            self.timers[first as usize].previous = timer;
        }
        self.set += 1;
    }

    fn unlink(&mut self, timer: u32) {
        let Timer {
            slot,
            next,
            previous,
            ..
        } = self.timers[timer as usize];
        let (level, slot) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        if next == timer {
            self.slots[level][slot] = NONE;
            self.used[level] &= !(1 << slot);
            if self.used[level] == 0 {
                self.used_levels &= !(1 << level);
            }
        } else {
            self.timers[previous as usize].next = next;
            self.timers[next as usize].previous = previous;
            if self.slots[level][slot] == timer {
                self.slots[level][slot] = next;
            }
        }
        self.set -= 1;
    }
}

#[cfg(test)]
mod tests;
