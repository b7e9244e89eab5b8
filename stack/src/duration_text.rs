//! Durations in text form: `50us`, `1.5ms`.

use crate::time::Duration;
use core::fmt;
use core::str::FromStr;

/// A duration with a text form: a number with `ns`, `us`, `ms` or `s`, at most one hour.
///
/// ```
/// use roce_stack::{Duration, DurationText};
///
/// let text: DurationText = "1.5ms".parse().unwrap();
/// assert_eq!(text, DurationText(Duration::from_micros(1500)));
/// assert_eq!(text.to_string(), "1500us");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurationText(pub Duration);

/// A text that is not a [`DurationText`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DurationTextError;

impl fmt::Display for DurationTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration is a number with ns, us, ms or s, such as 50us, and at most 3600s")
    }
}

impl fmt::Debug for DurationTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DurationTextError {}

/// The units. `s` comes last, because the others end in it.
const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

impl FromStr for DurationText {
    type Err = DurationTextError;

    fn from_str(text: &str) -> Result<Self, DurationTextError> {
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, ns)| Some((text.strip_suffix(name)?, *ns)))
            .ok_or(DurationTextError)?;
        let number: f64 = number.parse().map_err(|_| DurationTextError)?;
        let seconds = number * unit as f64 / 1e9;
        if !(0.0..=3600.0).contains(&seconds) {
            return Err(DurationTextError);
        }
        Ok(Self(Duration::from_nanos((seconds * 1e9).round() as u64)))
    }
}

/// Writes the largest unit that gives a whole number.
impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        let fits = |(_, unit): &&(&str, u64)| ns % unit == 0;
        let (name, unit) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]);
        write!(f, "{}{name}", ns / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_outside_the_range_and_without_a_unit_are_refused() {
        for text in ["", "5", "ns", "-1us", "3601s", "nans", "infs", "1 us", "1h"] {
            assert_eq!(
                text.parse::<DurationText>(),
                Err(DurationTextError),
                "{text}"
            );
        }
        let hour = Ok(DurationText(Duration::from_secs(3600)));
        assert_eq!("3600s".parse(), hour);
    }
}
