//! Runs librdmacm's fork handlers, which close descriptors that the program cannot close.

use crate::inside::{Inside, is_inside};
use crate::real::{self, Handler};
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

#[derive(Clone, Copy)]
struct Handlers {
    prepare: Handler,
    in_parent: Handler,
    in_child: Handler,
}

/// The handlers in registration order.
static ALL: Mutex<Vec<Handlers>> = Mutex::new(Vec::new());

/// `__register_atfork`, which the C library's `pthread_atfork` calls.
///
/// # Safety
/// As for this function.
pub(crate) unsafe fn register(
    prepare: Handler,
    in_parent: Handler,
    in_child: Handler,
    object: *mut c_void,
) -> c_int {
    if !is_inside() {
        // SAFETY: the caller promises the handlers.
        return unsafe { real::__register_atfork(prepare, in_parent, in_child, object) };
    }
    let handlers = Handlers {
        prepare,
        in_parent,
        in_child,
    };
    crate::socket::lock(&ALL).push(handlers);
    0
}

fn handlers() -> Vec<Handlers> {
    // Handlers are registered when the library is loaded.
    ALL.try_lock()
        .map_or_else(|_| Vec::new(), |all| all.clone())
}

fn run(handler: Handler) {
    let _inside = Inside::enter();
    if let Some(handler) = handler {
        handler();
    }
}

/// Before a fork.
pub(crate) fn prepare() {
    for handlers in handlers().iter().rev() {
        run(handlers.prepare);
    }
}

/// After a fork, in the parent.
pub(crate) fn in_parent() {
    for handlers in handlers() {
        run(handlers.in_parent);
    }
}

/// After a fork, in the child.
pub(crate) fn in_child() {
    for handlers in handlers() {
        run(handlers.in_child);
    }
}
