//! The devices of IDs, whose type is `T`. A device is opened when the first ID uses it, and is never closed, because
//! programs keep using the contexts that they get.

use crate::context;
use crate::device::Device;
use crate::errors::{created, is_shortage};
use crate::pd;
use crate::prelude::*;
use crate::xrc;
use roce_verbs::cm::ConnectionManager;
use roce_verbs::device::{Gid, RoceVersion};
use roce_verbs::roce_cm::{ConnectionId, Event, ListenerId};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Weak;
use std::time::Duration;

pub(super) struct CmDevice<T> {
    device: Handle<IbvDevice>,
    context: Handle<IbvContext>,
    /// The default protection domain.
    pd: Handle<IbvPd>,
    /// The default XRC domain, opened on first use.
    xrcd: Mutex<Handle<IbvXrcd>>,
    pub(super) manager: Arc<ConnectionManager>,
    pub(super) connections: Owners<ConnectionId, T>,
    pub(super) listeners: Owners<ListenerId, T>,
}

/// An ID, which receives the events of its device's connection manager.
pub(super) trait Sink: Send + Sync + Sized + 'static {
    fn handle_event(device: &Arc<CmDevice<Self>>, event: Event);
}

/// The IDs that own a device's connections or listeners.
pub(super) struct Owners<K, T>(Mutex<HashMap<K, Weak<T>>>);

impl<K, T> Default for Owners<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + std::hash::Hash, T> Owners<K, T> {
    pub(super) fn insert(&self, key: K, owner: &Arc<T>) {
        self.0.lock().insert(key, Arc::downgrade(owner));
    }

    /// As [`Owners::insert`], for the key that `make` creates. Lookups wait until it is inserted.
    pub(super) fn insert_with<E>(
        &self,
        owner: &Arc<T>,
        make: impl FnOnce() -> Result<K, E>,
    ) -> Result<K, E>
    where
        K: Copy,
    {
        let mut owners = self.0.lock();
        let key = make()?;
        owners.insert(key, Arc::downgrade(owner));
        Ok(key)
    }

    pub(super) fn find(&self, key: &K) -> Option<Arc<T>> {
        self.0.lock().get(key)?.upgrade()
    }

    pub(super) fn remove(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

impl<T: Sink> CmDevice<T> {
    fn open(device: Handle<IbvDevice>) -> Result<Arc<Self>, Errno> {
        let context = created(context::open_device(device))?;
        let opened = || {
            let pd = created(pd::alloc_pd(context))?;
            let manager = context.get()?.state.roce.connection_manager().or_errno()?;
            Ok((pd, manager))
        };
        let (pd, manager) = opened().inspect_err(|_| {
            context::close_device(context);
        })?;
        let opened = Arc::new(Self {
            device,
            context,
            pd,
            xrcd: Mutex::new(Handle::NULL),
            manager,
            connections: Owners::default(),
            listeners: Owners::default(),
        });
        let weak = Arc::downgrade(&opened);
        opened.manager.set_sink(Box::new(move |event| {
            if let Some(device) = weak.upgrade() {
                T::handle_event(&device, event);
            }
        }));
        Ok(opened)
    }

    pub(super) fn handles(&self) -> (Handle<IbvContext>, Handle<IbvPd>) {
        (self.context, self.pd)
    }

    /// The default XRC domain. It stays open.
    ///
    /// # Errors
    /// `ENODEV` in a child process.
    pub(super) fn xrcd(&self) -> Result<Handle<IbvXrcd>, Errno> {
        let mut xrcd = self.xrcd.lock();
        if xrcd.as_ptr().is_null() {
            let attr = IbvXrcdInitAttr {
                comp_mask: XRCD_INIT_ATTR_FD | XRCD_INIT_ATTR_OFLAGS,
                fd: -1,
                oflags: libc::O_CREAT,
            };
            *xrcd = created(xrc::open_xrcd(self.context, In::at(&raw const attr as u64)))?;
        }
        Ok(*xrcd)
    }

    /// The context.
    ///
    /// # Errors
    /// `ENODEV` in a child process.
    pub(super) fn roce(&self) -> Result<&roce_verbs::Context, Errno> {
        Ok(&self.context.get()?.state.roce)
    }

    /// The index of an address in the GID table. Prefers the RoCE v2 entry.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` if the interface has lost the address.
    pub(super) fn gid_index(&self, address: IpAddr) -> Result<u8, Errno> {
        let gids = self.roce()?.gids();
        let ours = || gids.iter().filter(|entry| entry.gid == Gid::from(address));
        let v2 = ours().find(|entry| entry.version == RoceVersion::V2);
        let found = v2.or_else(|| ours().next());
        found.map(|entry| entry.index).ok_or(Errno::EADDRNOTAVAIL)
    }
}

pub(super) struct Devices<T>(Mutex<Vec<Arc<CmDevice<T>>>>);

impl<T> Default for Devices<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Sink> Devices<T> {
    /// The device whose interface has an address, opened if necessary. The scope of a link-local
    /// address selects among several.
    ///
    /// # Errors
    /// `ENODEV` if there is none, or the error of opening it.
    pub(super) fn with_address(&self, address: SocketAddr) -> Result<Arc<CmDevice<T>>, Errno> {
        let scope = match address {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let all = roce_verbs::device::devices().or_errno()?;
        let found = all.iter().find(|device| {
            let interface = device.interface();
            let is_its = interface.addresses.contains(&address.ip());
            is_its && (scope == 0 || interface.index == scope)
        });
        let found = found.ok_or_else(|| {
            with_reason(Errno::ENODEV, || {
                format!(
                    "no RoCE device has the address {}; `roce devices` lists those that there are",
                    address.ip()
                )
            })
        })?;
        self.opened(found)
    }

    /// All devices, without those that can't be opened.
    ///
    /// # Errors
    /// If the devices can't be listed, if this process or the system is short of what opening one
    /// needs, or if there are devices and none can be opened.
    pub(super) fn all(&self) -> Result<Vec<Arc<CmDevice<T>>>, Errno> {
        let all = roce_verbs::device::devices().or_errno()?;
        let mut opened = Vec::with_capacity(all.len());
        let mut failed = None;
        for device in &all {
            match self.opened(device) {
                Ok(device) => opened.push(device),
                Err(errno) if is_shortage(errno) => return Err(errno),
                Err(errno) => failed = failed.or(Some(errno)),
            }
        }
        match failed {
            Some(errno) if opened.is_empty() => Err(errno),
            _ => Ok(opened),
        }
    }

    fn opened(&self, device: &roce_verbs::Device) -> Result<Arc<CmDevice<T>>, Errno> {
        let device = Handle::of(Device::find_or_create(device));
        let mut open = self.0.lock();
        let before = open
            .iter()
            .find(|known| known.device.as_ptr() == device.as_ptr());
        if let Some(found) = before {
            return Ok(Arc::clone(found));
        }
        let new = CmDevice::open(device)?;
        open.push(Arc::clone(&new));
        Ok(new)
    }

    /// Disconnects all connections. Waits at most `timeout` for the lock.
    pub(super) fn disconnect_all(&self, timeout: Duration) {
        // The exiting thread itself may hold the lock.
        let Some(open) = self.0.try_lock_for(timeout) else {
            return;
        };
        let managers: Vec<_> = open
            .iter()
            .map(|device| Arc::clone(&device.manager))
            .collect();
        drop(open);
        ConnectionManager::leave(&managers, timeout);
    }

    /// Makes the background threads handle packets from now on, because the program is about to
    /// wait.
    pub(super) fn hand_over(&self) {
        let open: Vec<_> = self.0.lock().iter().map(Arc::clone).collect();
        for device in open {
            if let Ok(roce) = device.roce() {
                roce.hand_over();
            }
        }
    }
}
