//! Files with random contents.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Random bytes from a seed that is printed. `ROCE_SEED` sets the seed.
pub fn bytes(len: usize) -> Vec<u8> {
    let seed = std::env::var("ROCE_SEED").map_or_else(
        |_| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("the clock is set").as_nanos() as u64
        },
        |text| text.parse().expect("ROCE_SEED is a number"),
    );
    println!("random bytes; again: ROCE_SEED={seed}");
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// The SHA-256 of a file, by the system's program.
pub fn sha256(path: &Path) -> String {
    let output = std::process::Command::new("sha256sum").arg(path).output();
    let output = output.expect("sha256sum runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().next().expect("a sum").to_owned()
}
