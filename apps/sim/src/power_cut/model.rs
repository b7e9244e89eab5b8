//! The contents that the disk may have after a power cut.

use std::ops::Range;

/// The size of a slot in bytes.
pub const SLOT: usize = 64;
/// The size of a word in bytes.
pub const WORD: usize = 8;
const WORDS: usize = SLOT / WORD;

/// The bytes that were written to durable memory and acknowledged, since its latest start.
///
/// The memory consists of slots. Each WRITE has a number of its own, above those of earlier ones,
/// and fills its slots with it. ATOMIC WRITEs write the first word of slot 0, and nothing else does.
#[derive(Debug)]
pub struct Model {
    /// The words that the disk had at the start.
    before: Vec<u64>,
    /// The numbers posted for each slot, in order.
    posted: Vec<Vec<u64>>,
    /// The newest number of each slot that was acknowledged as durable; 0 if none was.
    durable: Vec<u64>,
    /// The WRITEs and ATOMIC WRITEs that may not be durable, by their place among all requests.
    writes: Vec<(usize, Range<usize>, u64)>,
    /// The slots and the number that were flushed before the ATOMIC WRITE of a number.
    flushed_before: Vec<(u64, Range<usize>, u64)>,
}

impl Model {
    /// A start with these contents of the disk.
    pub fn new(disk: &[u8]) -> Self {
        let slots = disk.len() / SLOT;
        Self {
            before: words(disk),
            posted: vec![Vec::new(); slots],
            durable: vec![0; slots],
            writes: Vec::new(),
            flushed_before: Vec::new(),
        }
    }

    /// The request with this place fills slots with a number.
    pub fn write(&mut self, place: usize, slots: Range<usize>, number: u64) {
        for slot in slots.clone() {
            self.posted[slot].push(number);
        }
        self.writes.push((place, slots, number));
    }

    /// The ATOMIC WRITE of `number` is behind a FLUSH of the slots, which were filled with `before`.
    pub fn order(&mut self, number: u64, slots: Range<usize>, before: u64) {
        self.flushed_before.push((number, slots, before));
    }

    /// A FLUSH of slots, with this place, was acknowledged.
    pub fn acknowledge(&mut self, place: usize, slots: &Range<usize>) {
        for (_, written, number) in self.writes.iter().filter(|write| write.0 < place) {
            for slot in written.clone().filter(|slot| slots.contains(slot)) {
                self.durable[slot] = self.durable[slot].max(*number);
            }
        }
        let durable = &self.durable;
        let is_newer = |write: &(usize, Range<usize>, u64)| {
            let mut slots = write.1.clone();
            slots.any(|slot| durable[slot] < write.2)
        };
        self.writes.retain(is_newer);
    }

    /// Checks what a power cut has left.
    ///
    /// # Errors
    /// If something that was acknowledged is not there, or something that was not written is; the
    /// text says which word, and what it should be.
    pub fn check(&self, disk: &[u8]) -> Result<(), String> {
        let found = words(disk);
        for (place, word) in found.iter().enumerate() {
            let slot = place / WORDS;
            // Of slot 0, only the first word is written.
            let is_written = slot > 0 || place == 0;
            let least = self.durable[slot];
            let old = (least == 0 || !is_written) && *word == self.before[place];
            let new = is_written && *word >= least && self.posted[slot].contains(word);
            if !old && !new {
                return Err(format!(
                    "word {place} is {word}; it was {}, {least} was acknowledged, and {:?} were written",
                    self.before[place], self.posted[slot]
                ));
            }
        }
        let last = found[0];
        let order = self.flushed_before.iter().find(|order| order.0 == last);
        let Some((_, slots, before)) = order else {
            return Ok(());
        };
        let behind = slots.start * WORDS..slots.end * WORDS;
        match found[behind].iter().find(|word| *word < before) {
            Some(older) => Err(format!(
                "ATOMIC WRITE {last} is there, but of slots {slots:?}, flushed as {before} before it, \
                 a word is {older}"
            )),
            None => Ok(()),
        }
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(WORD);
    words
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 16;

    fn disk(words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; SLOTS * SLOT];
        for (word, value) in words {
            bytes[word * WORD..][..WORD].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    fn slot(slot: usize, value: u64) -> Vec<(usize, u64)> {
        (slot * WORDS..(slot + 1) * WORDS)
            .map(|word| (word, value))
            .collect()
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        let mut model = Model::new(&disk(&[]));
        model.write(0, 1..2, 10);
        model.write(1, 1..2, 11);
        for allowed in [0, 10, 11] {
            assert_eq!(model.check(&disk(&slot(1, allowed))), Ok(()));
        }
        model.acknowledge(1, &(0..SLOTS));
        for (value, allowed) in [(0, false), (9, false), (10, true), (11, true), (12, false)] {
            let found = model.check(&disk(&slot(1, value)));
            assert_eq!(found.is_ok(), allowed, "{value}: {found:?}");
        }
        let torn = [slot(1, 10), vec![(9, 11)]].concat();
        assert_eq!(model.check(&disk(&torn)), Ok(()));
        let elsewhere = [slot(1, 10), slot(2, 10)].concat();
        assert!(model.check(&disk(&elsewhere)).is_err());
    }

    #[test]
    fn an_atomic_write_is_not_ahead() {
        let mut model = Model::new(&disk(&[]));
        model.write(0, 1..2, 10);
        model.write(2, 0..1, 11);
        model.order(11, 1..2, 10);
        let before = disk(&slot(1, 10));
        assert_eq!(model.check(&before), Ok(()));
        let both = [slot(1, 10), vec![(0, 11)]].concat();
        assert_eq!(model.check(&disk(&both)), Ok(()));
        let ahead = disk(&[(0, 11)]);
        assert!(model.check(&ahead).is_err());
    }
}
