//! Creates, migrates and destroys IDs and event channels.

use super::channel::Channel;
use super::event::acknowledge_sync_event;
use super::id::{Id, IdParams, PendingEvent, State, space};
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
    let space = space(ps)?;
    let id = Id::new(IdParams {
        channel: table.channel_or_new(channel)?,
        sync: channel.is_null(),
        context,
        space,
        qp_type,
    })?;
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

pub(super) fn migrate(
    id: &Arc<Id>,
    new: Arc<Channel<PendingEvent>>,
    sync: bool,
) -> Result<(), Errno> {
    let table = table()?;
    let old = id.channel();
    id.move_to(new);
    let was_sync = std::mem::replace(&mut id.inner.lock().sync, sync);
    if was_sync {
        acknowledge_sync_event(id)?;
        let _ = table.remove_channel(old.as_ptr());
    }
    id.wait_for_acknowledgements("rdma_migrate_id");
    Ok(())
}

/// `rdma_get_src_port`, in network order.
pub(crate) extern "C" fn get_src_port(id: *mut RdmaCmId) -> u16 {
    guard::value("rdma_get_src_port", 0, || {
        port(find(id)?.inner.lock().local)
    })
}

/// `rdma_get_dst_port`, in network order.
pub(crate) extern "C" fn get_dst_port(id: *mut RdmaCmId) -> u16 {
    guard::value("rdma_get_dst_port", 0, || {
        port(find(id)?.inner.lock().remote)
    })
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
    detach(&id);
    for event in id.leave() {
        if let Some(child) = event.child {
            detach(&child);
            child.leave();
        }
    }
    acknowledge_sync_event(&id)?;
    if id.inner.lock().sync {
        let _ = table.remove_channel(id.channel().as_ptr());
    }
    id.wait_for_acknowledgements("rdma_destroy_id");
    Ok(())
}

/// Detaches the ID from the connection manager, which delivers no more events for it.
fn detach(id: &Arc<Id>) {
    let mut inner = id.inner.lock();
    let connection = inner.connection.take();
    if let (Some(device), Some(connection)) = (&inner.device, connection) {
        device
            .manager
            .with(|agent, now| agent.forget(now, connection));
        device.connections.remove(&connection);
    }
    inner.stop_listening();
    inner.claim = None;
    inner.state = State::Closed;
}
