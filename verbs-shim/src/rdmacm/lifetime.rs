//! Creates, migrates and destroys IDs and event channels.

use super::channel::Channel;
use super::event::{acknowledge_sync_event, wait_for_acknowledgements};
use super::id::Id;
use super::table::{find, table};
use crate::prelude::*;
use std::net::SocketAddr;

pub(crate) extern "C" fn create_event_channel() -> *mut RdmaEventChannel {
    guard::pointer("rdma_create_event_channel", || {
        let channel = Channel::new()?;
        let part = channel.as_ptr();
        table()?.add_channel(channel);
        Ok(part)
    })
}

/// `rdma_destroy_event_channel`. IDs that still use the channel keep its descriptor open.
pub(crate) extern "C" fn destroy_event_channel(channel: *mut RdmaEventChannel) {
    guard::nothing("rdma_destroy_event_channel", || {
        table()?.remove_channel(channel)
    });
}

/// Creates an ID for C. Without a channel, each call waits for its event.
pub(super) fn create(
    channel: *mut RdmaEventChannel,
    context: *mut c_void,
    ps: u32,
    qp_type: u32,
) -> Result<Arc<Id>, Errno> {
    let table = table()?;
    let own = table.channel_or_new(channel)?;
    let is_sync = channel.is_null();
    let id = Id::create(&own, is_sync, context, ps, qp_type)?;
    if is_sync {
        table.add_channel(own);
    }
    table.ids.add(Arc::clone(&id));
    Ok(id)
}

pub(crate) extern "C" fn create_id(
    channel: *mut RdmaEventChannel,
    id: Out<*mut RdmaCmId>,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    guard::minus_one("rdma_create_id", || {
        id.get()?;
        let qp_type = if ps == PS_UDP { QPT_UD } else { QPT_RC };
        id.put(create(channel, context, ps, qp_type)?.as_ptr())
    })
}

/// `rdma_migrate_id`. Waits until the events from the old channel are acknowledged.
pub(crate) extern "C" fn migrate_id(id: *mut RdmaCmId, channel: *mut RdmaEventChannel) -> c_int {
    guard::minus_one("rdma_migrate_id", || {
        let id = find(id)?;
        let new = table()?.channel_or_new(channel)?;
        migrate(&id, new, channel.is_null())
    })
}

pub(super) fn migrate(id: &Id, new: Arc<Channel>, is_sync: bool) -> Result<(), Errno> {
    let part = new.as_ptr();
    if is_sync {
        table()?.add_channel(Arc::clone(&new));
    }
    id.cm.move_to(Arc::clone(&new.queue));
    id.c.set(|c| c.channel = part);
    let own = is_sync.then_some(new);
    let was_sync = std::mem::replace(&mut id.own.lock().sync_channel, own);
    if let Some(old) = was_sync {
        let acknowledged = acknowledge_sync_event(id);
        let _ = table()?.remove_channel(old.as_ptr());
        acknowledged?;
    }
    wait_for_acknowledgements(id, "rdma_migrate_id");
    Ok(())
}

/// `rdma_get_src_port`, in network order.
pub(crate) extern "C" fn get_src_port(id: *mut RdmaCmId) -> u16 {
    guard::value("rdma_get_src_port", 0, || port(find(id)?.cm.addresses().0))
}

/// `rdma_get_dst_port`, in network order.
pub(crate) extern "C" fn get_dst_port(id: *mut RdmaCmId) -> u16 {
    guard::value("rdma_get_dst_port", 0, || port(find(id)?.cm.addresses().1))
}

fn port(address: Option<SocketAddr>) -> Result<u16, Errno> {
    Ok(address.map_or(0, |address| address.port()).to_be())
}

/// `rdma_destroy_id`. Waits until the ID's events are acknowledged.
pub(crate) extern "C" fn destroy_id(id: *mut RdmaCmId) -> c_int {
    guard::minus_one("rdma_destroy_id", || destroy(id))
}

pub(super) fn destroy(id: *mut RdmaCmId) -> Result<(), Errno> {
    let table = table()?;
    let id = table.ids.remove(id)?;
    id.cm.destroy();
    let acknowledged = acknowledge_sync_event(&id);
    let own = id.own.lock().sync_channel.take();
    if let Some(own) = own {
        let _ = table.remove_channel(own.as_ptr());
    }
    acknowledged?;
    wait_for_acknowledgements(&id, "rdma_destroy_id");
    Ok(())
}
