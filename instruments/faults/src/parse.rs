//! The text form of [`Faults`], and of the [`FaultSpec`] in it.

use crate::names::{DIE, find_errno, find_status, status_name};
use crate::{
    Burst, CALLS, Call, CallFault, Chance, CompletionFault, FaultSpec, Faults, Injection,
    Operation, ReorderBy, RequestFault, Target, TimedFault, When,
};
use roce_stack::{Duration, DurationText, WcStatus};
use std::fmt;
use std::str::FromStr;

/// The error of parsing [`Faults`] or a [`FaultSpec`].
#[derive(Clone, PartialEq, Eq)]
pub struct FaultsError {
    /// The invalid part.
    pub given: String,
    /// Its position in characters, counted from 1.
    pub at: usize,
    /// The valid values.
    pub valid: String,
}

impl fmt::Display for FaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, at, valid } = self;
        write!(f, "at character {at}, {given:?} should be {valid}")
    }
}

impl fmt::Debug for FaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for FaultsError {}

const NETWORK: [&str; 7] = [
    "loss", "burst", "dup", "reorder", "corrupt", "delay", "seed",
];

const NAMES: &str = "one of loss=, burst=, dup=, reorder=, corrupt=, delay=, seed=, each once";
const CHANCE: &str = "a chance from 0% to 100%, such as 1% or 0.01";
const BURST: &str = "CHANCE:PACKETS or CHANCE:PACKETS:CHANCE, such as 0.1%:10 (the chance that a \
                     burst begins, its mean length in packets, and the chance that each of these \
                     packets is lost [default: 100%])";
const DELAY: &str = "a time, or an ascending range of times, such as 50us or 50us..2ms";
const SEED: &str = "a whole number from 0 to 18446744073709551615";
const PART: &str = "NAME=VALUE with a name of loss, burst, dup, reorder, corrupt, delay, seed; \
                    or an injection WHAT:FAULT@WHEN, such as post_send:ENOMEM@3";
const QP: &str = "qp and a positive number, such as qp2";
const NO_QP: &str = "without a QP: only completions (send, write, read, atomic, bind, recv, any) can be \
                     restricted to a QP";
const CALL_FAULT: &str = "an error such as ENOMEM, slow=TIME or die";
const WHEN: &str = "a positive number, a range, or a chance: @3, @3.., @3..7 or @1%";
const TIME: &str = "a time after the device was opened, such as @1s or @500ms";
const TIME_OR_TIMES: &str = "a time after the device was opened, or a range while the link is down: \
                             @1s or @1s..2s";
const LENGTH: &str = "a time such as 50us: a number with ns, us, ms or s, at most 3600s";
const REASON: &str = "a rejection reason from 1 to 65535";

#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    /// The number of characters before it.
    before: usize,
}

impl<'a> Piece<'a> {
    fn error(self, valid: impl Into<String>) -> FaultsError {
        FaultsError {
            given: self.text.to_owned(),
            at: self.before + 1,
            valid: valid.into(),
        }
    }

    /// The parts of a list.
    fn parts(text: &'a str) -> impl Iterator<Item = Self> {
        let mut rest = Some(Self { text, before: 0 });
        std::iter::from_fn(move || {
            let list = rest?;
            let (part, behind) = match list.split(',') {
                Some((part, behind)) => (part, Some(behind)),
                None => (list, None),
            };
            rest = behind;
            Some(part.trim())
        })
    }

    fn after(self, bytes: usize) -> Self {
        let (skipped, text) = self.text.split_at(bytes);
        let before = self.before + skipped.chars().count();
        Self { text, before }
    }

    /// The pieces before and after a separator.
    fn split(self, separator: char) -> Option<(Self, Self)> {
        let at = self.text.find(separator)?;
        let text = self.text.get(..at)?;
        Some((Self { text, ..self }, self.after(at + separator.len_utf8())))
    }

    fn trim(self) -> Self {
        let leading = self.text.len() - self.text.trim_start().len();
        let Self { text, before } = self.after(leading);
        let text = text.trim_end();
        Self { text, before }
    }
}

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let (mut faults, mut seen) = (Self::default(), Vec::new());
        for part in Piece::parts(text) {
            let name = part.text.split(['=', ':']).next().unwrap_or_default();
            if NETWORK.contains(&name) {
                parse_network(&mut faults.network, part, &mut seen)?;
            } else {
                faults.injections.push(parse_injection(part)?);
            }
        }
        Ok(faults)
    }
}

impl FromStr for FaultSpec {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let (mut spec, mut seen) = (Self::default(), Vec::new());
        Piece::parts(text).try_for_each(|part| parse_network(&mut spec, part, &mut seen))?;
        Ok(spec)
    }
}

/// Parses a fault of the network. `seen` has the names before it.
fn parse_network<'a>(
    spec: &mut FaultSpec,
    part: Piece<'a>,
    seen: &mut Vec<&'a str>,
) -> Result<(), FaultsError> {
    let names = || part.error(NAMES);
    let (name, value) = part.text.split_once('=').ok_or_else(names)?;
    if seen.contains(&name) {
        return Err(names());
    }
    seen.push(name);
    let chance = |text| parse_chance(text).ok_or_else(|| part.error(CHANCE));
    match name {
        "loss" => spec.loss = chance(value)?,
        "dup" => spec.duplicate = chance(value)?,
        "corrupt" => spec.corrupt = chance(value)?,
        "burst" => spec.burst = Some(parse_burst(part, value)?),
        "reorder" => {
            let (often, by) = match value.split_once(':') {
                None => (value, None),
                Some((often, by)) => (often, Some(by)),
            };
            spec.reorder = chance(often)?;
            if let Some(by) = by {
                let by = parse_duration(by).ok_or_else(|| part.error(LENGTH))?;
                spec.reorder_by = ReorderBy(by);
            }
        }
        "delay" => {
            let (from, to) = value.split_once("..").unwrap_or((value, value));
            (spec.delay, spec.jitter) = match (parse_duration(from), parse_duration(to)) {
                (Some(from), Some(to)) if from <= to => (from, to - from),
                _ => return Err(part.error(DELAY)),
            };
        }
        "seed" => spec.seed = Some(value.parse().map_err(|_| part.error(SEED))?),
        _ => return Err(names()),
    }
    Ok(())
}

fn parse_burst(part: Piece<'_>, text: &str) -> Result<Burst, FaultsError> {
    let fields: Vec<&str> = text.split(':').collect();
    let (begin, packets, loss) = match fields[..] {
        [begin, packets] => (begin, packets, "100%"),
        [begin, packets, loss] => (begin, packets, loss),
        _ => return Err(part.error(BURST)),
    };
    let packets = packets.parse().ok().filter(|packets| *packets >= 1);
    let chance = |text| parse_chance(text).ok_or_else(|| part.error(CHANCE));
    Ok(Burst {
        begin: chance(begin)?,
        packets: packets.ok_or_else(|| part.error(BURST))?,
        loss: chance(loss)?,
    })
}

/// Parses `1%` or `0.01`.
fn parse_chance(text: &str) -> Option<Chance> {
    let fraction = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    fraction.ok().and_then(Chance::from_fraction)
}

fn parse_injection(part: Piece<'_>) -> Result<Injection, FaultsError> {
    let (what, fault) = part.split(':').ok_or_else(|| part.error(PART))?;
    let (qp, what) = match what.split('.') {
        None => (None, what),
        Some((qp, what)) => {
            let number = qp
                .text
                .strip_prefix("qp")
                .and_then(|text| text.parse().ok());
            let number = number.filter(|number| *number >= 1);
            (Some((qp, number.ok_or_else(|| qp.error(QP))?)), what)
        }
    };
    let (fault, when) = match fault.split('@') {
        None => (fault, None),
        Some((fault, when)) => (fault, Some(when)),
    };
    let what = parse_what(what, fault)?;
    if let Some((piece, _)) = qp
        && !matches!(what, Target::Completion(..))
    {
        return Err(piece.error(NO_QP));
    }
    let when = match what {
        Target::Timed(timed) => parse_time_range(
            timed,
            when.ok_or_else(|| fault.error(describe_missing_time(timed)))?,
        )?,
        _ => when.map_or(Ok(When::Always), parse_matches)?,
    };
    Ok(Injection {
        qp: qp.map(|(_, number)| number),
        what,
        when,
    })
}

fn describe_missing_time(timed: TimedFault) -> String {
    let (_, how) = timed.name();
    format!("{how} at a time, such as {how}@1s")
}

fn parse_what(what: Piece<'_>, fault: Piece<'_>) -> Result<Target, FaultsError> {
    if let Some(of) = Operation::ALL.iter().find(|of| of.name() == what.text) {
        return Ok(Target::Completion(*of, parse_completion_fault(fault)?));
    }
    let timed = TimedFault::ALL
        .iter()
        .find(|timed| timed.name().0 == what.text);
    if let Some(timed) = timed {
        let how = timed.name().1;
        return match fault.text == how {
            true => Ok(Target::Timed(*timed)),
            false => Err(fault.error(how)),
        };
    }
    match what.text {
        "region" if fault.text == "fault" => Ok(Target::Region),
        "region" => Err(fault.error("fault")),
        "request" => parse_request_fault(fault).map(Target::Request),
        _ => match Call::from_name(what.text) {
            Some(call) => Ok(Target::Call(call, parse_call_fault(fault)?)),
            None => Err(what.error(list_targets())),
        },
    }
}

/// Lists everything that can fail, for an error message.
fn list_targets() -> String {
    let opcodes: Vec<&str> = Operation::ALL.iter().map(|of| of.name()).collect();
    format!(
        "completions ({}), region, request, port, gid, device, or a call ({})",
        opcodes.join(", "),
        CALLS.join(", ")
    )
}

fn parse_completion_fault(fault: Piece<'_>) -> Result<CompletionFault, FaultsError> {
    Ok(match fault.text {
        "lost" => CompletionFault::Lost,
        "overrun" => CompletionFault::Overrun,
        DIE => CompletionFault::Die,
        text => match (parse_named_duration(fault, "late")?, find_status(text)) {
            (Some(late), _) => CompletionFault::Late(late),
            (None, Some(status)) => CompletionFault::Status(status),
            (None, None) => return Err(fault.error(list_completion_faults())),
        },
    })
}

fn list_completion_faults() -> String {
    let statuses = WcStatus::ALL
        .iter()
        .filter(|status| **status != WcStatus::Success);
    let names: Vec<&str> = statuses.map(|status| status_name(*status)).collect();
    format!(
        "late=TIME, lost, overrun, die, or a status ({})",
        names.join(", ")
    )
}

fn parse_call_fault(fault: Piece<'_>) -> Result<CallFault, FaultsError> {
    if fault.text == DIE {
        return Ok(CallFault::Die);
    }
    if let Some(slow) = parse_named_duration(fault, "slow")? {
        return Ok(CallFault::Slow(slow));
    }
    let errno = find_errno(fault.text).ok_or_else(|| fault.error(CALL_FAULT))?;
    Ok(CallFault::Error(errno as i32))
}

fn parse_request_fault(fault: Piece<'_>) -> Result<RequestFault, FaultsError> {
    match fault.split('=') {
        None if fault.text == "ignored" => Ok(RequestFault::Ignored),
        Some((name, reason)) if name.text == "reject" => {
            let number = reason.text.parse().ok().filter(|reason| *reason != 0);
            Ok(RequestFault::Reject(
                number.ok_or_else(|| reason.error(REASON))?,
            ))
        }
        _ => Err(fault.error("reject=REASON or ignored")),
    }
}

/// Parses `NAME=TIME`; `None` if the text has another form or name.
fn parse_named_duration(fault: Piece<'_>, name: &str) -> Result<Option<Duration>, FaultsError> {
    let Some((_, length)) = fault.split('=').filter(|(given, _)| given.text == name) else {
        return Ok(None);
    };
    let length = parse_duration(length.text).ok_or_else(|| length.error(LENGTH))?;
    Ok(Some(length))
}

fn parse_duration(text: &str) -> Option<Duration> {
    text.parse().ok().map(|DurationText(time)| time)
}

fn parse_matches(when: Piece<'_>) -> Result<When, FaultsError> {
    let wrong = || when.error(WHEN);
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number >= 1);
    if when.text.ends_with('%') {
        return Ok(When::Chance(parse_chance(when.text).ok_or_else(wrong)?));
    }
    let (first, last) = match when.text.split_once("..") {
        None => {
            let only = number(when.text).ok_or_else(wrong)?;
            (only, Some(only))
        }
        Some((first, "")) => (number(first).ok_or_else(wrong)?, None),
        Some((first, last)) => {
            let first = number(first).ok_or_else(wrong)?;
            let last = number(last).filter(|last| *last >= first);
            (first, Some(last.ok_or_else(wrong)?))
        }
    };
    Ok(When::Matches { first, last })
}

fn parse_time_range(timed: TimedFault, when: Piece<'_>) -> Result<When, FaultsError> {
    let may_end = timed == TimedFault::PortDown;
    let valid = if may_end { TIME_OR_TIMES } else { TIME };
    let times = match when.text.split_once("..") {
        None => parse_duration(when.text).map(|from| (from, None)),
        Some((from, to)) if may_end => match (parse_duration(from), parse_duration(to)) {
            (Some(from), Some(to)) if from < to => Some((from, Some(to))),
            _ => None,
        },
        Some(_) => None,
    };
    let (from, to) = times.ok_or_else(|| when.error(valid))?;
    Ok(When::Time { from, to })
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = FaultSpec {
            seed: None,
            ..self.network
        };
        let mut parts = Vec::new();
        if !network.is_faultless() {
            parts.push(network.to_string());
        }
        parts.extend(self.injections.iter().map(Injection::to_string));
        parts.extend(self.network.seed.map(|seed| format!("seed={seed}")));
        f.write_str(&parts.join(","))
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
