//! The vendor part ID of a device.
//!
//! Some programs depend on it: perftest uses inline data and the extended API only with IDs that it
//! knows.

use crate::log;
use nix::errno::Errno;
use std::ffi::OsStr;

/// The environment variable that sets an ID other than 0.
const VARIABLE: &str = "ROCE_VENDOR_PART_ID";

/// The ID that `ibv_query_device` returns. `EINVAL` if the variable is not a number.
pub(crate) fn vendor_part_id() -> Result<u32, Errno> {
    number(std::env::var_os(VARIABLE).as_deref())
}

fn number(told: Option<&OsStr>) -> Result<u32, Errno> {
    let Some(told) = told.filter(|told| !told.is_empty()) else {
        return Ok(0);
    };
    let number = told.to_str().and_then(|told| told.parse().ok());
    number.ok_or_else(|| {
        log::refuse(Errno::EINVAL, || {
            format!("{VARIABLE} is {told:?}; it takes a number of up to 32 bits")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<u32, Errno> {
        number(Some(OsStr::new(text)))
    }

    #[test]
    fn it_is_what_the_environment_says_or_0() {
        assert_eq!(number(None), Ok(0));
        assert_eq!(told(""), Ok(0));
        assert_eq!(told("4119"), Ok(4119));
        assert_eq!(told("4294967295"), Ok(u32::MAX));
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        for text in ["mlx5", "-1", "4294967296", "0x10", " 1"] {
            assert_eq!(told(text), Err(Errno::EINVAL), "{text:?}");
        }
    }
}
