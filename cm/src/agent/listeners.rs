//! The listeners of an agent.

use crate::{Addresses, CmError, ListenerId, ServiceId};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// All listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_service: BTreeMap<(ServiceId, Addresses), ListenerId>,
    by_id: BTreeMap<ListenerId, Listener>,
    last_id: u32,
}

#[derive(Debug)]
struct Listener {
    service: ServiceId,
    local: Addresses,
    /// Free slots in the backlog.
    free_slots: usize,
}

impl Listeners {
    pub(super) fn add(
        &mut self,
        service: ServiceId,
        local: Addresses,
        backlog: usize,
    ) -> Result<ListenerId, CmError> {
        if self.by_service.contains_key(&(service, local)) {
            return Err(CmError::ServiceInUse { service });
        }
        self.last_id += 1;
        let id = ListenerId(self.last_id);
        self.by_service.insert((service, local), id);
        let listener = Listener {
            service,
            local,
            free_slots: backlog,
        };
        self.by_id.insert(id, listener);
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: ListenerId) {
        if let Some(listener) = self.by_id.remove(&id) {
            self.by_service.remove(&(listener.service, listener.local));
        }
    }

    /// The listener for a request that was sent to `local`.
    pub(super) fn find(&self, service: ServiceId, local: IpAddr) -> Option<ListenerId> {
        let of = |local| self.by_service.get(&(service, local)).copied();
        let family = match local {
            IpAddr::V4(_) => Addresses::V4,
            IpAddr::V6(_) => Addresses::V6,
        };
        let candidates = [Addresses::One(local), family, Addresses::All];
        candidates.into_iter().find_map(of)
    }

    /// Takes a slot of the backlog. Returns `false` if no slot is free.
    pub(super) fn take_slot(&mut self, id: ListenerId) -> bool {
        match self.by_id.get_mut(&id) {
            Some(listener) if listener.free_slots > 0 => {
                listener.free_slots -= 1;
                true
            }
            _ => false,
        }
    }

    /// Frees a slot of the backlog.
    pub(super) fn release_slot(&mut self, id: ListenerId) {
        if let Some(listener) = self.by_id.get_mut(&id) {
            listener.free_slots += 1;
        }
    }
}
