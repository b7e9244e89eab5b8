//! One injected fault: what fails, how, and when.

use super::names::{self, status_name};
use nix::errno::Errno;
use roce_port::fault::Chance;
use roce_stack::{Duration, DurationText, WcOpcode, WcStatus};
use std::fmt;

/// One injected fault. Its text form is `[qpN.]WHAT:FAULT[@WHEN]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Only the QP that the process creates as its `qp`-th, from 1 on. Only for completions.
    pub qp: Option<u32>,
    /// What fails, and how.
    pub what: What,
    /// Which of the calls, completions, regions or requests, or at which time.
    pub when: When,
}

/// What fails, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A call of the C API.
    Call(Call, CallFault),
    /// A completion that would report success.
    Completion(Of, CompletionFault),
    /// The memory of a registered region vanishes, as if its file had been truncated.
    Region,
    /// A connection request that arrives.
    Request(RequestFault),
    /// Something that happens at a time.
    Timed(TimedFault),
}

/// A call of the C API, one of [`CALLS`](super::CALLS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call(pub(super) &'static str);

impl Call {
    /// The call with this name, with or without `ibv_` in front; `None` if no order can be about it.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("ibv_").unwrap_or(name);
        let known = super::CALLS.iter().find(|known| **known == name)?;
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

/// Whose completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
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
    /// All requests.
    Any,
}

impl Of {
    /// All of them.
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

    /// Whether a completion with this opcode is one of them.
    pub(super) fn includes(self, opcode: WcOpcode) -> bool {
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
    /// It comes later, and so do those of the same work queue behind it.
    Late(Duration),
    /// It never comes.
    Lost,
    /// Its CQ overruns.
    Overrun,
    /// The process dies of SIGKILL before the completion can be polled.
    Die,
}

/// The fate of a connection request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// It is rejected with this reason (IBTA 1.7, 12.6.7.2).
    Reject(u16),
    /// Nobody answers it.
    Ignored,
}

/// An event at a time since the device was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedFault {
    /// The link goes down, and up again if there is an end: no packet leaves or arrives meanwhile.
    PortDown,
    /// The event of a change of GIDs is raised. The GIDs stay as they are.
    GidChange,
    /// The device stops for good.
    DeviceFatal,
}

impl TimedFault {
    /// All of them.
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

/// Which of the matches of an injection it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Each of them.
    Always,
    /// Those from the `first` on, counted from 1, up to and including the `last`.
    Matches {
        /// The first one.
        first: u64,
        /// The last one; `None` if it never ends.
        last: Option<u64>,
    },
    /// Each with this chance.
    Chance(Chance),
    /// From a time since the device was opened, up to another. Only for [`What::Timed`].
    Time {
        /// The beginning.
        from: Duration,
        /// The end. Only for [`TimedFault::PortDown`].
        to: Option<Duration>,
    },
}

impl Injection {
    const fn new(what: What) -> Self {
        Self {
            qp: None,
            what,
            when: When::Always,
        }
    }

    /// An injection about a call of the C API.
    pub const fn call(call: Call, fault: CallFault) -> Self {
        Self::new(What::Call(call, fault))
    }

    /// An injection about completions.
    pub const fn completion(of: Of, fault: CompletionFault) -> Self {
        Self::new(What::Completion(of, fault))
    }

    /// An injection about registered regions.
    pub const fn region() -> Self {
        Self::new(What::Region)
    }

    /// An injection about connection requests that arrive.
    pub const fn request(fault: RequestFault) -> Self {
        Self::new(What::Request(fault))
    }

    /// An injection about a time since the device was opened. Only a link comes back at `to`.
    pub const fn timed(fault: TimedFault, from: Duration, to: Option<Duration>) -> Self {
        let mut injection = Self::new(What::Timed(fault));
        injection.when = When::Time { from, to };
        injection
    }

    /// The same about the `nth` match only, counted from 1.
    pub const fn at(mut self, nth: u64) -> Self {
        self.when = When::Matches {
            first: nth,
            last: Some(nth),
        };
        self
    }

    /// The same about each match with this chance.
    pub const fn with_chance(mut self, chance: Chance) -> Self {
        self.when = When::Chance(chance);
        self
    }

    /// The same about the QP that the process creates as its `number`-th, from 1 on.
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

impl fmt::Display for What {
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
