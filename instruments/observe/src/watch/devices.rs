//! The open devices of the process, and snapshots of them.
//!
//! A snapshot takes the NIC's lock for a few QPs at a time. Otherwise, watching ten thousand QPs
//! would stop the packets of all of them for the whole time.

use super::snapshot::{DeviceSnapshot, QpSnapshot, Snapshot};
use crate::{DeviceNames, DeviceView, WatchedDevice};
use parking_lot::Mutex;
use roce_stack::{Cause, DropReason, Stat};
use roce_wire::Qpn;
use std::sync::Arc;
use std::time::Instant;

/// The name of the datapath of a device that has not started one.
const IDLE: &str = "idle";

/// The maximum number of QPs that are read each time the lock is held.
const QPS_PER_LOCK: usize = 32;

/// The maximum number of QPs of a device in a snapshot.
const MAX_QPS: usize = 16_384;

/// The number of failed QPs of a device whose events a snapshot has. Each has some 2 KiB of them.
const MAX_WITH_EVENTS: usize = 50;

/// An open device that watchers can see.
pub(super) struct Watched {
    number: u64,
    names: DeviceNames,
    /// `None` once the device is closed. Locked while a snapshot is taken. So the thread that
    /// closes the device frees its state, rather than the watch server's thread.
    device: Mutex<Option<Arc<dyn WatchedDevice>>>,
}

/// All open devices of the process.
pub(super) struct Devices {
    open: Mutex<(u64, Vec<Arc<Watched>>)>,
    since: Instant,
}

impl Devices {
    pub(super) fn new() -> Self {
        Self {
            open: Mutex::default(),
            since: Instant::now(),
        }
    }

    pub(super) fn add(&self, names: DeviceNames, device: Arc<dyn WatchedDevice>) -> Arc<Watched> {
        let mut open = self.open.lock();
        let (count, all) = &mut *open;
        *count += 1;
        let watched = Arc::new(Watched {
            number: *count,
            names,
            device: Mutex::new(Some(device)),
        });
        all.push(Arc::clone(&watched));
        watched
    }

    /// Removes a device. When this returns, nothing uses the device any more.
    pub(super) fn remove(&self, watched: &Arc<Watched>) {
        self.open
            .lock()
            .1
            .retain(|other| !Arc::ptr_eq(other, watched));
        let device = watched.device.lock().take();
        drop(device);
    }

    /// A snapshot, without what the process waits for.
    pub(super) fn snapshot(&self) -> Snapshot {
        let all = self.open.lock().1.clone();
        Snapshot {
            pid: std::process::id(),
            command: command(),
            seconds: self.since.elapsed().as_secs_f64(),
            devices: all.iter().filter_map(|one| one.snapshot()).collect(),
            waits: Vec::new(),
        }
    }
}

impl Watched {
    fn snapshot(&self) -> Option<DeviceSnapshot> {
        let guard = self.device.lock();
        let device = guard.as_deref()?;
        let (mut snapshot, qpns) = self.snapshot_without_qps(device);
        snapshot.qps_left_out = qpns.len().saturating_sub(MAX_QPS) as u64;
        let qpns = &qpns[..qpns.len().min(MAX_QPS)];
        snapshot.qps.reserve(qpns.len());
        let mut with_events = MAX_WITH_EVENTS;
        for chunk in qpns.chunks(QPS_PER_LOCK) {
            let mut found = Vec::with_capacity(chunk.len());
            device.look(&mut |DeviceView { now, nic, .. }| {
                for qpn in chunk {
                    let Some(status) = nic.qp_status(*now, *qpn) else {
                        continue;
                    };
                    let failure = nic.failure(*qpn).copied();
                    let is_explained =
                        failure.is_some_and(|failure| failure.cause != Cause::Application);
                    let recorded = match is_explained && with_events > 0 {
                        true => nic.recorded(*qpn),
                        false => Vec::new(),
                    };
                    with_events -= usize::from(!recorded.is_empty());
                    found.push((*qpn, status, failure, recorded));
                }
            });
            let qps = found.iter().map(|(qpn, status, failure, recorded)| {
                QpSnapshot::of(*qpn, status, failure.as_ref(), recorded)
            });
            snapshot.qps.extend(qps);
        }
        Some(snapshot)
    }

    fn snapshot_without_qps(&self, device: &dyn WatchedDevice) -> (DeviceSnapshot, Vec<Qpn>) {
        let DeviceNames {
            device: name,
            interface,
        } = self.names.clone();
        let mut snapshot = DeviceSnapshot {
            context: self.number,
            device: name,
            interface,
            datapath: device.datapath().unwrap_or(IDLE).to_owned(),
            failure: device.failure(),
            ..DeviceSnapshot::default()
        };
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        let mut qpns = Vec::new();
        device.look(&mut |DeviceView { nic, port, .. }| {
            let counters = nic.counters();
            let stats = Stat::ALL.iter().map(|s| (s.label(), counters.stat(*s)));
            let drops = DropReason::ALL.iter();
            let drops = drops.map(|r| (r.label(), counters.drops(*r)));
            snapshot.congestion_control = nic.congestion_control().name().to_owned();
            snapshot.counters = stats.map(named).collect();
            snapshot.drops = drops.map(named).collect();
            snapshot.port = port.each_counter().into_iter().map(named).collect();
            qpns = nic.qpns();
        });
        (snapshot, qpns)
    }
}

/// The name of this process, as `ps` shows it.
fn command() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}
