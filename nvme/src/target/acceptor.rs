//! The thread that takes connection requests.

use super::protocol::Session;
use super::queue;
use super::shared::{Seat, Shared};
use super::stats::add;
use crate::wire::{Refusal, RejectPrivate, RequestPrivate};
use roce_verbs::cm::{Incoming, Listener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often the thread looks whether the target stops.
const TICK: Duration = Duration::from_millis(100);

/// Takes requests until the target stops. Each connection gets a thread of its own, since the
/// handshake with a peer that does not answer takes long.
pub(super) fn run(listener: &Listener, shared: &Arc<Shared>) {
    while !shared.is_stopping() {
        let Some(incoming) = listener.accept_within(TICK) else {
            continue;
        };
        match admit(&incoming, shared) {
            Ok((session, seat)) => start(incoming, session, seat, shared),
            Err(refusal) => refuse(incoming, refusal, shared),
        }
    }
}

/// Whether the request can be granted.
fn admit(incoming: &Incoming, shared: &Arc<Shared>) -> Result<(Session, Seat), Refusal> {
    let request = RequestPrivate::parse(incoming.private())?;
    // The target reads the host's memory.
    if incoming.request().responder_resources == 0 {
        return Err(Refusal::INVALID_IRD);
    }
    let session = Session::new(&shared.controllers, &request)?;
    let seat = shared.seat().ok_or(Refusal::NO_RESOURCES)?;
    Ok((session, seat))
}

fn start(incoming: Incoming, session: Session, seat: Seat, shared: &Arc<Shared>) {
    let shared_there = Arc::clone(shared);
    let serve = move || queue::serve(incoming, session, seat, &shared_there);
    let name = "nvme-target-queue".to_owned();
    // If there are no more threads, the request is dropped here, which refuses it.
    if thread::Builder::new().name(name).spawn(serve).is_err() {
        add(&shared.counters.refused, 1);
    }
}

/// Refuses a request, with the reason.
pub(super) fn refuse(incoming: Incoming, reason: Refusal, shared: &Shared) {
    add(&shared.counters.refused, 1);
    // This fails if the host has given up meanwhile.
    let _ = incoming.reject(&RejectPrivate { reason }.encode());
}
