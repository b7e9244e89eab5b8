//! The text form of [`FaultSpec`].

use super::{Burst, Chance, FaultSpec, ReorderBy};
use core::fmt;
use core::str::FromStr;
use roce_stack::{Duration, DurationText};

/// The error of parsing a [`FaultSpec`].
#[derive(Clone, PartialEq, Eq)]
pub struct FaultSpecError {
    /// The part that is not valid.
    pub given: String,
    /// The valid values.
    pub valid: &'static str,
}

impl fmt::Display for FaultSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} should be {}", self.given, self.valid)
    }
}

impl fmt::Debug for FaultSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for FaultSpecError {}

const NAMES: &str = "one of loss=, burst=, dup=, reorder=, corrupt=, delay=, seed=, each once";
const CHANCE: &str = "a chance from 0% to 100%, such as 1% or 0.01";
const TIME: &str = "a time such as 50us: a number with ns, us, ms or s, at most 3600s";
const BURST: &str = "CHANCE:PACKETS or CHANCE:PACKETS:CHANCE, such as 0.1%:10 (the chance that a \
                     burst begins, its mean length in packets, and the chance that each of these \
                     packets is lost [default: 100%])";
const DELAY: &str = "a time, or an ascending range of times, such as 50us or 50us..2ms";
const SEED: &str = "a whole number from 0 to 18446744073709551615";

impl FromStr for FaultSpec {
    type Err = FaultSpecError;

    fn from_str(text: &str) -> Result<Self, FaultSpecError> {
        let mut spec = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let (name, value) = part.split_once('=').ok_or_else(|| invalid(part, NAMES))?;
            if seen.contains(&name) {
                return Err(invalid(part, NAMES));
            }
            seen.push(name);
            match name {
                "loss" => spec.loss = parse_chance(part, value)?,
                "dup" => spec.duplicate = parse_chance(part, value)?,
                "corrupt" => spec.corrupt = parse_chance(part, value)?,
                "burst" => spec.burst = Some(parse_burst(part, value)?),
                "reorder" => match value.split_once(':') {
                    None => spec.reorder = parse_chance(part, value)?,
                    Some((often, by)) => {
                        spec.reorder = parse_chance(part, often)?;
                        spec.reorder_by =
                            ReorderBy(parse_time(by).ok_or_else(|| invalid(part, TIME))?);
                    }
                },
                "delay" => (spec.delay, spec.jitter) = parse_delay(part, value)?,
                "seed" => spec.seed = Some(value.parse().map_err(|_| invalid(part, SEED))?),
                _ => return Err(invalid(part, NAMES)),
            }
        }
        Ok(spec)
    }
}

fn invalid(part: &str, valid: &'static str) -> FaultSpecError {
    FaultSpecError {
        given: part.to_owned(),
        valid,
    }
}

fn parse_chance(part: &str, text: &str) -> Result<Chance, FaultSpecError> {
    let fraction = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    fraction
        .ok()
        .and_then(Chance::from_fraction)
        .ok_or_else(|| invalid(part, CHANCE))
}

fn parse_burst(part: &str, text: &str) -> Result<Burst, FaultSpecError> {
    let mut fields = text.split(':');
    let (Some(begin), Some(packets)) = (fields.next(), fields.next()) else {
        return Err(invalid(part, BURST));
    };
    let loss = fields
        .next()
        .map_or(Ok(Chance::ALWAYS), |loss| parse_chance(part, loss))?;
    let packets = packets.parse().ok().filter(|packets| *packets >= 1);
    match (packets, fields.next()) {
        (Some(packets), None) => Ok(Burst {
            begin: parse_chance(part, begin)?,
            packets,
            loss,
        }),
        _ => Err(invalid(part, BURST)),
    }
}

/// Parses a time with a unit.
fn parse_time(text: &str) -> Option<Duration> {
    text.parse().ok().map(|DurationText(time)| time)
}

fn parse_delay(part: &str, text: &str) -> Result<(Duration, Duration), FaultSpecError> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    match (parse_time(from), parse_time(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to - from)),
        _ => Err(invalid(part, DELAY)),
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut chance = |name: &str, chance: Chance| {
            if !chance.is_never() {
                parts.push(format!("{name}={chance}"));
            }
        };
        chance("loss", self.loss);
        chance("dup", self.duplicate);
        chance("corrupt", self.corrupt);
        if !self.reorder.is_never() {
            let by = DurationText(self.reorder_by.0);
            parts.push(format!("reorder={}:{by}", self.reorder));
        }
        if let Some(burst) = self.burst {
            let Burst {
                begin,
                packets,
                loss,
            } = burst;
            parts.push(match loss {
                Chance::ALWAYS => format!("burst={begin}:{packets}"),
                loss => format!("burst={begin}:{packets}:{loss}"),
            });
        }
        let longest = self.delay + self.jitter;
        if !longest.is_zero() {
            let (from, to) = (DurationText(self.delay), DurationText(longest));
            parts.push(match self.jitter.is_zero() {
                true => format!("delay={from}"),
                false => format!("delay={from}..{to}"),
            });
        }
        if let Some(seed) = self.seed {
            parts.push(format!("seed={seed}"));
        }
        f.write_str(&parts.join(","))
    }
}
