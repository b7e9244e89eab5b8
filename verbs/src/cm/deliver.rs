//! Delivers events to their listeners and connections.

use super::core::Core;
use roce_cm::{Event, RejectReason};
use roce_stack::{QpAttributes, QpState};

impl Core {
    /// Delivers `event` to its listener or connection, and returns it if it belongs to neither. If
    /// the peer ends a connection, answers the peer and moves the QP to ERR: outstanding requests
    /// complete as flushed.
    pub(super) fn route(&self, event: Event) -> Option<Event> {
        if let Event::Requested { .. } = event {
            return self.routes().deliver_request(event).unwrap_or_else(|id| {
                let reason = RejectReason::NO_RESOURCES;
                // The peer may have given up.
                let _ = self.with(|agent, now| agent.reject(now, id, reason, &[]));
                None
            });
        }
        let id = event.connection();
        let Some(qp) = self.routes().qp_of(&event) else {
            return Some(event);
        };
        if let Event::DisconnectRequested { .. } = event {
            // The connection may be over already.
            let _ = self.with(|agent, now| agent.disconnect(now, id, &[]));
        }
        if let Event::DisconnectRequested { .. } | Event::Disconnected { .. } = event
            && let Some(qp) = qp
        {
            // The program may have moved it to RESET.
            let _ = qp.modify(&QpAttributes {
                state: Some(QpState::Err),
                ..QpAttributes::default()
            });
        }
        self.routes().deliver(event);
        None
    }
}
