//! The listeners of an agent.

use crate::{Addresses, CmError, ListenerId, ServiceId};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// All listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_service: BTreeMap<(ServiceId, Addresses), ListenerId>,
    by_id: BTreeMap<ListenerId, Listener>,
    last: u32,
}

#[derive(Debug)]
struct Listener {
    service: ServiceId,
    local: Addresses,
    /// Free places in the backlog.
    places: usize,
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
        self.last += 1;
        let id = ListenerId(self.last);
        self.by_service.insert((service, local), id);
        let listener = Listener {
            service,
            local,
            places: backlog,
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

    /// Takes a place in the backlog, if one is free.
    pub(super) fn take_place(&mut self, id: ListenerId) -> bool {
        match self.by_id.get_mut(&id) {
            Some(listener) if listener.places > 0 => {
                listener.places -= 1;
                true
            }
            _ => false,
        }
    }

    /// Frees a place in the backlog.
    pub(super) fn give_place(&mut self, id: ListenerId) {
        if let Some(listener) = self.by_id.get_mut(&id) {
            listener.places += 1;
        }
    }
}
