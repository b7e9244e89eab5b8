//! What a process tells of its open devices, to whom, and how.
//!
//! ```text
//!  Context ──┐                            ┌─ @roce-watch-1/PID/… ──► roce top (JSON)
//!  Context ──┼─► Devices ──► Answers ──► Server
//!  Context ──┘   a snapshot  at most 20/s └─ ROCE_METRICS=ADDR ────► Prometheus (HTTP)
//! ```
//!
//! A process with an open device has one thread for this, which sleeps until somebody
//! asks. Packets are not slower for it, but that the NIC's lock is taken for a few QPs at a
//! time while a snapshot is made.
//!
//! The Unix socket's name is abstract: it belongs to the network namespace in which the
//! process opened its first device, and is gone with the last. Only processes of the same
//! user and of root get an answer.

mod answer;
mod answers;
mod client;
mod connection;
mod devices;
mod http;
mod names;
mod prometheus;
mod server;
mod snapshot;
mod threads;

pub use client::{Processes, watch_processes};
pub(crate) use devices::Opened;
pub use snapshot::{DeviceSnapshot, QpSnapshot, Snapshot};

use parking_lot::Mutex;
use server::Server;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

/// The server of this process, and the number of the process: in one that was forked off,
/// the thread is missing.
static SERVER: Mutex<(u32, Weak<Server>)> = Mutex::new((0, Weak::new()));

/// A device is told of as long as this lives.
pub(crate) struct WatchHandle {
    watched: Arc<devices::Watched>,
    server: Option<Arc<Server>>,
    metrics: Option<SocketAddr>,
}

impl WatchHandle {
    /// Where the process's metrics are, if they were asked for and can be had.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

/// Tells of a device from now on, with metrics at an address if that is asked for. If it
/// can't be done, the device works all the same: that is said on stderr.
pub(crate) fn register(opened: Opened, metrics: Option<SocketAddr>) -> Option<WatchHandle> {
    let mut running = SERVER.lock();
    let own = std::process::id();
    let before = running.1.upgrade().filter(|_| running.0 == own);
    let server = match before.map_or_else(|| Server::start().map(Arc::new), Ok) {
        Ok(server) => server,
        Err(error) => {
            warn(&format!("nobody can watch this process: {error}"));
            return None;
        }
    };
    *running = (own, Arc::downgrade(&server));
    Some(WatchHandle {
        metrics: metrics.and_then(|asked| offer_metrics(&server, asked)),
        watched: server.devices().add(opened),
        server: Some(server),
    })
}

fn offer_metrics(server: &Server, asked: SocketAddr) -> Option<SocketAddr> {
    match server.offer_metrics(asked) {
        Ok(offered) => {
            let (at, is_new) = offered?;
            if is_new && asked.port() == 0 {
                warn(&format!("metrics are at http://{at}/metrics"));
            }
            Some(at)
        }
        Err(error) => {
            warn(&format!(
                "no metrics of this process at {asked} (ROCE_METRICS): {error}"
            ));
            None
        }
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        // Held until the thread has ended, if this was the last: the next to open a device
        // finds its addresses free.
        let _running = SERVER.lock();
        if let Some(server) = self.server.take() {
            server.devices().remove(&self.watched);
        }
    }
}

fn warn(text: &str) {
    // Nobody is left to be told of an error.
    let _ = writeln!(std::io::stderr(), "roce: {text}");
}
