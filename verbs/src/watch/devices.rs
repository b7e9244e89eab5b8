//! The open devices of the process, and how a snapshot of them is taken.
//!
//! The NIC's lock is held for a few QPs at a time: whoever watches ten thousand QPs must
//! not stop the packets of all of them for that long.

use super::snapshot::{DeviceSnapshot, QpSnapshot, Snapshot};
use crate::datapath::Datapath;
use crate::runtime::DeviceState;
use parking_lot::Mutex;
use roce_port::PortError;
use roce_stack::{DropReason, Stat};
use roce_wire::Qpn;
use std::sync::Arc;
use std::time::Instant;

/// The datapath of a device that has not needed one yet.
const IDLE: &str = "idle";

/// QPs that are looked at under one lock.
const AT_ONCE: usize = 32;

/// The QPs that are told of, of each device.
const MOST_QPS: usize = 16_384;

/// An open device.
pub(super) struct Watched {
    number: u64,
    device: String,
    interface: String,
    /// Nothing once the device closes. Held while a snapshot of it is taken, so that it is
    /// closed by whoever closes it and not later by us.
    shared: Mutex<Option<Arc<DeviceState>>>,
}

/// What is to be told of a device that opens.
pub(crate) struct Opened {
    /// Its name.
    pub(crate) device: String,
    /// Its interface's.
    pub(crate) interface: String,
    /// Its engine.
    pub(crate) shared: Arc<DeviceState>,
}

/// All of them.
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

    pub(super) fn add(&self, opened: Opened) -> Arc<Watched> {
        let mut open = self.open.lock();
        let (count, all) = &mut *open;
        *count += 1;
        let watched = Arc::new(Watched {
            number: *count,
            device: opened.device,
            interface: opened.interface,
            shared: Mutex::new(Some(opened.shared)),
        });
        all.push(Arc::clone(&watched));
        watched
    }

    /// Forgets a device; nothing of it is used any more when this returns.
    pub(super) fn remove(&self, watched: &Arc<Watched>) {
        self.open
            .lock()
            .1
            .retain(|other| !Arc::ptr_eq(other, watched));
        let shared = watched.shared.lock().take();
        drop(shared);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let all = self.open.lock().1.clone();
        Snapshot {
            pid: std::process::id(),
            command: command(),
            seconds: self.since.elapsed().as_secs_f64(),
            devices: all.iter().filter_map(|one| one.snapshot()).collect(),
        }
    }
}

impl Watched {
    fn snapshot(&self) -> Option<DeviceSnapshot> {
        let held = self.shared.lock();
        let shared = held.as_ref()?;
        let (mut told, qpns) = self.device_alone(shared);
        told.qps_left_out = qpns.len().saturating_sub(MOST_QPS) as u64;
        let qpns = &qpns[..qpns.len().min(MOST_QPS)];
        told.qps.reserve(qpns.len());
        for some in qpns.chunks(AT_ONCE) {
            let mut engine = shared.lock();
            // No earlier than what the NIC has seen.
            let now = engine.at(shared.now());
            let status = |qpn: &Qpn| Some((*qpn, engine.nic.qp_status(now, *qpn)?));
            let found: Vec<_> = some.iter().filter_map(status).collect();
            drop(engine);
            let qps = found
                .iter()
                .map(|(qpn, status)| QpSnapshot::of(*qpn, status));
            told.qps.extend(qps);
        }
        Some(told)
    }

    /// All but the QPs, and their numbers.
    fn device_alone(&self, shared: &DeviceState) -> (DeviceSnapshot, Vec<Qpn>) {
        let engine = shared.lock();
        let counters = engine.nic.counters().clone();
        let port = engine.each_port_counter();
        let failure = engine.failure.as_ref().map(PortError::to_string);
        let control = engine.nic.congestion_control();
        let qpns = engine.nic.qpns();
        drop(engine);
        let datapath = shared.starter.datapath().map_or(IDLE, Datapath::name);
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        let stats = Stat::ALL.iter().map(|s| (s.label(), counters.stat(*s)));
        let drops = DropReason::ALL
            .iter()
            .map(|r| (r.label(), counters.drops(*r)));
        let told = DeviceSnapshot {
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
        (told, qpns)
    }
}

/// The name of this process, as `ps` shows it.
fn command() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}
