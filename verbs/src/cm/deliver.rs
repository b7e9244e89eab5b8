//! How an event reaches the listener or connection that it is for.

use super::core::Core;
use roce_cm::Event;
use roce_stack::{QpAttributes, QpState};

impl Core {
    /// Hands an event to the listener or connection that it is for, and gives back one that is
    /// for neither. Answers a peer that ends a connection, and has its QP fail: what is
    /// outstanding completes as flushed.
    pub(super) fn route(&self, event: Event) -> Option<Event> {
        if let Event::Requested { .. } = event {
            return self.routes().hand_request(event);
        }
        let id = event.connection();
        let Some((tell, qp)) = self.routes().connection_of(&event) else {
            return Some(event);
        };
        if let Event::DisconnectRequested { .. } = event {
            // It may be over by now.
            let _ = self.with(|agent, now| agent.disconnect(now, id, &[]));
        }
        if let Event::DisconnectRequested { .. } | Event::Disconnected { .. } = event
            && let Some(qp) = qp
        {
            // It may be in RESET, by its program's wish.
            let _ = qp.modify(&QpAttributes {
                state: Some(QpState::Err),
                ..QpAttributes::default()
            });
        }
        // The connection may have been dropped.
        let _ = tell.send(event);
        None
    }
}
