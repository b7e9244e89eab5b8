//! The congestion control settings of a device, and their text form.

mod names;
mod value;

use super::{CongestionControl, DcqcnParameters, DelayParameters, NotificationPoint};
use core::fmt;
use core::str::FromStr;
use names::{DCQCN, DELAY, NOTIFICATION, Name, find};
use value::Slot;

/// The congestion control settings of a device: as a sender, and as a receiver of marked packets.
///
/// As text: `dcqcn`, `delay` or `none`, then parameters, separated by commas or on lines of their
/// own: `dcqcn,connectx,rpg_ai_rate=50,min_time_between_cnps=20us`. For `dcqcn` there are two sets
/// of parameters, `paper` (the default) and `connectx`. `link=25000` after it fits the set to a link
/// of this rate ([`DcqcnParameters::paper_for_link`]). Names are those of the fields of
/// [`DcqcnParameters`], [`DelayParameters`] and [`NotificationPoint`]; case does not matter. The
/// names of Linux's driver for ConnectX adapters (`rp_ai_rate`), those of their firmware
/// (`RPG_AI_RATE_P1`), and those of the papers (`R_AI`, `T`, `B`, `F`, `g=1/256`) work, too. Rates
/// are in Mbit/s; a time without a unit is in microseconds. A `#` begins a comment, which ends with
/// the line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CongestionSettings {
    /// How senders avoid filling the network's queues.
    pub control: CongestionControl,
    /// How receivers respond to ECN-marked packets.
    pub notification: NotificationPoint,
}

/// The error of parsing [`CongestionSettings`].
#[derive(Clone, PartialEq, Eq)]
pub struct CongestionSettingsError {
    /// The part that is not valid.
    pub given: String,
    /// The valid values.
    pub valid: String,
}

impl fmt::Display for CongestionSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} should be {}", self.given, self.valid)
    }
}

impl fmt::Debug for CongestionSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CongestionSettingsError {}

impl FromStr for CongestionSettings {
    type Err = CongestionSettingsError;

    fn from_str(text: &str) -> Result<Self, CongestionSettingsError> {
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""));
        let parts = lines.flat_map(|line| line.split(',')).map(str::trim);
        let mut parts = parts.filter(|part| !part.is_empty()).peekable();
        let mut settings = Self::default();
        let algorithm = parts.peek().copied().unwrap_or("");
        settings.control = match bare(algorithm).as_str() {
            "dcqcn" => CongestionControl::Dcqcn(DcqcnParameters::PAPER),
            "delay" => CongestionControl::Delay(DelayParameters::DEFAULT),
            "none" => CongestionControl::None,
            _ => {
                return Err(wrong(
                    algorithm,
                    "dcqcn, delay or none, and parameters after it",
                ));
            }
        };
        parts.next();
        if matches!(settings.control, CongestionControl::Dcqcn(_)) {
            let set = parts.peek().map(|part| bare(part));
            let connect_x = set.as_deref() == Some("connectx");
            if connect_x || set.as_deref() == Some("paper") {
                parts.next();
            }
            let link = parts.peek().copied().and_then(link);
            if link.is_some() {
                parts.next();
            }
            settings = Self::dcqcn(connect_x, link.transpose()?);
        }
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let name = settings.set(part)?;
            if let Some((_, before)) = seen.iter().find(|(other, _)| *other == name) {
                let valid = format!("left out: {before:?} already sets this parameter");
                return Err(wrong(part, valid));
            }
            seen.push((name, part));
        }
        Ok(settings)
    }
}

impl CongestionSettings {
    /// DCQCN with one of the two sets of parameters, for a link of this rate in Mbit/s.
    fn dcqcn(connect_x: bool, link: Option<u32>) -> Self {
        let control = match (connect_x, link) {
            (false, None) => DcqcnParameters::PAPER,
            (false, Some(rate)) => DcqcnParameters::paper_for_link(rate),
            (true, None) => DcqcnParameters::CONNECT_X,
            (true, Some(rate)) => DcqcnParameters::connect_x_for_link(rate),
        };
        let paper_rate = link.filter(|_| !connect_x);
        Self {
            control: CongestionControl::Dcqcn(control),
            notification: paper_rate.map_or_else(Default::default, NotificationPoint::for_link),
        }
    }

    /// Parses `name=value`. Returns the parameter's canonical name.
    fn set(&mut self, part: &str) -> Result<&'static str, CongestionSettingsError> {
        let Some((name, value)) = part.split_once('=') else {
            return Err(wrong(part, self.valid_names()));
        };
        let (name, value) = (name.trim(), value.trim());
        let slot = find(NOTIFICATION, name).map(|known| {
            let slot = (known.slot)(&mut self.notification);
            (known.parameter(), slot)
        });
        let slot = slot.or_else(|| match &mut self.control {
            CongestionControl::None => None,
            CongestionControl::Dcqcn(p) => {
                find(DCQCN, name).map(|known| (known.parameter(), (known.slot)(p)))
            }
            CongestionControl::Delay(p) => {
                find(DELAY, name).map(|known| (known.parameter(), (known.slot)(p)))
            }
        });
        let Some((known, slot)) = slot else {
            return Err(wrong(part, self.valid_names()));
        };
        slot.set(value).map_err(|valid| wrong(part, valid))?;
        Ok(known)
    }

    /// The valid names.
    fn valid_names(&self) -> String {
        let own = match self.control {
            CongestionControl::None => Vec::new(),
            CongestionControl::Dcqcn(_) => DCQCN.iter().map(|known| known.name).collect(),
            CongestionControl::Delay(_) => DELAY.iter().map(|known| known.name).collect(),
        };
        let all = own
            .into_iter()
            .chain(NOTIFICATION.iter().map(|known| known.name));
        let names: Vec<&str> = all.collect();
        let sets = match self.control {
            CongestionControl::Dcqcn(_) => {
                "; a set of parameters, paper or connectx, comes first, and link=RATE after it"
            }
            _ => "",
        };
        let algorithm = self.control.name();
        format!(
            "NAME=VALUE, with {algorithm} one of {}{sets}",
            names.join(", ")
        )
    }
}

impl fmt::Display for CongestionSettings {
    /// The algorithm, and the parameters that differ from the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.control.name())?;
        match &self.control {
            CongestionControl::None => {}
            CongestionControl::Dcqcn(p) => {
                let all = |base: DcqcnParameters| differences(DCQCN, p, &base);
                let (paper, adapter) =
                    (all(DcqcnParameters::PAPER), all(DcqcnParameters::CONNECT_X));
                if adapter.len() < paper.len() {
                    f.write_str(",connectx")?;
                }
                let fewer = if adapter.len() < paper.len() {
                    adapter
                } else {
                    paper
                };
                f.write_str(&fewer.concat())?;
            }
            CongestionControl::Delay(p) => {
                f.write_str(&differences(DELAY, p, &DelayParameters::DEFAULT).concat())?;
            }
        }
        let default = NotificationPoint::default();
        f.write_str(&differences(NOTIFICATION, &self.notification, &default).concat())
    }
}

/// `,name=value` for each parameter that differs from `base`.
fn differences<P: Clone>(names: &[Name<P>], given: &P, base: &P) -> Vec<String> {
    let (mut given, mut base) = (given.clone(), base.clone());
    let mut all = Vec::new();
    for name in names {
        // A parameter that has two forms is written in its canonical one.
        if name.same_as.is_some() {
            continue;
        }
        let value = (name.slot)(&mut given).to_string();
        if value != (name.slot)(&mut base).to_string() {
            all.push(format!(",{}={value}", name.name));
        }
    }
    all
}

/// A word without its optional name: `algorithm=delay` is `delay`.
fn bare(part: &str) -> String {
    let word = part.split_once('=').filter(|(name, _)| {
        let name = name.trim().to_ascii_lowercase();
        name == "algorithm" || name == "parameters"
    });
    let word = word.map_or(part, |(_, word)| word).trim();
    word.to_ascii_lowercase()
}

/// The rate in `link=RATE`; `None` if the part is something else.
fn link(part: &str) -> Option<Result<u32, CongestionSettingsError>> {
    let (name, value) = part.split_once('=')?;
    name.trim().eq_ignore_ascii_case("link").then(|| {
        let mut rate = 0;
        let set = Slot::NonZeroRate(&mut rate).set(value.trim());
        set.map(|()| rate).map_err(|valid| wrong(part, valid))
    })
}

fn wrong(part: &str, valid: impl Into<String>) -> CongestionSettingsError {
    CongestionSettingsError {
        given: part.to_owned(),
        valid: valid.into(),
    }
}

#[cfg(test)]
mod tests;
