//! The connection manager's objects, by their addresses in C. At an address that is not in the
//! table, there is no object: it was destroyed, or belongs to another process.

use super::channel::Channel;
use super::device::{CmDevice, refused};
use super::id::Id;
use crate::prelude::*;
use roce_trust::fork::{self, PerProcess};
use roce_verbs::device::Unacknowledged;
use roce_verbs::rdma_cm::{Devices, IdError};
use std::collections::{HashMap, VecDeque};

/// Objects of one kind, by the addresses of the parts that C sees.
pub(super) struct ByAddress<T>(Mutex<HashMap<usize, Arc<T>>>);

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ByAddress<T> {
    pub(super) fn add(&self, object: Arc<T>) {
        let address = Arc::as_ptr(&object) as usize;
        self.0.lock().insert(address, object);
    }

    /// The results of `select` for the objects that it selects.
    pub(super) fn select<R>(&self, select: impl Fn(&T) -> Option<R>) -> Vec<R> {
        let objects = self.0.lock();
        objects
            .values()
            .filter_map(|object| select(object))
            .collect()
    }

    /// # Errors
    /// `EINVAL` if there is none at the address.
    pub(super) fn find<C>(&self, part: *const C) -> Result<Arc<T>, Errno> {
        let objects = self.0.lock();
        let found = objects.get(&(part as usize)).map(Arc::clone);
        found.ok_or_else(|| unknown(part))
    }

    /// Removes an object.
    ///
    /// # Errors
    /// `EINVAL` if there is none: of several concurrent calls, only one finds it.
    pub(super) fn remove<C>(&self, part: *const C) -> Result<Arc<T>, Errno> {
        let removed = self.0.lock().remove(&(part as usize));
        removed.ok_or_else(|| unknown(part))
    }
}

fn unknown<C>(part: *const C) -> Errno {
    with_reason(Errno::EINVAL, || match part.is_null() {
        true => "the pointer is NULL".to_owned(),
        false => format!(
            "there is no object at {part:p}: it was destroyed, or is the parent's in a forked child"
        ),
    })
}

/// The addresses of blocking channels that were destroyed last, the oldest first. No other channel
/// has been there since.
#[derive(Default)]
struct Destroyed(Mutex<VecDeque<usize>>);

impl Destroyed {
    const MAX: usize = 1024;

    fn add(&self, address: usize) {
        let mut addresses = self.0.lock();
        addresses.push_back(address);
        if addresses.len() > Self::MAX {
            addresses.pop_front();
        }
    }

    fn contains(&self, address: usize) -> bool {
        self.0.lock().contains(&address)
    }

    fn forget(&self, address: usize) {
        self.0.lock().retain(|known| *known != address);
    }
}

/// An event that C has and has not acknowledged yet.
#[repr(C)]
pub(super) struct DeliveredEvent {
    pub(super) c: CPart<RdmaCmEvent>,
    /// The private data, to which `c` points.
    pub(super) _private: Vec<u8>,
    /// The counter of the ID that the acknowledgement decrements; `None` once acknowledged.
    pub(super) unacknowledged: Mutex<Option<Arc<Unacknowledged>>>,
}

impl DeliveredEvent {
    /// Acknowledges the event, unless it is acknowledged already.
    pub(super) fn acknowledge(&self) {
        if let Some(unacknowledged) = self.unacknowledged.lock().take() {
            unacknowledged.acknowledge(1);
        }
    }
}

/// All objects of a process.
pub(super) struct Table {
    pub(super) ids: ByAddress<Id>,
    pub(super) channels: ByAddress<Channel>,
    destroyed_channels: Destroyed,
    pub(super) events: ByAddress<DeliveredEvent>,
    pub(super) devices: Devices,
    /// The devices as C sees them.
    opened: Mutex<Vec<Arc<CmDevice>>>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            ids: ByAddress::default(),
            channels: ByAddress::default(),
            destroyed_channels: Destroyed::default(),
            events: ByAddress::default(),
            devices: Devices::new(open_device),
            opened: Mutex::default(),
        }
    }
}

impl Table {
    pub(super) fn add_channel(&self, channel: Arc<Channel>) {
        self.destroyed_channels.forget(channel.as_ptr() as usize);
        self.channels.add(channel);
    }

    /// The channel of an ID that the program gives this one. If it is NULL, a new one, to be added to the table
    /// as soon as nothing else can fail.
    ///
    /// # Errors
    /// `EINVAL` if there is none at the address; the system's error if it has no descriptor left.
    pub(super) fn channel_or_new(
        &self,
        part: *const RdmaEventChannel,
    ) -> Result<Arc<Channel>, Errno> {
        if !part.is_null() {
            return self.channels.find(part);
        }
        Channel::new()
    }

    /// The channel at an address; `None` if a blocking channel was destroyed there. A thread of the
    /// program that comes to wait at such a channel, or waits at it already, waits for ever: see
    /// [`wait::NEVER`](crate::wait::NEVER).
    ///
    /// # Errors
    /// `EINVAL` if there was none.
    pub(super) fn find_channel(
        &self,
        part: *const RdmaEventChannel,
    ) -> Result<Option<Arc<Channel>>, Errno> {
        match self.channels.find(part) {
            Ok(channel) => Ok(Some(channel)),
            Err(_) if self.destroyed_channels.contains(part as usize) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// An open device as C sees it.
    ///
    /// # Errors
    /// `ENODEV` if it is none of the table's.
    pub(super) fn opened(&self, device: &roce_verbs::Context) -> Result<Arc<CmDevice>, Errno> {
        let opened = self.opened.lock();
        let mut all = opened.iter();
        let found = all.find(|known| known.is(device.device()));
        found.map(Arc::clone).ok_or(Errno::ENODEV)
    }

    /// Updates the part of an ID that C sees.
    pub(super) fn update(&self, id: &Id) -> Result<(), Errno> {
        let device = id.cm.device().ok();
        let opened = device.map(|device| self.opened(device.context()));
        id.update_c_part(opened.transpose()?.as_deref());
        Ok(())
    }

    /// Removes a channel that is destroyed.
    ///
    /// # Errors
    /// `EINVAL` if there is none at the address.
    pub(super) fn remove_channel(&self, part: *const RdmaEventChannel) -> Result<(), Errno> {
        let channel = self.channels.find(part)?;
        if channel.is_blocking().unwrap_or(true) {
            // First, so that no thread finds neither.
            self.destroyed_channels.add(part as usize);
        }
        self.channels.remove(part).map(drop)
    }
}

/// Opens a device for the IDs of this process.
fn open_device(device: &roce_verbs::Device) -> Result<roce_verbs::Context, IdError> {
    let opened = || {
        let new = CmDevice::open(device)?;
        let roce = new.context.get()?.state.roce.clone();
        table()?.opened.lock().push(Arc::new(new));
        Ok(roce)
    };
    opened().map_err(refused)
}

static TABLE: PerProcess<Table> = PerProcess::new();

/// The table of this process. A forked child gets a new one, because its parent's objects do not
/// belong to it, and because a lock that another thread held at the fork stays locked.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn table() -> Result<&'static Table, Errno> {
    fork::register_handler().or_errno()?;
    Ok(TABLE.get())
}

pub(super) fn find(id: *mut RdmaCmId) -> Result<Arc<Id>, Errno> {
    table()?.ids.find(id)
}

/// The table of this process, if it exists; never its parent's. Takes no lock and allocates
/// nothing.
pub(super) fn existing() -> Option<&'static Table> {
    TABLE.existing()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn what_was_removed_is_not_found() {
        let known = ByAddress::default();
        let object = Arc::new(7_u32);
        let address = Arc::as_ptr(&object);
        assert_eq!(known.find(address), Err(Errno::EINVAL));
        known.add(object);
        assert_eq!(known.find(address).as_deref(), Ok(&7));
        assert_eq!(known.remove(address).as_deref(), Ok(&7));
        assert_eq!(known.remove(address), Err(Errno::EINVAL));
        assert_eq!(known.find(ptr::null::<u32>()), Err(Errno::EINVAL));
    }

    /// Nobody waits for ever at an address because another channel was there.
    #[test]
    fn a_channel_at_the_address_of_a_destroyed_one_is_a_new_one() {
        let table = table().expect("memory");
        let channel = Channel::new().expect("a descriptor");
        let part = channel.as_ptr();
        table.add_channel(Arc::clone(&channel));
        assert_eq!(table.remove_channel(part), Ok(()));
        let finds = || table.find_channel(part).map(|found| found.is_some());
        assert_eq!(finds(), Ok(false));
        // SAFETY: only numbers are passed, and the channel exists.
        unsafe { nix::libc::fcntl((*part).fd, nix::libc::F_SETFL, nix::libc::O_NONBLOCK) };
        table.add_channel(channel);
        assert_eq!(finds(), Ok(true));
        assert_eq!(table.remove_channel(part), Ok(()));
        assert_eq!(finds(), Err(Errno::EINVAL));
    }

    #[test]
    fn the_destroyed_channels_that_are_known_are_bounded() {
        let destroyed = Destroyed::default();
        (0..=Destroyed::MAX).for_each(|address| destroyed.add(address));
        assert!(!destroyed.contains(0));
        assert!(destroyed.contains(1) && destroyed.contains(Destroyed::MAX));
    }

    #[test]
    fn a_process_has_one_table() {
        let [one, other] = [table(), table()].map(|table| table.expect("memory"));
        assert!(ptr::eq(one, other));
    }
}
