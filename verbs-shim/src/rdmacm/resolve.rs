//! Binds IDs to local addresses, and resolves the addresses of their peers.

use super::event::wait_if_sync;
use super::sockaddr;
use super::table::{find, table};
use crate::device::null_terminated;
use crate::prelude::*;

pub(crate) extern "C" fn bind_addr(id: *mut RdmaCmId, address: In<u8>) -> c_int {
    guard::minus_one("rdma_bind_addr", || {
        let (id, table) = (find(id)?, table()?);
        let address = sockaddr::read(address)?;
        id.cm.bind(&table.devices, address).or_errno()?;
        table.update(&id)
    })
}

/// `rdma_resolve_addr`. The result is available immediately, so the timeout has no effect.
pub(crate) extern "C" fn resolve_addr(
    id: *mut RdmaCmId,
    source: In<u8>,
    destination: In<u8>,
    _timeout_ms: c_int,
) -> c_int {
    guard::minus_one("rdma_resolve_addr", || {
        let (id, table) = (find(id)?, table()?);
        let source = sockaddr::read_if_given(source)?;
        let destination = sockaddr::read(destination)?;
        let resolved = id.cm.resolve_addr(&table.devices, source, destination);
        let event = resolved.or_errno()?;
        table.update(&id)?;
        event.deliver();
        wait_if_sync(&id)
    })
}

/// `rdma_get_devices`: a NULL-terminated array of contexts.
pub(crate) extern "C" fn get_devices(count: Out<c_int>) -> *mut Handle<IbvContext> {
    guard::pointer("rdma_get_devices", || {
        count.put_if_not_null(0);
        let table = table()?;
        let found = table.devices.all().or_errno()?;
        let handles: Result<Vec<_>, Errno> = found
            .iter()
            .map(|device| Ok(table.opened(device.context())?.context))
            .collect();
        null_terminated(handles?, count)
    })
}

/// `rdma_free_devices`. The contexts stay open.
pub(crate) extern "C" fn free_devices(list: *mut Handle<IbvContext>) {
    // SAFETY: the caller has it from `get_devices`, which allocated it, or it is NULL.
    unsafe { libc::free(list.cast()) };
}

pub(crate) extern "C" fn resolve_route(id: *mut RdmaCmId, _timeout_ms: c_int) -> c_int {
    guard::minus_one("rdma_resolve_route", || {
        let id = find(id)?;
        let event = id.cm.resolve_route().or_errno()?;
        id.fill_route()?;
        event.deliver();
        wait_if_sync(&id)
    })
}
