//! The text form of [`Faults`].

use super::injection::{
    Call, CallFault, CompletionFault, Injection, Operation, RequestFault, Target, TimedFault, When,
};
use super::names::{DIE, find_errno, find_status};
use super::{CALLS, Faults};
use roce_port::fault::{Chance, FaultSpec};
use roce_stack::{Duration, DurationText, WcStatus};
use std::fmt;
use std::str::FromStr;

/// The error of parsing [`Faults`].
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

debug_as_display!(FaultsError);

impl std::error::Error for FaultsError {}

const NETWORK: [&str; 7] = [
    "loss", "burst", "dup", "reorder", "corrupt", "delay", "seed",
];

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
        let mut injections = Vec::new();
        let mut network: Vec<Piece<'_>> = Vec::new();
        let mut rest = Some(Piece { text, before: 0 });
        while let Some(list) = rest {
            let (part, behind) = match list.split(',') {
                Some((part, behind)) => (part.trim(), Some(behind)),
                None => (list.trim(), None),
            };
            rest = behind;
            let name = part.text.split(['=', ':']).next().unwrap_or_default();
            if NETWORK.contains(&name) {
                network.push(part);
            } else {
                injections.push(parse_injection(part)?);
            }
        }
        Ok(Self {
            network: parse_network(&network)?,
            injections,
        })
    }
}

fn parse_network(parts: &[Piece<'_>]) -> Result<FaultSpec, FaultsError> {
    if parts.is_empty() {
        return Ok(FaultSpec::default());
    }
    let texts: Vec<&str> = parts.iter().map(|part| part.text).collect();
    texts.join(",").parse().map_err(|error| {
        let roce_port::fault::FaultSpecError { given, valid, .. } = error;
        // If there are two, the later one is the invalid one.
        let part = parts.iter().rev().find(|part| part.text == given);
        part.unwrap_or(&parts[0]).error(valid)
    })
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
    let names: Vec<&str> = statuses
        .map(|status| super::names::status_name(*status))
        .collect();
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
    if let Some(percent) = when.text.strip_suffix('%') {
        let fraction = percent.parse::<f64>().ok().map(|percent| percent / 100.0);
        let chance = fraction.and_then(Chance::from_fraction).ok_or_else(wrong)?;
        return Ok(When::Chance(chance));
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
