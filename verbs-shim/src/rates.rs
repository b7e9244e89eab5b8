//! Static rates: codes, multiples of 2.5 Gb/s, and Mb/s.

use nix::errno::Errno;
use std::ffi::c_int;

/// A rate. Some rates are not a multiple of 2.5 Gb/s.
struct Rate {
    code: c_int,
    mult: Option<c_int>,
    mbps: c_int,
}

const fn rate(code: c_int, mult: c_int, mbps: c_int) -> Rate {
    let mult = if mult == 0 { None } else { Some(mult) };
    Rate { code, mult, mbps }
}

const RATES: [Rate; 23] = [
    rate(2, 1, 2500),
    rate(5, 2, 5000),
    rate(3, 4, 10_000),
    rate(6, 8, 20_000),
    rate(4, 12, 30_000),
    rate(7, 16, 40_000),
    rate(8, 24, 60_000),
    rate(9, 32, 80_000),
    rate(10, 48, 120_000),
    rate(11, 0, 14_062),
    rate(12, 0, 56_250),
    rate(13, 0, 112_500),
    rate(14, 0, 168_750),
    rate(15, 0, 25_781),
    rate(16, 0, 103_125),
    rate(17, 0, 206_250),
    rate(18, 0, 309_375),
    rate(19, 11, 28_125),
    rate(20, 20, 53_125),
    rate(21, 160, 425_000),
    rate(22, 240, 637_500),
    rate(23, 320, 850_000),
    rate(24, 480, 1_275_000),
];

/// The code for the port's full speed (`IBV_RATE_MAX`), which also means no limit.
const FASTEST: c_int = 0;

fn find(is: impl Fn(&&Rate) -> bool) -> Option<&'static Rate> {
    RATES.iter().find(is)
}

/// The rate of a path, in units of 1,000 bits a second; 0 for no limit.
///
/// # Errors
/// `EINVAL` for a code that is not a rate.
pub(crate) fn static_rate(code: u8) -> Result<u32, Errno> {
    let code = c_int::from(code);
    if code == FASTEST {
        return Ok(0);
    }
    let rate = find(|rate| rate.code == code).ok_or(Errno::EINVAL)?;
    Ok(rate.mbps.unsigned_abs() * 1000)
}

pub(crate) extern "C" fn rate_to_mult(code: c_int) -> c_int {
    find(|rate| rate.code == code)
        .and_then(|rate| rate.mult)
        .unwrap_or(-1)
}

pub(crate) extern "C" fn mult_to_rate(mult: c_int) -> c_int {
    find(|rate| rate.mult == Some(mult)).map_or(FASTEST, |rate| rate.code)
}

pub(crate) extern "C" fn rate_to_mbps(code: c_int) -> c_int {
    find(|rate| rate.code == code).map_or(-1, |rate| rate.mbps)
}

pub(crate) extern "C" fn mbps_to_rate(mbps: c_int) -> c_int {
    find(|rate| rate.mbps == mbps).map_or(FASTEST, |rate| rate.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for rate in &RATES {
            assert_eq!(mbps_to_rate(rate_to_mbps(rate.code)), rate.code);
            if let Some(mult) = rate.mult {
                assert_eq!(mult_to_rate(mult), rate.code);
            }
        }
        assert_eq!(rate_to_mult(11), -1);
        assert_eq!(mbps_to_rate(1), FASTEST);
    }

    #[test]
    fn paths_have_rates() {
        let codes = [0, 2, 24, 1, 25].map(static_rate);
        let none = Err(Errno::EINVAL);
        assert_eq!(codes, [Ok(0), Ok(2_500_000), Ok(1_275_000_000), none, none]);
    }
}
