//! iSER in both roles: tgtd on our library serves the kernel's initiator (`ib_iser`), and libiscsi
//! on our library uses the kernel's target (LIO with `ib_isert`).
//!
//! Each test compares what was written with what arrived, on both sides. docs/storage.md has the same
//! setups, as one types them.

mod initiator;
mod lio;
mod open_iscsi;
mod ours;
mod target;
mod tgtd;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use roce_tests::lab::{Direction, Drops, Lab};

use roce_tests::random;

/// Timeout of a step.
const TIMEOUT: Duration = Duration::from_secs(100);

/// Interval between looks at a state.
const INTERVAL: Duration = Duration::from_millis(20);

/// The name of the initiator, whichever side it is on.
const INITIATOR: &str = "iqn.2026-01.example:client";

/// The port of targets.
const PORT: u16 = 3260;

const MIB: usize = 1 << 20;

/// The network between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Good,
    /// Of each direction's packets, 1 % are lost.
    Lossy,
}

impl Network {
    fn set(self, lab: &Lab) {
        let drops = match self {
            Self::Good => Drops::None,
            Self::Lossy => Drops::PerMille(10),
        };
        drop_packets(lab, drops);
    }

    /// Asserts that the loss was really there, or prints what passed.
    fn check(self, lab: &Lab) {
        let counters = lab.loss_counters().unwrap();
        println!("{self:?}: {counters:?}");
        if self == Self::Lossy {
            for direction in [counters.to_guest, counters.to_host] {
                assert!(direction.dropped > 0, "nothing was dropped: {counters:?}");
            }
        }
    }
}

/// Drops packets in both directions.
fn drop_packets(lab: &Lab, drops: Drops) {
    for direction in [Direction::ToGuest, Direction::ToHost] {
        lab.set_loss(direction, drops).unwrap();
    }
}

/// Random data in a file that both sides can read.
struct Data {
    bytes: Vec<u8>,
    file: PathBuf,
}

impl Data {
    /// Random bytes in a new file of the lab's folder.
    fn new(lab: &Lab, length: usize) -> Self {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let bytes = random::bytes(length);
        // The guest may have cached a file of the same name.
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let file = lab.directory().join(format!("data-{call}"));
        fs::write(&file, &bytes).expect("a file");
        let file = file.canonicalize().expect("a full path");
        Self { bytes, file }
    }

    /// Its path in the guest.
    fn in_guest(&self, lab: &Lab) -> String {
        lab.guest_path(&self.file)
    }

    /// Asserts that a file outside begins with the first `length` bytes of it.
    #[track_caller]
    fn assert_begins(&self, file: &Path, length: usize) {
        let found = fs::read(file).expect("the file");
        assert!(found.len() >= length, "{} is short", file.display());
        let differs = (0..length).find(|&at| found[at] != self.bytes[at]);
        assert_eq!(differs, None, "{} differs at this byte", file.display());
    }
}

/// Runs a script in the guest to its end, and returns its output.
///
/// # Panics
/// If it fails.
#[track_caller]
fn in_guest(lab: &Lab, script: &str, arguments: &[&str]) -> String {
    let output = lab
        .guest(["sh", "-ec", script, "sh"])
        .args(&arguments.iter().map(|&a| a.to_owned()).collect::<Vec<_>>())
        .output(TIMEOUT)
        .and_then(|output| output.success());
    match output {
        Ok(output) => output.stdout_text(),
        Err(error) => panic!("{error}"),
    }
}
