//! The vendor part ID of a device.
//!
//! Some programs depend on it: perftest uses inline data and the extended API only with the IDs in
//! its own list.

use crate::log;
use nix::errno::Errno;
use std::ffi::OsStr;

/// The environment variable that sets an ID other than 0.
const VARIABLE: &str = "ROCE_VENDOR_PART_ID";

/// The ID that `ibv_query_device` returns. `EINVAL` if the variable is not a number.
pub(crate) fn vendor_part_id() -> Result<u32, Errno> {
    number(roce_trust::environment::variable(VARIABLE).as_deref())
}

fn number(value: Option<&OsStr>) -> Result<u32, Errno> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(0);
    };
    let number = value.to_str().and_then(|value| value.parse().ok());
    number.ok_or_else(|| {
        log::with_reason(Errno::EINVAL, || {
            format!("{VARIABLE} is {value:?}, and must be a decimal number of up to 32 bits")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<u32, Errno> {
        number(Some(OsStr::new(text)))
    }

    #[test]
    fn it_is_what_the_environment_says_or_0() {
        assert_eq!(number(None), Ok(0));
        assert_eq!(value(""), Ok(0));
        assert_eq!(value("4119"), Ok(4119));
        assert_eq!(value("4294967295"), Ok(u32::MAX));
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        for text in ["mlx5", "-1", "4294967296", "0x10", " 1"] {
            assert_eq!(value(text), Err(Errno::EINVAL), "{text:?}");
        }
    }
}
