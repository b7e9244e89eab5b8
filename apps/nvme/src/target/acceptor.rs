//! The thread that takes connection requests.

use super::handshakes::Handshakes;
use super::protocol::Session;
use super::shared::Shared;
use crate::wire::{Refusal, RequestPrivate};
use roce_verbs::cm::{Incoming, Listener};
use std::sync::Arc;
use std::time::Instant;

/// Takes requests until the target stops. Each connection gets a thread of its own once its
/// handshake is complete: until then, the request may be forged.
pub(super) fn run(listener: &Listener, shared: &Arc<Shared>) {
    let mut handshakes = Handshakes::new(shared);
    while !shared.is_stopping() {
        handshakes.wait(listener);
        // One at a time, so that a flood of requests does not delay the others' handshakes.
        if handshakes.has_room(Instant::now())
            && let Some(incoming) = listener.try_accept()
        {
            match admit(&incoming, shared) {
                Ok(session) => handshakes.begin(incoming, session),
                Err(refusal) => shared.refuse(incoming, refusal),
            }
        }
        handshakes.proceed();
    }
}

/// Whether the request can be granted.
fn admit(incoming: &Incoming, shared: &Shared) -> Result<Session, Refusal> {
    let request = RequestPrivate::parse(incoming.private())?;
    // The target reads the host's memory.
    if incoming.request().responder_resources == 0 {
        return Err(Refusal::INVALID_IRD);
    }
    let session = Session::new(&shared.controllers, &request)?;
    match shared.has_seat() {
        true => Ok(session),
        false => Err(Refusal::NO_RESOURCES),
    }
}
