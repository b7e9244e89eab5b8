//! One injection: what fails, how, and when.

use crate::Chance;
use crate::names::{self, status_name};
use nix::errno::Errno;
use roce_stack::{Duration, DurationText, WcOpcode, WcStatus};
use std::fmt;

/// One injected fault. Its text form is `[qpN.]WHAT:FAULT[@WHEN]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// For completions: restricts it to the `qp`-th QP that the process creates, counted from 1.
    pub qp: Option<u32>,
    /// The target, and how it fails.
    pub what: Target,
    /// Which of the matching calls, completions, regions or requests fail, or at which time.
    pub when: When,
}

/// The target of an injection and its fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A C API call.
    Call(Call, CallFault),
    /// A completion that would otherwise report success.
    Completion(Operation, CompletionFault),
    /// The memory of a registered region vanishes, as if its file had been truncated.
    Region,
    /// An incoming connection request.
    Request(RequestFault),
    /// An event at a given time.
    Timed(TimedFault),
}

/// A C API call, one of [`CALLS`](crate::CALLS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call(pub(crate) &'static str);

impl Call {
    /// Finds a call by its name, with or without `ibv_`; `None` if it is not one of
    /// [`CALLS`](crate::CALLS).
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("ibv_").unwrap_or(name);
        let known = crate::CALLS.iter().find(|known| **known == name)?;
        Some(Self(known))
    }

    /// Its name, without `ibv_`.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// It does nothing and fails with this `errno`.
    Error(i32),
    /// It takes this much longer.
    Slow(Duration),
    /// The process dies of SIGKILL.
    Die,
}

/// The operation that a completion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends.
    Send,
    /// WRITEs.
    Write,
    /// READs.
    Read,
    /// Atomics.
    Atomic,
    /// Binding of memory windows.
    Bind,
    /// Receives.
    Recv,
    /// All operations.
    Any,
}

impl Operation {
    /// All values.
    pub const ALL: [Self; 7] = [
        Self::Send,
        Self::Write,
        Self::Read,
        Self::Atomic,
        Self::Bind,
        Self::Recv,
        Self::Any,
    ];

    /// Its name in an injection.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
            Self::Atomic => "atomic",
            Self::Bind => "bind",
            Self::Recv => "recv",
            Self::Any => "any",
        }
    }

    pub(crate) fn includes(self, opcode: WcOpcode) -> bool {
        match self {
            Self::Any => true,
            Self::Send => opcode == WcOpcode::Send,
            Self::Write => matches!(opcode, WcOpcode::RdmaWrite | WcOpcode::AtomicWrite),
            Self::Read => opcode == WcOpcode::RdmaRead,
            Self::Atomic => matches!(opcode, WcOpcode::CompareSwap | WcOpcode::FetchAdd),
            Self::Bind => opcode == WcOpcode::BindMw,
            Self::Recv => matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm),
        }
    }
}

/// The fate of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionFault {
    /// It reports this status, and the QP fails.
    Status(WcStatus),
    /// It is delayed, and with it those behind it in the same work queue.
    Late(Duration),
    /// It is lost.
    Lost,
    /// Its CQ overruns.
    Overrun,
    /// The process dies of SIGKILL before the completion can be polled.
    Die,
}

/// The fate of an incoming connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// It is rejected with this reason (IBTA 1.7, 12.6.7.2).
    Reject(u16),
    /// It is ignored.
    Ignored,
}

/// An event at a given time after the device was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedFault {
    /// The link goes down, and up again if an end is given. While it is down, no packet is sent or
    /// received.
    PortDown,
    /// A GID change event is raised. The GIDs do not change.
    GidChange,
    /// The device fails permanently.
    DeviceFatal,
}

impl TimedFault {
    /// All values.
    pub const ALL: [Self; 3] = [Self::PortDown, Self::GidChange, Self::DeviceFatal];

    /// Its name in an injection: what, and how.
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::PortDown => ("port", "down"),
            Self::GidChange => ("gid", "change"),
            Self::DeviceFatal => ("device", "fatal"),
        }
    }
}

/// Which matches of an injection it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Each match.
    Always,
    /// The matches from `first` to `last`, inclusive, counted from 1.
    Matches {
        /// The first match.
        first: u64,
        /// The last match; `None` for no end.
        last: Option<u64>,
    },
    /// Each with this chance.
    Chance(Chance),
    /// At a time after the device was opened. Only for [`Target::Timed`].
    Time {
        /// The start.
        from: Duration,
        /// The end, only for [`TimedFault::PortDown`].
        to: Option<Duration>,
    },
}

impl Injection {
    const fn new(what: Target) -> Self {
        Self {
            qp: None,
            what,
            when: When::Always,
        }
    }

    /// An injection about a C API call.
    pub const fn call(call: Call, fault: CallFault) -> Self {
        Self::new(Target::Call(call, fault))
    }

    /// An injection about completions.
    pub const fn completion(of: Operation, fault: CompletionFault) -> Self {
        Self::new(Target::Completion(of, fault))
    }

    /// An injection about registered regions.
    pub const fn region() -> Self {
        Self::new(Target::Region)
    }

    /// An injection about incoming connection requests.
    pub const fn request(fault: RequestFault) -> Self {
        Self::new(Target::Request(fault))
    }

    /// An injection at a time after the device was opened. Only [`TimedFault::PortDown`] ends, at `to`.
    pub const fn timed(fault: TimedFault, from: Duration, to: Option<Duration>) -> Self {
        let mut injection = Self::new(Target::Timed(fault));
        injection.when = When::Time { from, to };
        injection
    }

    /// Restricts it to the `nth` match, counted from 1.
    pub const fn at(mut self, nth: u64) -> Self {
        self.when = When::Matches {
            first: nth,
            last: Some(nth),
        };
        self
    }

    /// Lets it strike each match with this chance.
    pub const fn with_chance(mut self, chance: Chance) -> Self {
        self.when = When::Chance(chance);
        self
    }

    /// Restricts it to the `number`-th QP that the process creates, counted from 1.
    pub const fn of_qp(mut self, number: u32) -> Self {
        self.qp = Some(number);
        self
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(number) = self.qp {
            write!(f, "qp{number}.")?;
        }
        write!(f, "{}{}", self.what, self.when)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call, fault) => write!(f, "{}:{fault}", call.0),
            Self::Completion(of, fault) => write!(f, "{}:{fault}", of.name()),
            Self::Region => f.write_str("region:fault"),
            Self::Request(RequestFault::Reject(reason)) => write!(f, "request:reject={reason}"),
            Self::Request(RequestFault::Ignored) => f.write_str("request:ignored"),
            Self::Timed(fault) => {
                let (what, how) = fault.name();
                write!(f, "{what}:{how}")
            }
        }
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(errno) => write!(f, "{:?}", Errno::from_raw(*errno)),
            Self::Slow(time) => write!(f, "slow={}", DurationText(*time)),
            Self::Die => f.write_str("die"),
        }
    }
}

impl fmt::Display for CompletionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => f.write_str(status_name(*status)),
            Self::Late(time) => write!(f, "late={}", DurationText(*time)),
            Self::Lost => f.write_str("lost"),
            Self::Overrun => f.write_str("overrun"),
            Self::Die => f.write_str(names::DIE),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Always => Ok(()),
            Self::Matches { first, last: None } => write!(f, "@{first}.."),
            Self::Matches {
                first,
                last: Some(last),
            } if first == last => write!(f, "@{first}"),
            Self::Matches {
                first,
                last: Some(last),
            } => write!(f, "@{first}..{last}"),
            Self::Chance(chance) => write!(f, "@{chance}"),
            Self::Time { from, to: None } => write!(f, "@{}", DurationText(from)),
            Self::Time { from, to: Some(to) } => {
                write!(f, "@{}..{}", DurationText(from), DurationText(to))
            }
        }
    }
}
