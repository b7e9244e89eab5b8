//! SO_KEEPALIVE: a thread that asks idle peers for a sign of life. A peer that does not acknowledge
//! the message ends the connection with ETIMEDOUT.

use crate::per_process::PerProcess;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// A socket whose peer can be asked.
pub(crate) trait Asks: Send + Sync {
    /// Asks the peer. Returns after which time to ask again; `None` if the socket no longer wants
    /// it.
    fn ask_peer(&self) -> Option<Duration>;
}

/// The sockets with SO_KEEPALIVE.
#[derive(Default)]
struct Alive {
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Default)]
struct Watched {
    sockets: Vec<Entry>,
    has_thread: bool,
}

struct Entry {
    socket: Weak<dyn Asks>,
    due: Instant,
}

static ALIVE: PerProcess<Alive> = PerProcess::new();

/// Asks the peer of a socket from now on, or with another interval than before.
pub(crate) fn watch(socket: Weak<dyn Asks>, every: Duration) {
    ALIVE.get().watch(socket, every);
}

impl Alive {
    fn watch(&'static self, socket: Weak<dyn Asks>, every: Duration) {
        let mut watched = self.watched.lock();
        watched
            .sockets
            .retain(|entry| !entry.socket.ptr_eq(&socket));
        if let Some(due) = Instant::now().checked_add(every) {
            watched.sockets.push(Entry { socket, due });
        }
        if !watched.has_thread {
            let thread = thread::Builder::new().name("rsocket-alive".into());
            // Without the thread, peers are not asked, and the next call tries again.
            watched.has_thread = thread.spawn(|| self.run()).is_ok();
        }
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut watched = self.watched.lock();
        loop {
            let now = Instant::now();
            let mut due = Vec::new();
            watched.sockets.retain(|entry| {
                let is_due = entry.due <= now;
                due.extend(is_due.then(|| entry.socket.upgrade()).flatten());
                !is_due
            });
            if !due.is_empty() {
                drop(watched);
                let again = due.into_iter().filter_map(ask);
                let again: Vec<Entry> = again.collect();
                watched = self.watched.lock();
                watched.sockets.extend(again);
                continue;
            }
            match watched.sockets.iter().map(|entry| entry.due).min() {
                Some(next) => {
                    self.changed.wait_until(&mut watched, next);
                }
                None => self.changed.wait(&mut watched),
            }
        }
    }
}

/// Asks a peer. Returns when to ask again; `None` if the socket no longer wants it.
fn ask(socket: Arc<dyn Asks>) -> Option<Entry> {
    let every = socket.ask_peer()?;
    Some(Entry {
        socket: Arc::downgrade(&socket),
        due: Instant::now().checked_add(every)?,
    })
}
