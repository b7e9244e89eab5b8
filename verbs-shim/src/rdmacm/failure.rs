//! Connections that were not made, as `ROCE_WHY` reports them.

use crate::log;
use crate::prelude::*;
use roce_verbs::Context;
use roce_verbs::roce_cm::{RejectReason, SidrStatus};
use roce_verbs::why::{ConnectionFault, Ends, FailedConnection, WhyOutput};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::LazyLock;

/// The reports of one event with one status about one peer. A client that waits for its server tries
/// again and again.
const MOST: u32 = 3;

/// The kinds of failure that are counted. Those of a program that tries a thousand peers are not.
const MOST_KINDS: usize = 64;

static OUTPUT: LazyLock<Option<WhyOutput>> = LazyLock::new(WhyOutput::from_environment);

static REPORTED: Mutex<Counts> = Mutex::new(Counts(BTreeMap::new()));

/// The reports so far, by event, status and peer.
struct Counts(BTreeMap<(u32, c_int, Option<SocketAddr>), u32>);

impl Counts {
    /// Counts a failure. Returns whether it is reported.
    fn admits(&mut self, event: u32, status: c_int, peer: Option<SocketAddr>) -> bool {
        let key = (event, status, peer);
        if self.0.len() >= MOST_KINDS && !self.0.contains_key(&key) {
            return false;
        }
        let count = self.0.entry(key).or_default();
        *count += 1;
        *count <= MOST
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome<'a> {
    pub(super) event: u32,
    pub(super) status: c_int,
    /// Why a step of this end failed.
    pub(super) reason: Option<&'a str>,
    /// The peer's private data.
    pub(super) private: &'a [u8],
}

/// Reports an event if it says that a connection was not made. If a synchronous call waits for the
/// event, the report's reason is that call's, too. `ends` returns the two ends and the device.
pub(super) fn report(outcome: Outcome<'_>, ends: impl FnOnce() -> (Ends, Option<Context>)) {
    if OUTPUT.is_none() && !log::is_enabled() {
        return;
    }
    let Some((name, fault)) = fault(outcome) else {
        return;
    };
    let (ends, device) = ends();
    let Outcome { event, status, .. } = outcome;
    let mut failed = FailedConnection::new(ends, (name, status), &fault);
    log::set_reason(|| failed.why.clone());
    let Some(output) = &*OUTPUT else { return };
    if !REPORTED.lock().admits(event, status, ends.remote) {
        return;
    }
    if fault == ConnectionFault::NoAnswer
        && let Some(device) = device
    {
        device.add_evidence(&mut failed);
    }
    output.write(&failed);
}

/// What an event says about a connection that was not made, and the event's name in C.
fn fault(event: Outcome<'_>) -> Option<(&'static str, ConnectionFault)> {
    let own = |step, advice| ConnectionFault::Own {
        step,
        reason: match event.reason {
            Some(reason) => reason.to_owned(),
            None => {
                let errno = Errno::from_raw(event.status.saturating_neg());
                errno.desc().to_owned()
            }
        },
        advice,
    };
    let code = |status: c_int| u16::try_from(status).unwrap_or(0);
    Some(match event.event {
        CM_EVENT_ADDR_ERROR => (
            "RDMA_CM_EVENT_ADDR_ERROR",
            own(
                "the address was not resolved",
                "look at `ip route get` with the peer's address; `roce devices` lists the devices and their addresses",
            ),
        ),
        CM_EVENT_CONNECT_ERROR => (
            "RDMA_CM_EVENT_CONNECT_ERROR",
            own(
                "this end could not bring its QP to RTS, and refused the peer's reply",
                "the refused call in this report, ibv_modify_qp, names the value that was wrong",
            ),
        ),
        CM_EVENT_MULTICAST_ERROR => (
            "RDMA_CM_EVENT_MULTICAST_ERROR",
            own(
                "the group was not joined",
                "the QP must be a datagram QP of the ID's device",
            ),
        ),
        CM_EVENT_UNREACHABLE if event.status > 0 => (
            "RDMA_CM_EVENT_UNREACHABLE",
            ConnectionFault::NoService(SidrStatus(u8::try_from(event.status).unwrap_or(u8::MAX))),
        ),
        CM_EVENT_UNREACHABLE => ("RDMA_CM_EVENT_UNREACHABLE", ConnectionFault::NoAnswer),
        CM_EVENT_REJECTED => (
            "RDMA_CM_EVENT_REJECTED",
            ConnectionFault::Rejected {
                reason: RejectReason(code(event.status)),
                private: event.private.to_vec(),
            },
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_tries_again_and_again_is_reported_three_times() {
        let mut counts = Counts(BTreeMap::new());
        let mut reports = |status, peer: &str| {
            let peer = Some(peer.parse().expect("an address"));
            (0..100)
                .filter(|_| counts.admits(CM_EVENT_REJECTED, status, peer))
                .count()
        };
        assert_eq!(reports(8, "10.0.0.1:7174"), 3);
        assert_eq!(reports(8, "10.0.0.1:7174"), 0);
        assert_eq!(reports(28, "10.0.0.1:7174"), 3);
        assert_eq!(reports(8, "10.0.0.2:7174"), 3);
        for port in 0..1000 {
            reports(8, &format!("10.0.0.1:{port}"));
        }
        assert_eq!(counts.0.len(), MOST_KINDS);
    }

    #[test]
    fn only_events_of_failures_are_reported() {
        let named = |event, status| {
            let found = fault(Outcome {
                event,
                status,
                ..Outcome::default()
            });
            found.map(|(name, fault)| (name.trim_start_matches("RDMA_CM_EVENT_"), fault))
        };
        let timed_out = -(Errno::ETIMEDOUT as c_int);
        assert_eq!(
            named(CM_EVENT_UNREACHABLE, timed_out),
            Some(("UNREACHABLE", ConnectionFault::NoAnswer))
        );
        let unknown = ConnectionFault::NoService(SidrStatus::SERVICE_ID_NOT_SUPPORTED);
        assert_eq!(
            named(CM_EVENT_UNREACHABLE, 1),
            Some(("UNREACHABLE", unknown))
        );
        let Some((name, ConnectionFault::Own { reason, .. })) =
            named(CM_EVENT_ADDR_ERROR, -(Errno::ENODEV as c_int))
        else {
            panic!("a failure of this end");
        };
        assert_eq!(
            (name, reason.as_str()),
            ("ADDR_ERROR", Errno::ENODEV.desc())
        );
        for event in [
            CM_EVENT_ADDR_RESOLVED,
            CM_EVENT_ROUTE_RESOLVED,
            CM_EVENT_CONNECT_REQUEST,
            CM_EVENT_ESTABLISHED,
            CM_EVENT_DISCONNECTED,
            CM_EVENT_TIMEWAIT_EXIT,
        ] {
            assert_eq!(named(event, 0), None, "{event}");
        }
    }
}
