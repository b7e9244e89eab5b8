//! A kernel that misbehaves according to a script.

use std::sync::atomic::Ordering;

use super::{KernelSide, queue};
use crate::queue::{ChecksumAt, Frame, QueueConfig};
use crate::ring::{Descriptor, RingMemory};
use crate::umem::{CHUNK_BYTES, Owner};

const CONFIG: QueueConfig = QueueConfig {
    rx_chunks: 8,
    tx_frames: 4,
    max_frame_bytes: 8192,
    tx_metadata: false,
};

/// A configuration with metadata. Frames then have one piece.
const WITH_METADATA: QueueConfig = QueueConfig {
    max_frame_bytes: 4000,
    tx_metadata: true,
    ..CONFIG
};

/// The script's bytes, one after the other. After the end, zeroes follow.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// A number of any size. Small numbers and chunk boundaries are more frequent.
    fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => self.byte().into(),
            1 => u64::from(self.byte() % 20) << 12,
            2 => (u64::from(self.byte() % 20) << 12) + u64::from(self.byte()) * 16 + 1,
            _ => u64::from_le_bytes([0; 8].map(|_: u8| self.byte())),
        }
    }
}

/// Runs a queue against a kernel that follows the script: it returns any addresses, lengths and
/// flags, completes any chunks and moves counters anywhere.
///
/// # Panics
/// If the queue breaks its contract: it returns a frame whose pieces are not within chunks of its
/// own, or it loses or duplicates a chunk.
pub fn run_script(script: &[u8]) {
    let mut script = Script(script);
    let config = if script.byte() & 1 == 0 {
        CONFIG
    } else {
        WITH_METADATA
    };
    let (mut queue, mut kernel) = queue(&config, None).expect("sound rings to begin with");
    let mut held = Vec::new();
    while !script.0.is_empty() {
        // Errors are ignored: they report a corrupt ring, and it stays corrupt until the script
        // corrects the counter.
        match script.byte() % 8 {
            0 => {
                let _ = queue.receive(1 + usize::from(script.byte() % 8), &mut check);
            }
            1 => {
                let len = script.number() as usize;
                let checksum = (script.byte() & 1 != 0).then(|| ChecksumAt {
                    start: script.number() as u16,
                    offset: script.byte().into(),
                });
                if let Ok(bytes) = queue.reserve_with(len, checksum) {
                    assert_eq!(bytes.len(), len);
                    bytes.fill(1);
                }
                match script.byte() % 4 {
                    0 => held.extend(queue.hold()),
                    1 => {}
                    _ => {
                        let _ = queue.commit();
                    }
                }
            }
            2 => {
                let _ = queue.flush();
            }
            3 => match held.pop() {
                Some(frame) if script.byte() & 1 != 0 => queue.drop_held(frame),
                Some(frame) => {
                    let _ = queue.commit_held(frame, |bytes| bytes.fill(2));
                }
                None => {}
            },
            _ => act_as_kernel(&mut script, &mut kernel),
        }
        let counts = queue.chunks();
        assert_eq!(counts.total(), config.chunks());
        assert!(counts.of(Owner::Received) <= config.rx_chunks);
        assert!(queue.unsent() <= config.tx_frames as usize);
    }
}

/// Checks the invariants of a delivered frame.
fn check(frame: Frame<'_>) {
    let pieces = frame.pieces().len();
    assert!(
        (1..=8).contains(&pieces),
        "{pieces} pieces, each in a chunk of its own"
    );
    assert!(frame.pieces().all(|piece| piece.len() <= CHUNK_BYTES));
    assert_eq!(frame.len(), frame.pieces().map(<[u8]>::len).sum::<usize>());
}

fn act_as_kernel(script: &mut Script<'_>, kernel: &mut KernelSide) {
    match script.byte() % 8 {
        0 | 1 => {
            // A piece in a chunk of the fill ring. Its length may be 0.
            let address = kernel.take_fill().unwrap_or_else(|| script.number());
            let options = script.byte().into();
            kernel.deliver(
                address.wrapping_add(256),
                script.number() as u32 % 4200,
                options,
            );
        }
        2 => kernel.deliver(
            script.number(),
            script.number() as u32,
            script.byte().into(),
        ),
        3 => {
            if let Some(Descriptor { address, .. }) = kernel.take_tx() {
                kernel.complete(address);
            }
        }
        4 => kernel.complete(script.number()),
        5 => kernel.want_wakeup(script.byte() & 1 != 0),
        6 => {
            kernel.take_fill();
        }
        _ => {
            let value = (script.number() as u32).wrapping_sub(4);
            let word = match script.byte() % 4 {
                0 => kernel.rings.fill.consumer(),
                1 => kernel.rings.completion.producer(),
                2 => kernel.rings.rx.producer(),
                _ => kernel.rings.tx.consumer(),
            };
            word.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    /// Pseudo-random bytes that are the same in every run (splitmix64).
    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        (0..len).map(|_| next() as u8).collect()
    }

    #[test]
    fn no_script_breaks_a_queue() {
        for seed in 0..2000 {
            super::run_script(&bytes(seed, 600));
        }
    }
}
