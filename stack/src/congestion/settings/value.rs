//! References to the fields of the parameters, with their valid values.

use crate::duration_text::DurationText;
use crate::time::Duration;
use core::fmt;

/// A reference to a value, with its type.
#[derive(Debug)]
pub(super) enum Slot<'a> {
    /// Mbit/s.
    Rate(&'a mut u32),
    /// Mbit/s, not 0.
    NonZeroRate(&'a mut u32),
    /// A number, with its minimum.
    Count(&'a mut u32, u32),
    /// Bytes.
    Bytes(&'a mut u64),
    /// A time, with its minimum.
    Time(&'a mut Duration, Duration),
    /// A fraction, in 1/1024.
    Of1024(&'a mut u16),
    /// A weight, in 1/1024. Its text is the complement, such as `1/256` for 1020.
    ComplementOf1024(&'a mut u16),
    /// A fraction, in percent.
    Percent(&'a mut u8),
    /// 10 or 11.
    AlphaShift(&'a mut u8),
    /// A DSCP.
    Dscp(&'a mut u8),
    /// Yes or no.
    Flag(&'a mut bool),
    /// A number, with its minimum and its maximum.
    Number(&'a mut f64, f64, f64),
}

impl Slot<'_> {
    /// Parses and sets the value. The error is a text that describes the valid values.
    pub(super) fn set(self, text: &str) -> Result<(), String> {
        let valid = self.valid();
        self.take(text).ok_or(valid)
    }

    fn take(self, text: &str) -> Option<()> {
        match self {
            Self::Rate(place) => *place = within(text, 0, MAX_RATE)?,
            Self::NonZeroRate(place) => *place = within(text, 1, MAX_RATE)?,
            Self::Count(place, least) => *place = within(text, least, u32::MAX)?,
            Self::Bytes(place) => *place = text.parse().ok()?,
            Self::Time(place, least) => {
                let plain = text.parse::<f64>().is_ok();
                let with_unit = format!("{text}us");
                let text = if plain { &with_unit } else { text };
                let DurationText(time) = text.parse().ok()?;
                *place = Some(time).filter(|time| *time >= least)?;
            }
            Self::Of1024(place) => *place = within(text, 0, 1024)?,
            Self::ComplementOf1024(place) => {
                let (over, under) = text.split_once('/').unwrap_or((text, "1"));
                let part = over.trim().parse::<f64>().ok()? / under.trim().parse::<f64>().ok()?;
                let valid = (0.0..=1.0).contains(&part);
                *place = 1024 - valid.then_some((part * 1024.0).round() as u16)?;
            }
            Self::Percent(place) => *place = within(text, 0, 100)?,
            Self::AlphaShift(place) => *place = within(text, 10, 11)?,
            Self::Dscp(place) => *place = within(text, 0, 63)?,
            Self::Flag(place) => {
                *place = match text {
                    "0" => false,
                    "1" => true,
                    _ => return None,
                }
            }
            Self::Number(place, least, most) => {
                let number = text.parse::<f64>().ok()?;
                *place = Some(number).filter(|n| (least..=most).contains(n))?;
            }
        }
        Some(())
    }

    fn valid(&self) -> String {
        match self {
            Self::Rate(_) => format!("a rate in Mbit/s, 0 to {MAX_RATE}"),
            Self::NonZeroRate(_) => format!("a rate in Mbit/s, 1 to {MAX_RATE}"),
            Self::Count(_, least) => format!("a whole number from {least} to {}", u32::MAX),
            Self::Bytes(_) => "a number of bytes".to_owned(),
            Self::Time(_, least) => format!(
                "a time from {} to 3600s, such as 55us: a number with ns, us, ms or s; without a \
                 unit, it is in microseconds",
                DurationText(*least)
            ),
            Self::Of1024(_) => "a fraction in units of 1/1024, 0 to 1024".to_owned(),
            Self::ComplementOf1024(_) => "a fraction from 0 to 1, such as 1/256".to_owned(),
            Self::Percent(_) => "a percentage, 0 to 100, without a sign".to_owned(),
            Self::AlphaShift(_) => "10, for all of alpha, or 11, for half of it".to_owned(),
            Self::Dscp(_) => "a DSCP, 0 to 63".to_owned(),
            Self::Flag(_) => "0 or 1".to_owned(),
            Self::Number(_, least, most) => format!("a number from {least} to {most}"),
        }
    }
}

impl fmt::Display for Slot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(n) | Self::NonZeroRate(n) | Self::Count(n, _) => n.fmt(f),
            Self::Bytes(n) => n.fmt(f),
            Self::Time(time, _) => DurationText(**time).fmt(f),
            Self::Of1024(n) => n.fmt(f),
            Self::ComplementOf1024(n) => write!(f, "{}/1024", 1024_u16.saturating_sub(**n)),
            Self::Percent(n) | Self::AlphaShift(n) | Self::Dscp(n) => n.fmt(f),
            Self::Flag(flag) => u8::from(**flag).fmt(f),
            Self::Number(n, ..) => n.fmt(f),
        }
    }
}

/// The maximum of rates in Mbit/s: 10 Tbit/s, more than any link has.
const MAX_RATE: u32 = 10_000_000;

fn within<T: core::str::FromStr + PartialOrd>(text: &str, least: T, most: T) -> Option<T> {
    let number = text.parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}
