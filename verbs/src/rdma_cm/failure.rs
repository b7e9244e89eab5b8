//! Connections that were not made, as `ROCE_WHY` reports them.

use super::{Event, EventKind, Failure};
use crate::why::{ConnectionFault, Ends, FailedConnection, WhyOutput};
use parking_lot::Mutex;
use roce_cm::{RejectReason, SidrStatus};
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
struct Counts(BTreeMap<(&'static str, i32, Option<SocketAddr>), u32>);

impl Counts {
    /// Counts a failure. Returns whether it is reported.
    fn admits(&mut self, name: &'static str, status: i32, peer: Option<SocketAddr>) -> bool {
        let key = (name, status, peer);
        if self.0.len() >= MOST_KINDS && !self.0.contains_key(&key) {
            return false;
        }
        let count = self.0.entry(key).or_default();
        *count += 1;
        *count <= MOST
    }
}

impl Event {
    /// Reports the event, if it says that a connection was not made, where
    /// [`WHY_VARIABLE`](crate::why::WHY_VARIABLE) says. `name` and `status` are those of the event in C.
    /// Returns why the connection was not made.
    pub fn report_failure(&self, name: &'static str, status: i32) -> Option<String> {
        let fault = fault(self)?;
        let id = &self.id;
        let (local, remote) = id.addresses();
        let ends = Ends::new(local, remote, id.space());
        let ends = if id.is_passive() {
            ends.passive()
        } else {
            ends
        };
        let mut failed = FailedConnection::new(ends, (name, status), &fault);
        let why = failed.why.clone();
        if let Some(output) = &*OUTPUT
            && REPORTED.lock().admits(name, status, remote)
        {
            if fault == ConnectionFault::NoAnswer
                && let Ok(device) = id.device()
            {
                device.context().add_evidence(&mut failed);
            }
            output.write(&failed);
        }
        Some(why)
    }
}

/// The step that failed, and advice, for an event about a connection that was not made.
fn fault(event: &Event) -> Option<ConnectionFault> {
    let (step, advice) = match event.kind {
        EventKind::AddrError => (
            "the address was not resolved",
            "look at `ip route get` with the peer's address; `roce devices` lists the devices and their addresses",
        ),
        EventKind::ConnectError => (
            "this end could not bring its QP to RTS, and refused the peer's reply",
            "the refused call in this report, ibv_modify_qp, names the value that was wrong",
        ),
        EventKind::MulticastError => (
            "the group was not joined",
            "the QP must be a datagram QP of the ID's device",
        ),
        _ => ("", ""),
    };
    Some(match (event.kind, event.failure.as_ref()?) {
        (_, Failure::Own(error)) => ConnectionFault::Own {
            step,
            reason: error.to_string(),
            advice,
        },
        (_, Failure::NoAnswer) => ConnectionFault::NoAnswer,
        (EventKind::Unreachable, Failure::Peer(status)) => {
            let status = u8::try_from(*status).unwrap_or(u8::MAX);
            ConnectionFault::NoService(SidrStatus(status))
        }
        (_, Failure::Peer(reason)) => ConnectionFault::Rejected {
            reason: RejectReason(*reason),
            private: event.private.clone(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma_cm;
    use roce_cm::PortSpace;
    use roce_stack::QpKind;
    use std::sync::Arc;

    #[test]
    fn a_client_that_tries_again_and_again_is_reported_three_times() {
        let mut counts = Counts(BTreeMap::new());
        let mut reports = |status, peer: &str| {
            let peer = Some(peer.parse().expect("an address"));
            (0..100)
                .filter(|_| counts.admits("RDMA_CM_EVENT_REJECTED", status, peer))
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
    fn only_failures_are_reported_each_with_its_own_kind() {
        let channel = Arc::new(rdma_cm::Channel::new(1).expect("a descriptor"));
        let id = rdma_cm::Id::new(channel, PortSpace::Tcp, QpKind::Rc).expect("randomness");
        let fault = |kind, failure| {
            fault(&Event {
                id: Arc::clone(&id),
                child: None,
                kind,
                failure,
                data: rdma_cm::EventData::None,
                private: Vec::new(),
                tag: 0,
            })
        };
        let no_answer = fault(EventKind::Unreachable, Some(Failure::NoAnswer));
        assert_eq!(no_answer, Some(ConnectionFault::NoAnswer));
        let unknown = ConnectionFault::NoService(SidrStatus::SERVICE_ID_NOT_SUPPORTED);
        let status = Some(Failure::Peer(SidrStatus::SERVICE_ID_NOT_SUPPORTED.0.into()));
        assert_eq!(fault(EventKind::Unreachable, status), Some(unknown));
        let Some(ConnectionFault::Rejected { reason, .. }) =
            fault(EventKind::Rejected, Some(Failure::Peer(28)))
        else {
            panic!("a rejection");
        };
        assert_eq!(reason, RejectReason::CONSUMER);
        let error = rdma_cm::IdError::NoDevice;
        let Some(ConnectionFault::Own { reason, .. }) =
            fault(EventKind::AddrError, Some(Failure::Own(error)))
        else {
            panic!("a failure of this end");
        };
        assert_eq!(reason, rdma_cm::IdError::NoDevice.to_string());
        assert_eq!(fault(EventKind::Established, None), None);
    }
}
