//! The part number that devices report to C programs. Some depend on it: perftest uses inline data and
//! the extended API only with the numbers in its own list.

use crate::environment::variable;
use crate::error::OpenError;

/// The part number that `ROCE_VENDOR_PART_ID` sets, or 0 if it is empty or not set.
///
/// # Errors
/// If the value is not a number of 32 bits.
pub fn environment_vendor_part_id() -> Result<u32, OpenError> {
    Ok(variable("ROCE_VENDOR_PART_ID", parse)?.unwrap_or(0))
}

fn parse(text: &str) -> Result<u32, String> {
    match text {
        "" => Ok(0),
        _ => text
            .parse()
            .map_err(|_| "it must be a number, 0 to 4294967295".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_number_or_0() {
        assert_eq!(parse(""), Ok(0));
        assert_eq!(parse("4119"), Ok(4119));
        assert_eq!(parse("4294967295"), Ok(u32::MAX));
        for text in ["mlx5", "-1", "4294967296", "0x10", " 1"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
