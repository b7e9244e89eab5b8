//! Numbers with units, and faults, in descriptions.

use roce_faults::FaultSpec;
use roce_stack::{Duration, DurationText};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

const MAX_RATE: f64 = 1e12;
const MAX_BYTES: f64 = (1u64 << 30) as f64;

/// A rate in bits per second, such as `200M`.
///
/// # Errors
/// The expected form, if it has another.
pub fn rate(text: &str) -> Result<u64, String> {
    match scaled(text, 1000.0) {
        Some(rate) if (1.0..=MAX_RATE).contains(&rate) => Ok(rate as u64),
        _ => Err(format!(
            "{text:?} should be a rate such as 200M: bits per second, with K, M or G, from 1 to \
             1000G"
        )),
    }
}

/// The shortest text of a rate.
pub(super) fn rate_text(rate: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "K")];
    let fits = units
        .into_iter()
        .find(|(unit, _)| rate.is_multiple_of(*unit));
    match fits {
        Some((unit, name)) => format!("{}{name}", rate / unit),
        None => rate.to_string(),
    }
}

/// A number of bytes, such as `256K`.
///
/// # Errors
/// The expected form, if it has another.
pub fn bytes(text: &str) -> Result<usize, String> {
    match scaled(text, 1024.0) {
        Some(bytes) if (0.0..=MAX_BYTES).contains(&bytes) => Ok(bytes as usize),
        _ => Err(format!(
            "{text:?} should be a number of bytes such as 256K: with K, M or G of 1024, at most 1G"
        )),
    }
}

/// A whole percentage, such as `10%`.
///
/// # Errors
/// The expected form, if it has another.
pub fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').and_then(|n| n.parse().ok());
    number
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| format!("{text:?} should be a whole percentage from 0% to 100%"))
}

/// A time, such as `10us`.
///
/// # Errors
/// The expected form, if it has another.
pub fn time(text: &str) -> Result<Duration, String> {
    let time = text.parse().map(|DurationText(time)| time);
    time.map_err(|_| {
        format!("{text:?} should be a time such as 10us: with ns, us, ms or s, at most 3600s")
    })
}

/// Faults, such as `loss=1%,dup=0.1%`.
///
/// # Errors
/// The expected form, if it has another.
pub fn faults(text: &str) -> Result<FaultSpec, String> {
    match text.parse::<FaultSpec>() {
        Ok(FaultSpec { seed: Some(_), .. }) => Err(format!(
            "{text:?} should have no seed: the seed of the whole run determines all faults"
        )),
        Ok(spec) => Ok(spec),
        Err(error) => Err(format!("{:?} should be {}", error.given, error.valid)),
    }
}

/// A number with one of the suffixes K, M and G, or none.
fn scaled(text: &str, thousand: f64) -> Option<f64> {
    let units = [("K", 1), ("M", 2), ("G", 3)];
    let suffix = units
        .into_iter()
        .find_map(|(name, power)| Some((text.strip_suffix(name)?, power)));
    let (number, power) = suffix.unwrap_or((text, 0));
    let number: f64 = number.parse().ok()?;
    Some(number * thousand.powi(power))
}

/// A string or a number, as text.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsText;
        impl Visitor<'_> for AsText {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(AsText)
    }
}

/// The type of a field that holds such a value.
macro_rules! field {
    ($name:ident, $value:ty, $parse:path) => {
        #[derive(Clone, Copy, Debug, Deserialize)]
        #[serde(try_from = "Text")]
        pub(super) struct $name(pub(super) $value);

        impl TryFrom<Text> for $name {
            type Error = String;

            fn try_from(text: Text) -> Result<Self, String> {
                $parse(&text.0).map(Self)
            }
        }
    };
}

field!(Rate, u64, rate);
field!(Bytes, usize, bytes);
field!(Percent, u8, percent);
field!(Time, Duration, time);
field!(Faults, FaultSpec, faults);
