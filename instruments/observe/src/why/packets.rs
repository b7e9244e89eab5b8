//! The file for the packets of failed QPs.

use super::Explanation;
use super::file::{absolute, check_file, open};
use crate::capture::{MOST_PACKETS, RecentPackets};
use roce_trust::environment::Malformed;
use roce_trust::output::write_to_stderr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The variable that makes the library write the packets of failed QPs.
pub const WHY_PCAP_VARIABLE: &str = "ROCE_WHY_PCAP";

/// The size that a file does not exceed.
const MOST_BYTES: u64 = 1 << 30;

/// The first bytes of a pcapng file.
const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The file to which `ROCE_WHY_PCAP` has the library write the packets of failed QPs, if it is set.
/// A file that can't be used is reported on stderr, and the program goes on without it.
///
/// # Errors
/// If the value is no path.
pub fn environment_why_packets() -> Result<Option<PathBuf>, Malformed> {
    let Some(path) = absolute(WHY_PCAP_VARIABLE)? else {
        return Ok(None);
    };
    if let Err(error) = open_capture(&path) {
        let path = path.display();
        write_to_stderr(&format!("roce: {WHY_PCAP_VARIABLE} is {path}: {error}\n"));
        return Ok(None);
    }
    Ok(Some(path))
}

/// Checks that the file that `ROCE_WHY_PCAP` names can be written, or its folder exists. Creates no
/// file.
///
/// # Errors
/// If not.
pub(crate) fn check_why_packets_setting() -> Result<(), Malformed> {
    match absolute(WHY_PCAP_VARIABLE)? {
        Some(path) => check_file(WHY_PCAP_VARIABLE, &path),
        None => Ok(()),
    }
}

/// Writes the packets of a failed QP to the end of the file, and says so in the explanation.
#[cold]
pub(super) fn write(path: &Path, recent: &RecentPackets, explanation: &mut Explanation) {
    let (qpn, text) = (explanation.failure.qpn, explanation.to_string());
    let written = recent.of_qp(qpn, &text).and_then(|packets| {
        append(path, &packets.section)?;
        Ok(packets.count)
    });
    let path = path.display();
    explanation.packets = Some(match written {
        Ok(0) => format!("none of the last {MOST_PACKETS} packets of the device is of this QP"),
        Ok(1) => format!("the last packet of the QP is in {path}"),
        Ok(count) => format!("the last {count} packets of the QP are in {path}"),
        Err(error) => format!("not written to {path}: {error}"),
    });
}

/// One write, so that sections of several processes do not mix.
fn append(path: &Path, section: &[u8]) -> io::Result<()> {
    if section.is_empty() {
        return Ok(());
    }
    let mut file = open_capture(path)?;
    if file.metadata()?.len() + section.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it would exceed 1 GiB"));
    }
    file.write_all(section)
}

/// Opens a file that is empty or a capture.
fn open_capture(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    let mut magic = MAGIC;
    if file.metadata()?.len() > 0 && (file.read_exact_at(&mut magic, 0).is_err() || magic != MAGIC)
    {
        return Err(io::Error::other("it is not a pcapng file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_captures_are_appended_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let (notes, capture) = (folder.path().join("notes"), folder.path().join("a.pcapng"));
        std::fs::write(&notes, "notes").expect("written");
        let refused = append(&notes, &MAGIC).expect_err("it is no capture");
        assert_eq!(refused.to_string(), "it is not a pcapng file");
        assert_eq!(std::fs::read(&notes).expect("there"), b"notes");
        for _ in 0..2 {
            append(&capture, &MAGIC).expect("written");
        }
        let written = std::fs::read(&capture).expect("there");
        assert_eq!(written, [MAGIC, MAGIC].concat());
    }
}
