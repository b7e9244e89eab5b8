//! The timers of QPs: a wheel of wheels, as a clock has hands.
//!
//! A timer lies in a slot by the highest digit, to base 64, in which its time differs from
//! the wheel's own. To set one, to move it and to stop it takes the same few steps whatever
//! the number of timers; as time goes on, one moves to a finer wheel a few times at most.
//! That is for tens of thousands of QPs that are held to their rates: each of them sets a
//! timer after every burst.
//!
//! Timers are known by small numbers, of which each has one time at most.

use super::table::NEVER;
use crate::time::Instant;
use core::hint::cold_path;

/// Bits of a digit.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Digits of 64 bits.
const LEVELS: usize = 11;
/// No timer.
const NONE: u32 = u32::MAX;
/// How many timers of a slot are looked at to tell the first of them.
const LOOKED_AT: usize = 8;

/// A timer. Those of a slot are a ring of two directions, the newest before the first.
#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Instant,
    /// Where it lies, if it is set.
    slot: u16,
    next: u32,
    previous: u32,
}

/// All timers of a NIC.
#[derive(Debug)]
pub(super) struct Wheel {
    timers: Vec<Timer>,
    /// No timer that is set is due before this, but for those that were overdue when set.
    time: u64,
    /// The first timer of each slot.
    slots: Box<[[u32; SLOTS]; LEVELS]>,
    /// A bit for each slot that has timers.
    used: [u64; LEVELS],
    set: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            timers: Vec::new(),
            time: 0,
            slots: Box::new([[NONE; SLOTS]; LEVELS]),
            used: [0; LEVELS],
            set: 0,
        }
    }
}

impl Wheel {
    /// How many timers are set.
    pub(super) fn len(&self) -> usize {
        self.set
    }

    /// When the timer is due; [`NEVER`] if it is not set.
    #[inline]
    pub(super) fn at(&self, timer: u32) -> Instant {
        self.timers.get(timer as usize).map_or(NEVER, |t| t.at)
    }

    /// Sets a timer, or moves it, or stops it with [`NEVER`].
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

    /// When a timer is due next, or a little before; never after that.
    pub(super) fn next(&self) -> Option<Instant> {
        let (level, slot) = self.first_slot()?;
        let first = self.slots[level][slot];
        let (mut earliest, mut timer) = (NEVER, first);
        for _ in 0..LOOKED_AT {
            let looked_at = self.timers[timer as usize];
            earliest = earliest.min(looked_at.at);
            timer = looked_at.next;
            if timer == first {
                return Some(earliest);
            }
        }
        Some(Instant::from_nanos(self.start_of(level, slot)))
    }

    /// Takes a timer that is due at `now`, the earliest first.
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
            // The only one of the first slot is the earliest of all.
            let alone = timer.next == first && timer.at.as_nanos() <= now;
            if level == 0 || alone {
                self.unlink(first);
                self.timers[first as usize].at = NEVER;
                return Some(first);
            }
            // All of them belong to finer wheels from now on.
            while self.slots[level][slot] != NONE {
                let first = self.slots[level][slot];
                self.unlink(first);
                self.link(first);
            }
        }
        self.time = self.time.max(now);
        None
    }

    /// Where the earliest timers lie.
    fn first_slot(&self) -> Option<(usize, usize)> {
        let level = self.used.iter().position(|used| *used != 0)?;
        Some((level, self.used[level].trailing_zeros() as usize))
    }

    /// The earliest time that belongs to a slot.
    fn start_of(&self, level: usize, slot: usize) -> u64 {
        let shift = BITS * level as u32;
        let above = self.time.checked_shr(shift + BITS).unwrap_or(0);
        (above.checked_shl(shift + BITS).unwrap_or(0)) | (slot as u64) << shift
    }

    /// Puts a timer where its time belongs.
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
