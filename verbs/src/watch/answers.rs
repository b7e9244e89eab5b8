//! What is answered, made at most so often, however many ask.

use super::devices::Devices;
use super::prometheus;
use super::snapshot::Snapshot;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who asks within this time gets the same: a flood of requests must not take the NIC's
/// lock all the time.
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

    /// For `roce top`.
    pub(super) fn json(&mut self, now: Instant) -> Arc<[u8]> {
        let snapshot = self.snapshot(now);
        let make = || {
            // Numbers and strings: this can't fail.
            serde_json::to_vec(&*snapshot).unwrap_or_default().into()
        };
        Arc::clone(self.json.get_or_insert_with(make))
    }

    /// For Prometheus.
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

    /// When to forget what is kept.
    pub(super) fn old_at(&self) -> Option<Instant> {
        self.made.as_ref().map(|(made, _)| *made + FRESH)
    }

    pub(super) fn forget_old(&mut self, now: Instant) {
        if self.old_at().is_some_and(|at| at <= now) {
            (self.made, self.json, self.text) = (None, None, None);
        }
    }
}
