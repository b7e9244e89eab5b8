//! Files with random contents.

use std::path::Path;

/// Random bytes from a seed that is printed. `ROCE_SEED` sets the seed.
pub fn bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    testkit::Dice::new(testkit::seed()).fill(&mut bytes);
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
