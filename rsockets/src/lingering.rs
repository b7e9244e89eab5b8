//! Closes that wait for the peer while their program goes on, and the end of the process.

use crate::any::AnySocket;
use crate::socket::Socket;
use crate::table::table;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that the end of the process waits for peers.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// The sockets that are being closed.
#[derive(Default)]
pub(crate) struct Lingering {
    /// Their number.
    count: Mutex<usize>,
    changed: Condvar,
}

/// Finishes the close of a socket in a thread of its own, so that the program need not wait.
pub(crate) fn finish(socket: Arc<Socket>) {
    let lingering = &table().lingering;
    *lingering.count.lock() += 1;
    let again = Arc::clone(&socket);
    let thread = thread::Builder::new().name("rsocket-close".into());
    let started = thread.spawn(move || {
        socket.finish_closing();
        lingering.one_less();
    });
    if started.is_err() {
        again.finish_closing();
        lingering.one_less();
    }
}

impl Lingering {
    fn one_less(&self) {
        *self.count.lock() -= 1;
        self.changed.notify_all();
    }
}

/// Called when the process ends: peers get what was sent.
pub(crate) extern "C" fn at_exit() {
    let end = Instant::now() + EXIT_LIMIT;
    let table = table();
    for socket in table.all() {
        let left = end.saturating_duration_since(Instant::now());
        match socket {
            AnySocket::Stream(socket) => socket.leave(left),
            AnySocket::Datagram(socket) => socket.leave(left),
        }
    }
    let mut count = table.lingering.count.lock();
    while *count > 0 {
        if table
            .lingering
            .changed
            .wait_until(&mut count, end)
            .timed_out()
        {
            return;
        }
    }
}
