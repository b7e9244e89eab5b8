//! The devices of IDs. A device is opened when the first ID uses it, and is never closed, because
//! programs keep using it.

use super::{Id, IdDevice, IdError};
use crate::cm::ConnectionManager;
use crate::device::{Context, Device, devices};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The IDs that own a device's connections or listeners.
pub(super) struct Owners<K>(Mutex<HashMap<K, Weak<Id>>>);

impl<K> Default for Owners<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Copy> Owners<K> {
    pub(super) fn insert(&self, key: K, owner: &Arc<Id>) {
        self.0.lock().insert(key, Arc::downgrade(owner));
    }

    /// As [`Owners::insert`], for the key that `make` creates. Lookups wait until it is inserted.
    pub(super) fn insert_with<E>(
        &self,
        owner: &Arc<Id>,
        make: impl FnOnce() -> Result<K, E>,
    ) -> Result<K, E> {
        let mut owners = self.0.lock();
        let key = make()?;
        owners.insert(key, Arc::downgrade(owner));
        Ok(key)
    }

    pub(super) fn find(&self, key: &K) -> Option<Arc<Id>> {
        self.0.lock().get(key)?.upgrade()
    }

    pub(super) fn remove(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

impl IdDevice {
    fn new(context: Context) -> Result<Arc<Self>, IdError> {
        let device = Arc::new(Self {
            manager: context.connection_manager()?,
            context,
            connections: Owners::default(),
            listeners: Owners::default(),
        });
        let weak = Arc::downgrade(&device);
        device.manager.set_sink(Box::new(move |event| {
            if let Some(device) = weak.upgrade() {
                device.handle_event(event);
            }
        }));
        Ok(device)
    }

    /// The open device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// A socket address, with the device's interface as its scope if it is link-local.
    pub(super) fn scoped(&self, address: IpAddr, port: u16) -> SocketAddr {
        match address {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                let index = self.context.device().interface().index;
                SocketAddrV6::new(ip, port, 0, index).into()
            }
            _ => SocketAddr::new(address, port),
        }
    }
}

/// The open devices of a program's IDs.
pub struct Devices {
    open: fn(&Device) -> Result<Context, IdError>,
    all: Mutex<Vec<Arc<IdDevice>>>,
}

debug_fields!(Devices);

impl Devices {
    /// No device yet. `open` opens those that IDs use.
    pub const fn new(open: fn(&Device) -> Result<Context, IdError>) -> Self {
        Self {
            open,
            all: Mutex::new(Vec::new()),
        }
    }

    /// The device whose interface has an address, opened if necessary. The scope of a link-local
    /// address selects among several.
    pub(super) fn with_address(&self, address: SocketAddr) -> Result<Arc<IdDevice>, IdError> {
        let scope = match address {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let all = devices()?;
        let found = all.iter().find(|device| {
            let interface = device.interface();
            let is_its = interface.addresses.contains(&address.ip());
            is_its && (scope == 0 || interface.index == scope)
        });
        self.opened(found.ok_or(IdError::NoSuchDevice(address.ip()))?)
    }

    /// All devices, without those that can't be opened.
    ///
    /// # Errors
    /// If the devices can't be listed, if this process or the system is short of what opening one
    /// needs, or if there are devices and none can be opened.
    pub fn all(&self) -> Result<Vec<Arc<IdDevice>>, IdError> {
        let all = devices()?;
        let mut opened = Vec::with_capacity(all.len());
        let mut failed = None;
        for device in &all {
            match self.opened(device) {
                Ok(device) => opened.push(device),
                Err(error) if error.is_shortage() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if opened.is_empty() => Err(error),
            _ => Ok(opened),
        }
    }

    fn opened(&self, device: &Device) -> Result<Arc<IdDevice>, IdError> {
        let mut all = self.all.lock();
        let of = |device: &Device| (device.name().to_owned(), device.interface().index);
        let wanted = of(device);
        let before = all
            .iter()
            .find(|known| of(known.context.device()) == wanted);
        if let Some(found) = before {
            return Ok(Arc::clone(found));
        }
        let new = IdDevice::new((self.open)(device)?)?;
        all.push(Arc::clone(&new));
        Ok(new)
    }

    /// Disconnects all connections, for a process that is about to end. Waits at most `timeout`.
    pub fn disconnect_all(&self, timeout: Duration) {
        // The exiting thread itself may hold the lock.
        let Some(all) = self.all.try_lock_for(timeout) else {
            return;
        };
        let managers: Vec<_> = all
            .iter()
            .map(|device| Arc::clone(&device.manager))
            .collect();
        drop(all);
        ConnectionManager::leave(&managers, timeout);
    }

    /// Makes the background threads handle packets from now on, because the program is about to
    /// wait.
    pub fn hand_over(&self) {
        let all: Vec<_> = self.all.lock().iter().map(Arc::clone).collect();
        for device in all {
            device.context.hand_over();
        }
    }
}
