//! The form of the tables: what a report says of a mistake.

use roce_verbs::why::kind_of_code;
use serde_json::Value;

/// All mistakes, by theme.
pub(super) const MISTAKES: &[&[Mistake]] = &[
    super::remote::MEMORY,
    super::remote::REQUESTS,
    super::own::MEMORY,
    super::own::WINDOWS,
    super::silent::PEERS,
    super::silent::PACKETS,
    super::unmade::CONNECTIONS,
    super::refused::CONNECTION_CALLS,
    super::refused::TRANSITIONS,
    super::refused::REQUESTS,
    super::refused::OBJECTS,
];

/// A mistake of the program, and the reports of both ends.
pub(super) struct Mistake {
    /// What the program calls it.
    pub(super) name: &'static str,
    pub(super) client: &'static [Expected],
    pub(super) server: &'static [Expected],
}

/// A report. Names in braces stand for values that the program printed.
pub(super) struct Expected {
    pub(super) kind: Kind,
    /// Why.
    pub(super) text: &'static str,
}

/// What is reported.
pub(super) enum Kind {
    /// A QP that failed, by its code.
    Failure(u32),
    /// Packets that a QP drops, by the name of their counter.
    Dropped(&'static str),
    /// A refused call, and its error.
    Call(&'static str, &'static str),
    /// A connection that was not made: the event without its prefix, and its status.
    Connection(&'static str, i32),
}

pub(super) const fn failure(code: u32, text: &'static str) -> Expected {
    Expected {
        kind: Kind::Failure(code),
        text,
    }
}

pub(super) const fn dropped(counter: &'static str, text: &'static str) -> Expected {
    Expected {
        kind: Kind::Dropped(counter),
        text,
    }
}

pub(super) const fn call(name: &'static str, errno: &'static str, text: &'static str) -> Expected {
    Expected {
        kind: Kind::Call(name, errno),
        text,
    }
}

pub(super) const fn connection(event: &'static str, status: i32, text: &'static str) -> Expected {
    Expected {
        kind: Kind::Connection(event, status),
        text,
    }
}

/// What the client reports of requests that its peer denies or refuses, or does not answer.
pub(super) const DENIED: Expected = failure(
    0x320,
    "the peer denied the packet with PSN {client_psn} access to its memory. Only the peer knows the reason",
);
pub(super) const REFUSED: Expected = failure(
    0x310,
    "the peer refused the packet with PSN {client_psn} as an invalid request. Only the peer knows the reason",
);
pub(super) const NOT_DONE: Expected = failure(
    0x330,
    "the peer could not execute the packet with PSN {client_psn}. Only the peer knows the reason",
);
pub(super) const NEVER_ANSWERED: Expected = failure(
    0x211,
    "no answer to the packet with PSN {client_psn}, and all 3 retries are used up (retry_cnt 3, local ACK \
     timeout 67.108864ms). The peer has never answered this QP",
);

impl Expected {
    /// The member of the JSON object with the text.
    pub(super) fn member(&self) -> &'static str {
        match self.kind {
            Kind::Call(..) => "reason",
            _ => "why",
        }
    }
}

impl Kind {
    /// Checks the members that programs compare. `all` is for messages.
    pub(super) fn check(&self, report: &Value, all: &str) {
        match *self {
            Self::Failure(code) => {
                assert_eq!(report["why_code"], code, "{all}");
                let event = kind_of_code(code).expect("a known code").event;
                let reported = match &report["status"] {
                    Value::Null => &report["event"],
                    status => status,
                };
                assert_eq!(*reported, event, "{all}");
            }
            Self::Dropped(counter) => assert_eq!(report["dropped"], counter, "{all}"),
            Self::Call(name, errno) => {
                assert_eq!(report["call"], name, "{all}");
                assert_eq!(report["errno"], errno, "{all}");
            }
            Self::Connection(event, status) => {
                assert_eq!(report["event"], format!("RDMA_CM_EVENT_{event}"), "{all}");
                assert_eq!(report["event_status"], status, "{all}");
            }
        }
    }
}

impl Mistake {
    /// The report that names the cause: the server's, if it has one, because the client's then only says
    /// that the peer knows. A refused call of the client comes before what the server reports of it.
    pub(super) fn cause(&self) -> &Expected {
        let reports = match self.client.first() {
            Some(client) if matches!(client.kind, Kind::Call(..)) => [self.client, self.server],
            _ => [self.server, self.client],
        };
        let first = reports.into_iter().flatten().next();
        first.unwrap_or_else(|| panic!("{}: nobody reports it", self.name))
    }
}
