//! Delivers events to their listeners and connections.

use super::core::Core;
use roce_cm::Event;
use roce_stack::{QpAttributes, QpState};

impl Core {
    /// Delivers `event` to its listener or connection, and returns it if it belongs to neither. If
    /// the peer ends a connection, answers the peer and moves the QP to ERR: outstanding requests
    /// complete as flushed.
    pub(super) fn route(&self, event: Event) -> Option<Event> {
        if let Event::Requested { .. } = event {
            return self.routes().deliver_request(event);
        }
        let id = event.connection();
        let Some((sender, qp)) = self.routes().route_of(&event) else {
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
        // The connection may have been dropped.
        let _ = sender.send(event);
        None
    }
}
