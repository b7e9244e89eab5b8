//! Fork handlers. The parent keeps the rsockets; the child gets a link to the parent.

use crate::children::{Children, Inherited};
use crate::link::{self, Op};
use crate::relay::Relays;
use crate::socket::{Phase, Socket};
use crate::table::Table;
use crate::{atfork, children, claim, hidden, relay, socket, table};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, RwLockWriteGuard};

/// All locks of this library, so that the child inherits none held by a thread that it lacks.
struct Held {
    relays: MutexGuard<'static, Relays>,
    children: (MutexGuard<'static, ()>, MutexGuard<'static, Children>),
    parent: MutexGuard<'static, Option<c_int>>,
    table: RwLockWriteGuard<'static, Table>,
    /// The parent's and the child's ends of the link, if there are sockets to hand over.
    link: Option<[c_int; 2]>,
}

thread_local! {
    static HELD: std::cell::RefCell<Option<Held>> = const { std::cell::RefCell::new(None) };
}

pub(crate) fn register() {
    // SAFETY: the handlers can be called at each fork, since the library is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
}

extern "C" fn prepare() {
    // Only one process can use the link to this process's own parent.
    for (_, socket) in table::sockets() {
        if socket.phase() == Phase::OfParent {
            claim::take_over_connection(&socket, Op::Keep);
        }
    }
    // Lock in the same order as the thread in `children`.
    let children = children::lock_for_fork();
    let parent = link::lock_link();
    let table = table::write();
    let relays = relay::lock_relays();
    let has_sockets = table.sockets.values().any(is_inherited);
    let link = has_sockets.then(|| link::control_pair().ok()).flatten();
    // Last, because it may lock librdmacm, and closing an rsocket takes those locks, too. No thread
    // waits for a lock of this library while it holds one of librdmacm.
    atfork::prepare();
    HELD.set(Some(Held {
        relays,
        children,
        parent,
        table,
        link,
    }));
}

fn is_inherited(socket: &Arc<Socket>) -> bool {
    !matches!(socket.phase(), Phase::Fresh | Phase::Connecting) || socket.given.is_given()
}

extern "C" fn in_parent() {
    let Some(held) = HELD.take() else { return };
    let sockets = held.table.sockets.values();
    let sockets: BTreeMap<u64, Inherited> = sockets
        .filter(|socket| is_inherited(socket))
        .map(|socket| (socket.id, Inherited::new(socket)))
        .collect();
    let link = held.link;
    drop(held);
    atfork::in_parent();
    if let Some([of_parent, of_child]) = link {
        // If the fork failed, closing this end looks like a child that exited.
        hidden::close(of_child);
        children::add(of_parent, sockets);
    }
}

extern "C" fn in_child() {
    let Some(mut held) = HELD.take() else { return };
    socket::count_fork();
    for end in held.relays.ends.drain(..) {
        hidden::close(end);
    }
    held.relays.receiving = 0;
    held.children.1.forget();
    if let Some(of_parent) = held.parent.take() {
        hidden::close(of_parent);
    }
    if let Some([of_parent, of_child]) = held.link {
        hidden::close(of_parent);
        *held.parent = Some(of_child);
    }
    convert(&mut held.table);
    drop(held);
    atfork::in_child();
}

/// Converts the parent's table to the child's.
fn convert(table: &mut Table) {
    let mut of_child: BTreeMap<u64, Arc<Socket>> = BTreeMap::new();
    let mut to_child = |socket: &Arc<Socket>| {
        let entry = of_child.entry(socket.id);
        entry.or_insert_with(|| Arc::new(socket.in_child())).clone()
    };
    let before = std::mem::take(table);
    for (fd, socket) in &before.sockets {
        let socket = to_child(socket);
        socket.fds.fetch_add(1, Ordering::Relaxed);
        table.sockets.insert(*fd, socket);
    }
    for (fd, epoll) in &before.epolls {
        table
            .epolls
            .insert(*fd, Arc::new(epoll.in_child(&mut to_child)));
    }
    // Never dropped: other threads of the parent may have held locks inside.
    std::mem::forget(before);
}
