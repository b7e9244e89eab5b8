//! Connections that are not established yet, as watchers see them.

use super::WaitSnapshot;
use crate::why::{ConnectionFault, Ends, FailedConnection, GatheredEvidence};
use roce_cm::{Pending, PendingStep, PortSpace};
use std::net::SocketAddr;

const ACCEPT: &str = "the program must take RDMA_CM_EVENT_CONNECT_REQUEST from its channel, and accept or \
                      reject it: the peer gives up after some seconds";

const ESTABLISH: &str = "the program must take RDMA_CM_EVENT_CONNECT_RESPONSE from its channel, bring its \
                         QP to RTS, and call rdma_establish";

/// Describes, for each connection that is not established, whether it waits for the peer or for the program.
pub fn waits_of_connections(
    pending: &[Pending],
    mut evidence: GatheredEvidence,
) -> Vec<WaitSnapshot> {
    let waits = pending.iter().map(|one| wait(one, &mut evidence));
    waits.collect()
}

fn wait(pending: &Pending, evidence: &mut GatheredEvidence) -> WaitSnapshot {
    let (space, port) = pending.service.port().unwrap_or((PortSpace::Ib, 0));
    let (local, remote) = (pending.path.local, pending.path.remote);
    let ends = match pending.waits_for {
        PendingStep::Answer { to: "REP", .. } | PendingStep::Acceptance => {
            let (local, remote) = (SocketAddr::new(local, port), SocketAddr::new(remote, 0));
            Ends::new(Some(local), Some(remote), space).passive()
        }
        _ => {
            let (local, remote) = (SocketAddr::new(local, 0), SocketAddr::new(remote, port));
            Ends::new(Some(local), Some(remote), space)
        }
    };
    let to = format!("the connection to port {port} of {remote}");
    let from = format!("the request of {remote} for a connection to port {port}");
    let snapshot = |what, advice: &str| WaitSnapshot {
        what,
        likely: None,
        advice: advice.to_owned(),
    };
    match pending.waits_for {
        PendingStep::Acceptance => snapshot(
            format!("{from} is neither accepted nor rejected by this program"),
            ACCEPT,
        ),
        PendingStep::Readiness => snapshot(
            format!("{to} is accepted by the peer, and waits for this program"),
            ESTABLISH,
        ),
        PendingStep::Answer { to: message, times } => {
            let subject = if message == "REP" { from } else { to };
            let times = match times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            let what = format!(
                "{subject} waits for the peer's answer to its {message}, which was sent {times}"
            );
            unanswered(ends, what, evidence)
        }
        _ => snapshot(format!("{to} is not established"), ""),
    }
}

/// A connection whose peer is silent, with the evidence of lost packets.
fn unanswered(ends: Ends, mut what: String, evidence: &mut GatheredEvidence) -> WaitSnapshot {
    let event = ("RDMA_CM_EVENT_UNREACHABLE", 0);
    let mut failed = FailedConnection::new(ends, event, &ConnectionFault::NoAnswer);
    failed.add_evidence(evidence);
    for fact in &failed.evidence {
        what.push_str("; ");
        what.push_str(fact);
    }
    WaitSnapshot {
        what,
        likely: failed.likely.map(str::to_owned),
        advice: failed.advice.join("; "),
    }
}
