//! The program's descriptors that are sockets or epoll instances.

use crate::inside::is_inside;
use crate::interest::Epoll;
use crate::kinds::{self, Kind};
use crate::socket::Socket;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) sockets: BTreeMap<c_int, Arc<Socket>>,
    pub(crate) epolls: BTreeMap<c_int, Arc<Epoll>>,
}

static TABLE: RwLock<Table> = RwLock::new(Table {
    sockets: BTreeMap::new(),
    epolls: BTreeMap::new(),
});

fn read() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the table for a change or a fork.
pub(crate) fn write() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// The socket of a descriptor, if it is tracked. librdmacm, which scans all descriptors at a fork,
/// sees none.
#[inline]
pub(crate) fn socket(fd: c_int) -> Option<Arc<Socket>> {
    if kinds::get(fd) != Kind::Socket || is_inside() {
        return None;
    }
    read().sockets.get(&fd).cloned()
}

#[inline]
pub(crate) fn epoll(fd: c_int) -> Option<Arc<Epoll>> {
    if kinds::get(fd) != Kind::Epoll || is_inside() {
        return None;
    }
    read().epolls.get(&fd).cloned()
}

/// All epoll instances.
pub(crate) fn epolls() -> Vec<(c_int, Arc<Epoll>)> {
    let table = read();
    let all = table.epolls.iter();
    all.map(|(fd, epoll)| (*fd, epoll.clone())).collect()
}

impl Table {
    fn all_sockets(&self) -> Vec<(c_int, Arc<Socket>)> {
        let all = self.sockets.iter();
        all.map(|(fd, socket)| (*fd, socket.clone())).collect()
    }
}

/// All sockets.
pub(crate) fn sockets() -> Vec<(c_int, Arc<Socket>)> {
    read().all_sockets()
}

/// All sockets, at exit. Empty if the table is locked, maybe by this thread before a signal interrupted
/// it.
pub(crate) fn sockets_at_exit() -> Vec<(c_int, Arc<Socket>)> {
    TABLE
        .try_read()
        .map_or_else(|_| Vec::new(), |table| table.all_sockets())
}

/// The descriptors of a socket.
pub(crate) fn descriptors(of: &Arc<Socket>) -> Vec<c_int> {
    let table = read();
    let all = table.sockets.iter();
    all.filter(|(_, socket)| Arc::ptr_eq(socket, of))
        .map(|(fd, _)| *fd)
        .collect()
}

pub(crate) fn insert_socket(fd: c_int, socket: Arc<Socket>) {
    if !kinds::is_in_range(fd) {
        return;
    }
    socket.fds.fetch_add(1, Ordering::AcqRel);
    let before = write().sockets.insert(fd, socket);
    kinds::set(fd, Kind::Socket);
    if let Some(before) = before {
        before.fds.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(crate) fn insert_epoll(fd: c_int, epoll: Arc<Epoll>) {
    if kinds::is_in_range(fd) {
        let before = write().epolls.insert(fd, epoll);
        kinds::set(fd, Kind::Epoll);
        drop(before);
    }
}

/// Removes a descriptor. Dropping the result closes the rsocket if this was its last descriptor, so the
/// caller must not hold a lock then.
#[must_use]
pub(crate) fn remove(fd: c_int) -> Removed {
    let mut table = write();
    let removed = Removed {
        socket: table.sockets.remove(&fd),
        _epoll: table.epolls.remove(&fd),
    };
    kinds::set(fd, Kind::Other);
    drop(table);
    if let Some(socket) = &removed.socket {
        socket.fds.fetch_sub(1, Ordering::AcqRel);
    }
    removed
}

pub(crate) struct Removed {
    pub(crate) socket: Option<Arc<Socket>>,
    _epoll: Option<Arc<Epoll>>,
}

/// Gives all descriptors of a socket to the kernel.
pub(crate) fn give_to_kernel(socket: &Arc<Socket>) {
    let epolls = epolls();
    for fd in descriptors(socket) {
        drop(remove(fd));
        for (epoll, interest) in &epolls {
            interest.give_to_kernel(*epoll, fd);
        }
    }
}
