//! Where explanations are written.

use super::file::{absolute, check_file, open};
use super::unfit::UnfitPackets;
use super::{Explanation, WHY_VARIABLE, packets};
use crate::capture::RecentPackets;
use core::fmt;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_stack::{Cause, Duration, Failure, Instant};
use roce_trust::environment::{Malformed, variable};
use roce_trust::output::write_to_stderr;
use serde::Serialize;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Where the library writes explanations as QPs fail and as calls are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyOutput {
    /// On stderr.
    Stderr,
    /// To the end of a regular file of this user, which several processes may share. It is made if
    /// it is not there, readable by its user only: it contains keys and addresses. If its name ends
    /// with `.jsonl`, each line is a JSON object.
    File(PathBuf),
}

/// Where `ROCE_WHY` has the library write explanations, if it is set: `stderr` or `1` is stderr, `0`
/// nowhere, and a path a file. A file that can't be opened is reported on stderr, and the program
/// goes on without explanations.
///
/// # Errors
/// If the value is neither.
pub fn environment_why() -> Result<Option<WhyOutput>, Malformed> {
    let output = setting()?;
    if let Some(WhyOutput::File(path)) = &output
        && let Err(error) = open(path)
    {
        let path = path.display();
        write_to_stderr(&format!("roce: {WHY_VARIABLE} is {path}: {error}\n"));
        return Ok(None);
    }
    Ok(output)
}

/// Checks that `ROCE_WHY` is well-formed, and that the file that it names can be written or its
/// folder exists. Creates no file.
///
/// # Errors
/// If not.
pub(crate) fn check_why_setting() -> Result<(), Malformed> {
    match setting()? {
        Some(WhyOutput::File(path)) => check_file(WHY_VARIABLE, &path),
        _ => Ok(()),
    }
}

fn setting() -> Result<Option<WhyOutput>, Malformed> {
    let Some(value) = variable(WHY_VARIABLE) else {
        return Ok(None);
    };
    match value.to_str() {
        Some("0") => Ok(None),
        Some("1" | "stderr") => Ok(Some(WhyOutput::Stderr)),
        Some(word) if !word.contains(['/', '.']) => Err(Malformed::new(
            WHY_VARIABLE,
            word,
            "it must be `stderr`, or the path of a file, with a `/` or a `.` in it",
        )),
        _ => Ok(absolute(WHY_VARIABLE)?.map(WhyOutput::File)),
    }
}

/// The number of explanations that one device writes in [`INTERVAL`]. Where a thousand QPs fail at
/// once, they mostly fail for one reason.
const MOST: u32 = 50;

const INTERVAL: Duration = Duration::from_secs(10);

/// The largest text that a pipe takes at once.
const MAX_BYTES: usize = 4096;

/// Writes explanations as QPs fail, and the packets of these QPs. Leaves out explanations beyond a rate.
#[derive(Debug)]
pub(crate) struct WhyLog {
    output: Option<WhyOutput>,
    /// The file for the packets of failed QPs, and these packets.
    packets: Option<(PathBuf, RecentPackets)>,
    /// The beginning of the interval, and what was written and left out in it.
    since: Instant,
    written: u32,
    left_out: u32,
}

impl WhyLog {
    /// Writes explanations to `output`, and the packets that are kept to the file.
    pub(crate) fn new(
        output: Option<WhyOutput>,
        packets: Option<(PathBuf, RecentPackets)>,
    ) -> Self {
        Self {
            output,
            packets,
            since: Instant::ZERO,
            written: 0,
            left_out: 0,
        }
    }

    /// Whether a failure is to be explained. An application that moves its own QP to the error state
    /// knows why. Explanations cost system calls, so this is asked first.
    pub(super) fn admits(&mut self, failure: &Failure) -> bool {
        failure.cause != Cause::Application && self.has_room(failure.at)
    }

    /// Whether one more explanation may be written. Counts it.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) > INTERVAL {
            (self.since, self.written) = (now, 0);
        }
        if self.written == MOST {
            self.left_out += 1;
            return false;
        }
        self.written += 1;
        true
    }

    /// Writes about packets that a QP does not take.
    pub(super) fn write_unfit(&self, packets: &UnfitPackets) {
        if let Some(output) = &self.output {
            output.write(packets);
        }
    }

    /// Writes the explanation of a failure that was admitted, and the QP's packets if they are kept.
    pub(super) fn write(&mut self, mut explanation: Explanation) {
        if let Some((path, recent)) = &self.packets {
            packets::write(path, recent, &mut explanation);
        }
        let others = core::mem::take(&mut self.left_out);
        let Some(output) = &self.output else {
            return;
        };
        if others > 0 {
            output.write(&LeftOut {
                device: &explanation.device,
                qps_left_out: others,
            });
        }
        output.write(&explanation);
    }
}

/// The QPs that failed while [`MOST`] explanations had been written.
#[derive(Serialize)]
struct LeftOut<'a> {
    device: &'a str,
    qps_left_out: u32,
}

impl fmt::Display for LeftOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            device,
            qps_left_out,
        } = self;
        write!(
            f,
            "{qps_left_out} other QPs of {device} have failed meanwhile"
        )
    }
}

impl WhyOutput {
    /// The output that `ROCE_WHY` names; `None` if it names none, or is malformed, which opening a
    /// device reports.
    pub fn from_environment() -> Option<Self> {
        setting().ok().flatten()
    }

    /// Writes a failure or a refused call: as text, or as a line of JSON. It does not wait for a
    /// reader. Nobody is told if a report about an error can't be written.
    pub fn write(&self, what: &(impl fmt::Display + Serialize)) {
        let text = match self.is_json() {
            true => serde_json::to_string(what).map(|json| json + "\n"),
            false => Ok(format!("roce: {what}\n")),
        };
        let _ = text.map(|text| self.append(&text));
    }

    fn is_json(&self) -> bool {
        match self {
            Self::Stderr => false,
            Self::File(path) => path
                .extension()
                .is_some_and(|extension| extension == "jsonl"),
        }
    }

    /// One write, so that the texts of several processes do not mix. It does not wait for a reader.
    fn append(&self, text: &str) -> io::Result<()> {
        let bytes = text.as_bytes();
        match self {
            Self::File(path) => open(path)?.write_all(bytes),
            Self::Stderr => {
                let stderr = io::stderr();
                let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut ready, PollTimeout::ZERO)? {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => stderr
                        .lock()
                        .write_all(&bytes[..bytes.len().min(MAX_BYTES)]),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_private_and_appended_to() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("why.txt");
        let output = WhyOutput::File(path.clone());
        for text in ["one\n", "two\n"] {
            output.append(text).expect("written");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "one\ntwo\n");
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn links_and_pipes_are_refused_without_waiting() {
        let dir = tempfile::tempdir().expect("a folder");
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::write(&target, "").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("made");
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("made");
        for path in [link, pipe] {
            let refused = WhyOutput::File(path.clone()).append("text");
            assert!(refused.is_err(), "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&target).expect("there"), "");
    }
}
