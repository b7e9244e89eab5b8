//! The open devices of the process, and snapshots of them.
//!
//! A snapshot takes the NIC's lock for a few QPs at a time. Otherwise, watching ten thousand QPs
//! would stop the packets of all of them for the whole time.

use super::snapshot::{DeviceSnapshot, QpSnapshot, Snapshot};
use crate::datapath::Datapath;
use crate::device::Device;
use crate::runtime::DeviceState;
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
    device: String,
    interface: String,
    /// `None` once the device is closed. Locked while a snapshot is taken. So the thread that
    /// closes the device frees its state, rather than the watch server's thread.
    shared: Mutex<Option<Arc<DeviceState>>>,
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

    pub(super) fn add(&self, device: &Device, shared: &Arc<DeviceState>) -> Arc<Watched> {
        let mut open = self.open.lock();
        let (count, all) = &mut *open;
        *count += 1;
        let watched = Arc::new(Watched {
            number: *count,
            device: device.name(),
            interface: device.interface().name.clone(),
            shared: Mutex::new(Some(Arc::clone(shared))),
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
        let shared = watched.shared.lock().take();
        drop(shared);
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
        let guard = self.shared.lock();
        let shared = guard.as_ref()?;
        let (mut snapshot, qpns) = self.snapshot_without_qps(shared);
        snapshot.qps_left_out = qpns.len().saturating_sub(MAX_QPS) as u64;
        let qpns = &qpns[..qpns.len().min(MAX_QPS)];
        snapshot.qps.reserve(qpns.len());
        let mut with_events = MAX_WITH_EVENTS;
        for chunk in qpns.chunks(QPS_PER_LOCK) {
            let mut engine = shared.lock();
            // Not earlier than the latest time that the NIC has seen.
            let now = engine.nic_time(shared.now());
            let mut status = |qpn: &Qpn| {
                let failure = engine.nic.failure(*qpn).copied();
                let is_explained =
                    failure.is_some_and(|failure| failure.cause != Cause::Application);
                let recorded = match is_explained && with_events > 0 {
                    true => engine.nic.recorded(*qpn),
                    false => Vec::new(),
                };
                with_events -= usize::from(!recorded.is_empty());
                Some((*qpn, engine.nic.qp_status(now, *qpn)?, failure, recorded))
            };
            let found: Vec<_> = chunk.iter().filter_map(&mut status).collect();
            drop(engine);
            let qps = found.iter().map(|(qpn, status, failure, recorded)| {
                QpSnapshot::of(*qpn, status, failure.as_ref(), recorded)
            });
            snapshot.qps.extend(qps);
        }
        Some(snapshot)
    }

    fn snapshot_without_qps(&self, shared: &DeviceState) -> (DeviceSnapshot, Vec<Qpn>) {
        let engine = shared.lock();
        let counters = engine.nic.counters().clone();
        let port = engine.port.each_counter();
        let failure = engine.failure_text();
        let control = engine.nic.congestion_control();
        let qpns = engine.nic.qpns();
        drop(engine);
        let datapath = shared.starter.datapath().map_or(IDLE, Datapath::name);
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        let stats = Stat::ALL.iter().map(|s| (s.label(), counters.stat(*s)));
        let drops = DropReason::ALL
            .iter()
            .map(|r| (r.label(), counters.drops(*r)));
        let snapshot = DeviceSnapshot {
            context: self.number,
            device: self.device.clone(),
            interface: self.interface.clone(),
            datapath: datapath.to_owned(),
            congestion_control: control.name().to_owned(),
            failure,
            counters: stats.map(named).collect(),
            drops: drops.map(named).collect(),
            port: port.into_iter().map(named).collect(),
            ..DeviceSnapshot::default()
        };
        (snapshot, qpns)
    }
}

/// The name of this process, as `ps` shows it.
fn command() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}
