//! SO_KEEPALIVE: a thread sends keepalive probes. If the peer does not acknowledge one, the connection
//! ends with ETIMEDOUT.

use parking_lot::{Condvar, Mutex};
use roce_trust::fork::PerProcess;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// A socket that can send keepalive probes.
pub(crate) trait Probe: Send + Sync {
    /// Sends a probe. Returns the interval until the next one; `None` stops the probes.
    fn send_keepalive_probe(&self) -> Option<Duration>;
}

/// The sockets with SO_KEEPALIVE.
#[derive(Default)]
struct Prober {
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Default)]
struct Watched {
    sockets: Vec<Entry>,
    has_thread: bool,
}

struct Entry {
    socket: Weak<dyn Probe>,
    due: Instant,
}

static PROBER: PerProcess<Prober> = PerProcess::new();

/// Starts keepalive probes on a socket, or changes their interval.
pub(crate) fn watch(socket: Weak<dyn Probe>, every: Duration) {
    PROBER.get().watch(socket, every);
}

impl Prober {
    fn watch(&'static self, socket: Weak<dyn Probe>, every: Duration) {
        let mut watched = self.watched.lock();
        watched
            .sockets
            .retain(|entry| !entry.socket.ptr_eq(&socket));
        if let Some(due) = Instant::now().checked_add(every) {
            watched.sockets.push(Entry { socket, due });
        }
        if !watched.has_thread {
            let thread = thread::Builder::new().name("rsocket-alive".into());
            // If this fails, the next call tries again.
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
                let again = due.into_iter().filter_map(probe);
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

/// Sends a probe. Returns the entry for the next one; `None` stops the probes.
fn probe(socket: Arc<dyn Probe>) -> Option<Entry> {
    let every = socket.send_keepalive_probe()?;
    Some(Entry {
        socket: Arc::downgrade(&socket),
        due: Instant::now().checked_add(every)?,
    })
}
