//! The objects of a context that events or imports refer to.

use crate::handles::Handles;
use crate::prelude::*;
use crate::region::Region;
use roce_verbs::completion::CqId;
use roce_verbs::device::{CountedObject, Unacknowledged};
use roce_verbs::memory::DeviceMemory;
use roce_verbs::qp::Srqn;
use roce_verbs::{ProtectionDomain, Qpn};
use std::collections::HashMap;
use std::hash::Hash;

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

/// The state shared by all of C's pointers to a domain.
pub(crate) struct Domain {
    pub(crate) pd: ProtectionDomain,
    pub(crate) users: Users,
    pub(crate) handle: u32,
    pub(crate) _counted: CountedObject,
    /// For a parent domain, the PD and thread domain that it was created from.
    pub(crate) parts: Vec<Use>,
}

impl Domain {
    /// A user of the parent domain.
    ///
    /// # Errors
    /// `EINVAL` if it is a plain domain.
    pub(crate) fn use_as_parent(&self) -> Result<Use, Errno> {
        match self.parts.is_empty() {
            true => Err(with_reason(Errno::EINVAL, || {
                "parent_domain is a plain domain, and must be one of ibv_alloc_parent_domain"
                    .to_owned()
            })),
            false => Ok(self.users.add()),
        }
    }
}

/// The state shared by all of C's pointers to the same memory.
pub(crate) struct SharedDm {
    pub(crate) memory: DeviceMemory,
    /// Its regions.
    pub(crate) users: Users,
    pub(crate) handle: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destruction_of_an_object_waits_for_its_events() {
        let table = Table::<u32>::default();
        let unacknowledged = Arc::new(Unacknowledged::default());
        let mut object = 0_u8;
        table.insert(7, &raw mut object, &unacknowledged);
        assert_eq!(table.acquire(&8), None);
        assert_eq!(table.acquire(&7), Some((&raw mut object).cast()));
        std::thread::scope(|scope| {
            let removal = scope.spawn(|| table.remove(&7, || ()));
            while !unacknowledged.has_waiter() {
                assert!(!removal.is_finished(), "it does not wait");
                std::thread::yield_now();
            }
            unacknowledged.acknowledge(1);
        });
        assert_eq!(table.acquire(&7), None);
    }
}
