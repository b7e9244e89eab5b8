//! Why requests and QPs failed, for people: what happened, what shows it, and what to do.
//!
//! The status of a completion names a symptom. An [`Explanation`] names the cause that this stack
//! found, with the numbers that it compared. Only the first failure of a QP is explained, since
//! flushed requests follow from it. `Context::why` of roce-verbs returns it as long as the
//! QP exists; with [`WHY_VARIABLE`], the library writes each one as the QP fails.

mod advice;
mod connection;
mod events;
mod evidence;
mod explainer;
mod explanation;
mod file;
mod output;
mod packets;
mod refused;
#[cfg(test)]
mod tests;
mod unfit;

pub use crate::InWords;
pub use advice::{Advice, KINDS, Kind, kind_of_code};
pub use connection::{ConnectionFault, Ends, FailedConnection, GatheredEvidence};
pub use events::QpEventText;
pub use evidence::{Evidence, PacketsNotSent, packets_not_sent};
pub use explainer::Explainer;
pub use explanation::Explanation;
pub use output::{WhyOutput, environment_why};
pub use packets::{WHY_PCAP_VARIABLE, environment_why_packets};
pub use refused::{RefusedCall, RefusedCalls};
pub use roce_stack::{
    Cause, DeniedAccess, Extent, FailedRequest, Failure, QpEvent, Recorded, Verdict,
};

pub(crate) use output::{WhyLog, check_why_setting};
pub(crate) use packets::check_why_packets_setting;

/// The variable that makes the library write explanations, and C calls that it refuses.
pub const WHY_VARIABLE: &str = "ROCE_WHY";
