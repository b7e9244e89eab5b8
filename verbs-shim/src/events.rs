//! Asynchronous events, and the number of those that a program has not acknowledged yet.

use crate::context::blocks;
use crate::dm::SharedDm;
use crate::handles::Handles;
use crate::mr::Region;
use crate::pd::Domain;
use crate::prelude::*;
use crate::wait::{self, Found};
use parking_lot::Condvar;
use roce_verbs::Qpn;
use roce_verbs::completion::CqId;
use roce_verbs::device::Event;
use roce_verbs::observation::{WaitSnapshot, show_waits};
use roce_verbs::qp::Srqn;
use std::collections::HashMap;
use std::hash::Hash;
use std::os::fd::AsFd;

/// The number of an object's delivered events that the program has not acknowledged yet. Destroying
/// the object waits until it is 0.
#[derive(Debug, Default)]
pub(crate) struct Unacknowledged {
    count: Mutex<u64>,
    acknowledged: Condvar,
}

impl Unacknowledged {
    /// Counts an event that was delivered.
    pub(crate) fn increment(&self) {
        *self.count.lock() += 1;
    }

    /// Acknowledges `events` events, or all of them if `events` exceeds their number.
    pub(crate) fn acknowledge(&self, events: u64) {
        let mut count = self.count.lock();
        *count = count.saturating_sub(events);
        self.acknowledged.notify_all();
    }

    /// Waits until all are acknowledged. Meanwhile `roce why` shows which `call` waits, and for what.
    pub(crate) fn wait_for_all(&self, call: &str, events: &str) {
        let mut count = self.count.lock();
        if *count == 0 {
            return;
        }
        let wait = WaitSnapshot {
            what: format!(
                "{call} waits until the program has acknowledged {} of the object's events{events}",
                *count
            ),
            likely: None,
            advice:
                "acknowledge each event that was taken (rdma_ack_cm_event, ibv_ack_async_event, \
                     ibv_ack_cq_events) before the object is destroyed, or from another thread"
                    .to_owned(),
        };
        let _shown = show_waits(move || vec![wait.clone()]);
        self.acknowledged.wait_while(&mut count, |count| *count > 0);
    }
}

/// The objects of one kind that events may refer to.
pub(crate) struct Table<K> {
    entries: Mutex<HashMap<K, Entry>>,
}

struct Entry {
    /// The object's address in C.
    object: usize,
    unacknowledged: Arc<Unacknowledged>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash> Table<K> {
    /// Adds an object, whose events are delivered from now on.
    pub(crate) fn insert<T>(&self, key: K, object: *mut T, unacknowledged: &Arc<Unacknowledged>) {
        let entry = Entry {
            object: object as usize,
            unacknowledged: Arc::clone(unacknowledged),
        };
        self.entries.lock().insert(key, entry);
    }

    /// Stops delivering events of an object, calls `end`, which withdraws those that the program has
    /// not got, and waits until the others are acknowledged.
    pub(crate) fn remove(&self, key: &K, end: impl FnOnce()) {
        let entry = self.entries.lock().remove(key);
        end();
        if let Some(entry) = entry {
            entry
                .unacknowledged
                .wait_for_all("destroying an object", "");
        }
    }

    /// Returns the object that an event refers to, and increments its count of unacknowledged
    /// events. Returns `None` if the object was destroyed.
    pub(crate) fn acquire(&self, key: &K) -> Option<*mut c_void> {
        let entries = self.entries.lock();
        let entry = entries.get(key)?;
        entry.unacknowledged.increment();
        Some(entry.object as *mut c_void)
    }
}

/// The objects of a context that events or imports refer to.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) qps: Table<Qpn>,
    pub(crate) cqs: Table<CqId>,
    /// CQs, for their completion events; `cqs` is for their asynchronous events.
    pub(crate) completions: Table<CqId>,
    pub(crate) srqs: Table<Srqn>,
    pub(crate) regions: Handles<Region>,
    pub(crate) domains: Handles<Domain>,
    pub(crate) device_memory: Handles<SharedDm>,
}

impl Registry {
    /// Closes all regions, domains and device memory. From then on, the NIC accesses no memory of
    /// the program.
    pub(crate) fn close(&self) {
        for region in self.regions.drain() {
            region.close();
        }
        self.domains.drain();
        self.device_memory.drain();
    }
}

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

    #[test]
    fn an_object_waits_for_its_events_to_be_acknowledged() {
        let table = Table::<u32>::default();
        let unacknowledged = Arc::new(Unacknowledged::default());
        let mut object = 0_u8;
        table.insert(7, &raw mut object, &unacknowledged);
        assert_eq!(table.acquire(&8), None);
        assert_eq!(table.acquire(&7), Some((&raw mut object).cast()));
        assert!(table.acquire(&7).is_some());
        std::thread::scope(|scope| {
            let removal = scope.spawn(|| table.remove(&7, || ()));
            // A thread that waits is woken up, and waits on.
            while unacknowledged.acknowledged.notify_all() == 0 {
                assert!(!removal.is_finished(), "it does not wait");
                std::thread::yield_now();
            }
            unacknowledged.acknowledge(1);
            assert_eq!(*unacknowledged.count.lock(), 1);
            unacknowledged.acknowledge(1);
        });
        unacknowledged.increment();
        unacknowledged.acknowledge(u64::MAX);
        unacknowledged.wait_for_all("", "");
        assert_eq!(table.acquire(&7), None);
    }

    #[test]
    fn every_event_but_that_of_channels_has_a_number_of_its_own() {
        let events = Event::one_of_each(CqId(1), Qpn::QP1, Srqn::from_bits(1));
        let numbers: BTreeSet<u32> = events
            .into_iter()
            .filter_map(|event| Some(translate(event)?.1))
            .collect();
        assert_eq!(numbers.len(), events.len() - 1, "{numbers:?}");
    }
}
