//! A double of a file on a disk: what is not made durable is lost with the process.

use roce_verbs::memory::{Buffer, Durable, NotDurable};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use testkit::Dice;

/// The bytes that the disk writes at once. A power cut may come between two.
const SECTOR: usize = 64;

/// The longest time that the disk takes, in microseconds.
const SLOWEST_US: usize = 200;

/// The memory of a file, of which a kill leaves the durable bytes.
#[derive(Debug)]
pub(super) struct Disk {
    /// The page cache.
    memory: Arc<Buffer>,
    file: File,
    dice: Mutex<Dice>,
}

impl Disk {
    pub(super) fn new(memory: Arc<Buffer>, file: File, seed: u64) -> Self {
        let dice = Mutex::new(Dice::new(seed));
        Self { memory, file, dice }
    }

    fn write(&self, sector: usize) -> Result<(), NotDurable> {
        let mut bytes = [0; SECTOR];
        let at = sector * SECTOR;
        self.memory.read(at, &mut bytes).map_err(|_| NotDurable)?;
        let written = self.file.write_all_at(&bytes, at as u64);
        written.map_err(|_| NotDurable)
    }

    /// The time that the disk takes, and a sector that it writes without being asked.
    fn draw(&self) -> (Duration, usize) {
        let mut dice = self.dice.lock().expect("no panic");
        let micros = dice.below(SLOWEST_US) as u64;
        let sector = dice.below(self.memory.len() / SECTOR);
        (Duration::from_micros(micros), sector)
    }
}

impl Durable for Disk {
    fn blocks(&self, _: u64) -> bool {
        true
    }

    fn persist(&self, offset: u64, len: u64) -> Result<(), NotDurable> {
        let (time, other) = self.draw();
        self.write(other)?;
        thread::sleep(time);
        if len == 0 {
            return Ok(());
        }
        let (first, end) = (offset as usize, (offset + len) as usize);
        (first / SECTOR..end.div_ceil(SECTOR)).try_for_each(|sector| self.write(sector))
    }
}
