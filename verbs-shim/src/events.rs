//! Asynchronous events.

use crate::objects::Registry;
use crate::prelude::*;
use crate::wait::{self, Found, blocks};
use roce_verbs::Qpn;
use roce_verbs::completion::CqId;
use roce_verbs::device::Event;
use roce_verbs::qp::Srqn;
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
            if let Some(translated) = c_event(&state.objects, found) {
                return event.put(translated).map(Found::Now);
            }
        }
    })
}

/// An event in C's form; `None` if its object was destroyed, or if C has no such event.
fn c_event(objects: &Registry, event: Event) -> Option<IbvAsyncEvent> {
    let (element, event_type) = translate(event)?;
    Some(IbvAsyncEvent {
        element: match element {
            Element::Cq(id) => objects.cqs.acquire(&id)?,
            Element::Qp(qpn) => objects.qps.acquire(&qpn)?,
            Element::Srq(srqn) => objects.srqs.acquire(&srqn)?,
            // The number of the only port.
            Element::Port => std::ptr::without_provenance_mut(1),
            Element::Device => std::ptr::null_mut(),
        },
        event_type,
    })
}

/// The object that an event is about.
enum Element {
    Cq(CqId),
    Qp(Qpn),
    Srq(Srqn),
    Port,
    Device,
}

/// The object and the C number of an event. `None` for [`Event::CqNotify`], which a completion
/// channel reports, and for an event missing from this table; a test checks that none is missing.
fn translate(event: Event) -> Option<(Element, u32)> {
    let translated = match event {
        Event::CqError(id) => (Element::Cq(id), EVENT_CQ_ERR),
        Event::QpRequestError(qpn) => (Element::Qp(qpn), EVENT_QP_REQ_ERR),
        Event::QpAccessError(qpn) => (Element::Qp(qpn), EVENT_QP_ACCESS_ERR),
        Event::QpFatal(qpn) => (Element::Qp(qpn), EVENT_QP_FATAL),
        Event::CommEstablished(qpn) => (Element::Qp(qpn), EVENT_COMM_EST),
        Event::SqDrained(qpn) => (Element::Qp(qpn), EVENT_SQ_DRAINED),
        Event::LastWqeReached(qpn) => (Element::Qp(qpn), EVENT_QP_LAST_WQE_REACHED),
        Event::SrqLimit(srqn) => (Element::Srq(srqn), EVENT_SRQ_LIMIT_REACHED),
        Event::PortActive => (Element::Port, EVENT_PORT_ACTIVE),
        Event::PortError => (Element::Port, EVENT_PORT_ERR),
        Event::GidChange => (Element::Port, EVENT_GID_CHANGE),
        Event::DeviceFatal => (Element::Device, EVENT_DEVICE_FATAL),
        _ => return None,
    };
    Some(translated)
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
    use std::collections::BTreeSet;

    // shows: CA17-31-no-reregistration, CA17-32-no-port-change
    #[test]
    fn every_event_but_that_of_channels_has_a_number_of_its_own() {
        let events = Event::one_of_each(CqId(1), Qpn::QP1, Srqn::from_bits(1));
        let numbers: BTreeSet<u32> = events
            .into_iter()
            .filter_map(|event| Some(translate(event)?.1))
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
