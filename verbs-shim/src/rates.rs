//! Static rates: codes, multiples of 2.5 Gb/s, and Mb/s.

use nix::errno::Errno;
use std::ffi::c_int;

/// Each rate: its code, the multiple, 0 if it is none, and the Mb/s.
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 1, 2500),
    (5, 2, 5000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 0, 14_062),
    (12, 0, 56_250),
    (13, 0, 112_500),
    (14, 0, 168_750),
    (15, 0, 25_781),
    (16, 0, 103_125),
    (17, 0, 206_250),
    (18, 0, 309_375),
    (19, 11, 28_125),
    (20, 20, 53_125),
    (21, 160, 425_000),
    (22, 240, 637_500),
    (23, 320, 850_000),
    (24, 480, 1_275_000),
];

/// The code for the port's full speed (`IBV_RATE_MAX`), which also means no limit.
const FASTEST: c_int = 0;

fn find(is: impl Fn(c_int, c_int, c_int) -> bool) -> Option<(c_int, c_int, c_int)> {
    let mut rates = RATES.into_iter();
    rates.find(|(code, mult, mbps)| is(*code, *mult, *mbps))
}

/// The rate of a path, in units of 1,000 bits a second; 0 for no limit.
///
/// # Errors
/// `EINVAL` for a code that is not a rate.
pub(crate) fn static_rate(code: u8) -> Result<u32, Errno> {
    match rate_to_mbps(code.into()) {
        _ if c_int::from(code) == FASTEST => Ok(0),
        mbps => Ok(u32::try_from(mbps).map_err(|_| Errno::EINVAL)? * 1000),
    }
}

pub(crate) extern "C" fn rate_to_mult(rate: c_int) -> c_int {
    find(|code, mult, _| code == rate && mult != 0).map_or(-1, |(_, mult, _)| mult)
}

pub(crate) extern "C" fn mult_to_rate(wanted: c_int) -> c_int {
    find(|_, mult, _| mult == wanted && mult != 0).map_or(FASTEST, |(code, ..)| code)
}

pub(crate) extern "C" fn rate_to_mbps(rate: c_int) -> c_int {
    find(|code, _, _| code == rate).map_or(-1, |(.., mbps)| mbps)
}

pub(crate) extern "C" fn mbps_to_rate(wanted: c_int) -> c_int {
    find(|_, _, mbps| mbps == wanted).map_or(FASTEST, |(code, ..)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (code, mult, _) in RATES {
            assert_eq!(mbps_to_rate(rate_to_mbps(code)), code);
            if mult != 0 {
                assert_eq!(mult_to_rate(mult), code);
            }
        }
        assert_eq!(rate_to_mult(11), -1);
        assert_eq!(mult_to_rate(0), FASTEST);
        assert_eq!(mbps_to_rate(1), FASTEST);
    }

    #[test]
    fn paths_have_rates() {
        let codes = [0, 2, 24, 1, 25].map(static_rate);
        let none = Err(Errno::EINVAL);
        assert_eq!(codes, [Ok(0), Ok(2_500_000), Ok(1_275_000_000), none, none]);
    }
}
