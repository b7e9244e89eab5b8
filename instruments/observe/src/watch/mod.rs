//! Shows a process's open devices to programs that watch it.
//!
//! ```text
//!  Context ──┐                            ┌─ @roce-watch-1/PID/… ──► roce top (JSON)
//!  Context ──┼─► Devices ──► ResponseCache ──► Server
//!  Context ──┘   a snapshot  at most 20/s └─ ROCE_METRICS=ADDR ────► Prometheus (HTTP)
//! ```
//!
//! A process with an open device has one thread for this, which sleeps until a watcher connects.
//! The only cost to packets is that a snapshot takes the NIC's lock, for a few QPs at a time.
//!
//! The Unix socket's name is abstract. It belongs to the network namespace in which the process
//! opened its first device, and disappears when the last device is closed. Only processes of the
//! same user and of root get an answer.

mod client;
mod connection;
mod connections;
mod devices;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod http;
mod metrics;
mod names;
mod prometheus;
mod response_cache;
mod server;
mod snapshot;
mod waits;

pub use client::{Processes, watch_processes};
pub use connections::waits_of_connections;
pub use metrics::environment_metrics;
pub use snapshot::{DeviceSnapshot, QpSnapshot, Snapshot};
pub use waits::{ShownWaits, WaitSnapshot, show_wait_for_program, show_waits};

use crate::{DeviceNames, WatchedDevice};
use parking_lot::Mutex;
use roce_trust::output::write_to_stderr;
use server::Server;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

/// The process's server, and the process ID: a forked child has a copy of this, but not the
/// server's thread.
static SERVER: Mutex<(u32, Weak<Server>)> = Mutex::new((0, Weak::new()));

/// Shows a device to watchers until it is dropped.
pub struct WatchHandle {
    watched: Arc<devices::Watched>,
    server: Option<Arc<Server>>,
    metrics: Option<SocketAddr>,
}

impl WatchHandle {
    /// The address of the process's metrics, if the program requested metrics and the address was
    /// free.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

/// Shows a device to watchers from now on, with metrics at an address if the program asks for them.
/// If this fails, prints the reason on stderr. The device then works without being shown.
pub fn register(
    names: DeviceNames,
    device: Arc<dyn WatchedDevice>,
    metrics: Option<SocketAddr>,
) -> Option<WatchHandle> {
    let mut running = SERVER.lock();
    let own = std::process::id();
    let existing = running.1.upgrade().filter(|_| running.0 == own);
    let server = match existing.map_or_else(|| Server::start().map(Arc::new), Ok) {
        Ok(server) => server,
        Err(error) => {
            warn(&format!("this process can't be watched: {error}"));
            return None;
        }
    };
    *running = (own, Arc::downgrade(&server));
    Some(WatchHandle {
        metrics: metrics.and_then(|requested| offer_metrics(&server, requested)),
        watched: server.devices().add(names, device),
        server: Some(server),
    })
}

fn offer_metrics(server: &Server, requested: SocketAddr) -> Option<SocketAddr> {
    match server.offer_metrics(requested) {
        Ok(offered) => {
            let (at, is_new) = offered?;
            if is_new && requested.port() == 0 {
                warn(&format!("metrics are at http://{at}/metrics"));
            }
            Some(at)
        }
        Err(error) => {
            warn(&format!(
                "can't serve metrics at {requested} (ROCE_METRICS): {error}"
            ));
            None
        }
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        // Held until the server's thread has ended, if this was the last device, so that the next
        // device to open finds its addresses free.
        let _running = SERVER.lock();
        if let Some(server) = self.server.take() {
            server.devices().remove(&self.watched);
        }
    }
}

fn warn(text: &str) {
    write_to_stderr(&format!("roce: {text}\n"));
}
