//! Asynchronous events.

use crate::objects::Registry;
use crate::prelude::*;
use crate::wait::{self, Found, blocks};
use roce_verbs::device::Event;
use std::os::fd::AsFd;

/// For a call that waits until a descriptor is readable.
///
/// # Errors
/// `EAGAIN` if the descriptor is non-blocking.
pub(crate) fn when_readable<T>(
    context: &roce_verbs::Context,
    descriptor: &impl AsFd,
) -> Result<Found<T>, Errno> {
    if !blocks(descriptor)? {
        return Err(Errno::EAGAIN);
    }
    context.hand_over();
    Ok(wait::when_readable(descriptor))
}

pub(crate) extern "C-unwind" fn get_async_event(
    context: Handle<IbvContext>,
    event: Out<IbvAsyncEvent>,
) -> c_int {
    wait::until_found("ibv_get_async_event", move || {
        let state = &context.get()?.state;
        loop {
            let Some(found) = state.events.poll() else {
                return when_readable(&state.roce, &state.events);
            };
            if let Some((event_type, Some(element))) = translate(&state.objects, found) {
                let translated = IbvAsyncEvent {
                    element,
                    event_type,
                };
                return event.put(translated).map(Found::Now);
            }
        }
    })
}

/// The C number of an event, and its element; the element is `None` if the object was destroyed. There is
/// no number of [`Event::CqNotify`], which a completion channel reports, and of an event missing from this
/// table; a test checks that none is missing.
fn translate(objects: &Registry, event: Event) -> Option<(u32, Option<*mut c_void>)> {
    let qp = |qpn| objects.qps.acquire(&qpn);
    // The number of the only port.
    let port = Some(std::ptr::without_provenance_mut(1));
    Some(match event {
        Event::CqError(id) => (EVENT_CQ_ERR, objects.cqs.acquire(&id)),
        Event::QpRequestError(qpn) => (EVENT_QP_REQ_ERR, qp(qpn)),
        Event::QpAccessError(qpn) => (EVENT_QP_ACCESS_ERR, qp(qpn)),
        Event::QpFatal(qpn) => (EVENT_QP_FATAL, qp(qpn)),
        Event::CommEstablished(qpn) => (EVENT_COMM_EST, qp(qpn)),
        Event::SqDrained(qpn) => (EVENT_SQ_DRAINED, qp(qpn)),
        Event::LastWqeReached(qpn) => (EVENT_QP_LAST_WQE_REACHED, qp(qpn)),
        Event::SrqLimit(srqn) => (EVENT_SRQ_LIMIT_REACHED, objects.srqs.acquire(&srqn)),
        Event::PortActive => (EVENT_PORT_ACTIVE, port),
        Event::PortError => (EVENT_PORT_ERR, port),
        Event::GidChange => (EVENT_GID_CHANGE, port),
        Event::DeviceFatal => (EVENT_DEVICE_FATAL, Some(std::ptr::null_mut())),
        _ => return None,
    })
}

pub(crate) extern "C" fn ack_async_event(event: Out<IbvAsyncEvent>) {
    guard::nothing("ibv_ack_async_event", || {
        let IbvAsyncEvent {
            element,
            event_type,
        } = event.input().read()?;
        match event_type {
            EVENT_CQ_ERR => object::<IbvCq>(element).get()?.acknowledge_async_event(),
            EVENT_QP_FATAL
            | EVENT_QP_REQ_ERR
            | EVENT_QP_ACCESS_ERR
            | EVENT_COMM_EST
            | EVENT_SQ_DRAINED
            | EVENT_PATH_MIG
            | EVENT_PATH_MIG_ERR
            | EVENT_QP_LAST_WQE_REACHED => object::<IbvQp>(element).get()?.acknowledge(),
            EVENT_SRQ_ERR | EVENT_SRQ_LIMIT_REACHED => {
                object::<IbvSrq>(element).get()?.acknowledge();
            }
            // Events of the port and of the device have no object.
            _ => {}
        }
        Ok(())
    });
}

/// The object of an event, according to its type.
fn object<C>(element: *mut c_void) -> Handle<C> {
    Handle::from_ptr(element.cast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::Qpn;
    use roce_verbs::completion::CqId;
    use roce_verbs::qp::Srqn;
    use std::collections::BTreeSet;

    // shows: CA17-31-no-reregistration, CA17-32-no-port-change
    #[test]
    fn every_event_but_that_of_channels_has_a_number_of_its_own() {
        let objects = Registry::default();
        let events = Event::one_of_each(CqId(1), Qpn::QP1, Srqn::from_bits(1));
        let numbers: BTreeSet<u32> = events
            .into_iter()
            .filter_map(|event| Some(translate(&objects, event)?.0))
            .collect();
        assert_eq!(numbers.len(), events.len() - 1, "{numbers:?}");
        // LIDs, partition keys and subnet managers don't change, and no client registers again.
        assert!(
            [11, 12, 13, 17]
                .iter()
                .all(|number| !numbers.contains(number))
        );
    }
}
