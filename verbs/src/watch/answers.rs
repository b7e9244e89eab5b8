//! The answers to watchers. They are made at a bounded rate, however many watchers ask.

use super::devices::Devices;
use super::prometheus;
use super::snapshot::Snapshot;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests within this time get the same answer, so that a flood of requests does not keep taking
/// the NIC's lock.
const FRESH: Duration = Duration::from_millis(50);

pub(super) struct Answers<'a> {
    devices: &'a Devices,
    made: Option<(Instant, Arc<Snapshot>)>,
    json: Option<Arc<[u8]>>,
    text: Option<Arc<[u8]>>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(devices: &'a Devices) -> Self {
        Self {
            devices,
            made: None,
            json: None,
            text: None,
        }
    }

    /// The answer to `roce top`.
    pub(super) fn json(&mut self, now: Instant) -> Arc<[u8]> {
        let snapshot = self.snapshot(now);
        let make = || {
            // The values are numbers and strings, so this can't fail.
            serde_json::to_vec(&*snapshot).unwrap_or_default().into()
        };
        Arc::clone(self.json.get_or_insert_with(make))
    }

    /// The answer to Prometheus.
    pub(super) fn text(&mut self, now: Instant) -> Arc<[u8]> {
        let snapshot = self.snapshot(now);
        let make = || prometheus::text(&snapshot).into_bytes().into();
        Arc::clone(self.text.get_or_insert_with(make))
    }

    fn snapshot(&mut self, now: Instant) -> Arc<Snapshot> {
        self.forget_old(now);
        let (_, snapshot) = self
            .made
            .get_or_insert_with(|| (now, Arc::new(self.devices.snapshot())));
        Arc::clone(snapshot)
    }

    /// When [`Answers::forget_old`] must be called.
    pub(super) fn old_at(&self) -> Option<Instant> {
        self.made.as_ref().map(|(made, _)| *made + FRESH)
    }

    pub(super) fn forget_old(&mut self, now: Instant) {
        if self.old_at().is_some_and(|at| at <= now) {
            (self.made, self.json, self.text) = (None, None, None);
        }
    }
}
