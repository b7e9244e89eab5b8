//! The limits of a capture, and the setting for them.

use crate::CreateError;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The default limit of a capture, in bytes. A busy device sends that many bytes in seconds, so a
/// capture without a limit soon fills the disk.
const DEFAULT_BYTES: u64 = 1 << 30;

/// The lowest limit, in bytes. It is well above the size of the batches in which blocks are
/// written, about 100 KiB.
const MIN_BYTES: u64 = 1 << 20;

/// The maximum number of files of a ring.
const MAX_FILES: u32 = 10_000;

/// The limits of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of each file in bytes; `None` for no limit.
    pub bytes: Option<u64>,
    /// The number of files. With one file, the capture ends at its limit. With more, it starts a
    /// new file and removes the oldest.
    pub files: u32,
}

impl Limits {
    /// No limit.
    pub const NONE: Self = Self {
        bytes: None,
        files: 1,
    };
}

impl Default for Limits {
    /// One file of 1 GiB.
    fn default() -> Self {
        Self {
            bytes: Some(DEFAULT_BYTES),
            files: 1,
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.files) {
            (None, _) => f.write_str("without a limit"),
            (Some(bytes), 1) => write!(f, "at most {}", Size(bytes)),
            (Some(bytes), files) => {
                write!(f, "the latest {files} files of {}", Size(bytes))
            }
        }
    }
}

/// A number of bytes, formatted for people.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 >= 1 << shift && self.0.trailing_zeros() >= shift {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

/// Parses `NAME[,limit=SIZE][,files=N]`. A comma that is not followed by `NAME=VALUE` belongs to
/// the name.
pub(crate) fn parse(setting: &OsStr) -> Result<(PathBuf, Limits), CreateError> {
    let mut rest = setting.as_bytes();
    let mut limits = Limits::default();
    let mut has_limit = false;
    while let Some((name, option)) = split_option(rest) {
        let text = String::from_utf8_lossy(option).into_owned();
        let option_error = |right| CreateError::Option {
            option: text.clone(),
            right,
        };
        match text.split_once('=') {
            Some(("limit", size)) => {
                limits.bytes = parse_size(size).ok_or_else(|| {
                    option_error("limit is a size of 1M or more, such as 512M or 4G, or none")
                })?;
                has_limit = true;
            }
            Some(("files", count)) => {
                let count = count.parse().ok();
                let count = count.filter(|count| (1..=MAX_FILES).contains(count));
                limits.files =
                    count.ok_or_else(|| option_error("files is a number, 1 to 10000"))?;
            }
            _ => return Err(option_error("the options are limit=SIZE and files=N")),
        }
        rest = name;
    }
    if limits.files > 1 && limits.bytes.is_none() && has_limit {
        return Err(CreateError::Option {
            option: format!("files={}", limits.files),
            right: "without a limit there is no more than one file",
        });
    }
    Ok((OsString::from_vec(rest.to_vec()).into(), limits))
}

/// Splits off the last option.
fn split_option(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let comma = text.iter().rposition(|byte| *byte == b',')?;
    let (name, option) = (text.get(..comma)?, text.get(comma + 1..)?);
    let key = option.split(|byte| *byte == b'=').next()?;
    let is_option = key.len() < option.len() && !key.is_empty();
    (is_option && key.iter().all(u8::is_ascii_lowercase)).then_some((name, option))
}

/// A size in bytes; `Some(None)` for `none`.
fn parse_size(text: &str) -> Option<Option<u64>> {
    if text == "none" {
        return Some(None);
    }
    let digits = text.trim_end_matches(|sign: char| !sign.is_ascii_digit());
    let shift = match text.get(digits.len()..)? {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    let bytes: u64 = digits.parse().ok()?;
    let bytes = bytes.checked_mul(1 << shift)?;
    (bytes >= MIN_BYTES).then_some(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, Option<u64>, u32), String> {
        let parsed = parse(OsStr::new(text)).map_err(|error| error.to_string());
        parsed.map(|(name, limits)| (name.display().to_string(), limits.bytes, limits.files))
    }

    #[test]
    fn a_setting_is_a_name_with_options() {
        for (text, name, bytes, files) in [
            ("run.pcapng", "run.pcapng", Some(1 << 30), 1),
            ("run-%p,limit=1M", "run-%p", Some(1 << 20), 1),
            ("run,files=4", "run", Some(1 << 30), 4),
            ("run,limit=2G,files=3", "run", Some(2 << 30), 3),
            ("run,files=3,limit=1048576", "run", Some(1 << 20), 3),
            ("run,limit=none", "run", None, 1),
            ("a,b.pcapng", "a,b.pcapng", Some(1 << 30), 1),
        ] {
            assert_eq!(parsed(text), Ok((name.to_owned(), bytes, files)), "{text}");
        }
    }

    #[test]
    fn a_wrong_option_is_reported_with_the_valid_values() {
        for (text, right) in [
            ("run,limit=5", "1M or more"),
            ("run,limit=", "1M or more"),
            ("run,limit=1X", "1M or more"),
            ("run,limit=99999999999G", "1M or more"),
            ("run,files=0", "1 to 10000"),
            ("run,files=many", "1 to 10000"),
            ("run,size=5", "limit=SIZE and files=N"),
            ("a,b=c.pcapng,limit=9M", "limit=SIZE and files=N"),
            ("run,limit=none,files=2", "no more than one file"),
        ] {
            let error = parsed(text).expect_err("it is wrong");
            assert!(error.contains(right), "{text}: {error}");
        }
    }

    #[test]
    fn limits_are_displayed_for_people() {
        let text_of = |bytes, files| Limits { bytes, files }.to_string();
        assert_eq!(Limits::default().to_string(), "at most 1 GiB");
        assert_eq!(text_of(Some(1_536 << 20), 1), "at most 1536 MiB");
        assert_eq!(
            text_of(Some(1_000_001), 3),
            "the latest 3 files of 1000001 bytes"
        );
        assert_eq!(text_of(None, 1), "without a limit");
    }
}
