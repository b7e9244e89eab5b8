//! The responses to watchers, which are created at a bounded rate no matter how many watchers there
//! are.

use super::devices::Devices;
use super::prometheus;
use super::snapshot::Snapshot;
use super::waits;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which a snapshot is reused, so that a flood of requests does not keep taking the
/// NIC's lock.
const MAX_AGE: Duration = Duration::from_millis(50);

pub(super) struct ResponseCache<'a> {
    devices: &'a Devices,
    snapshot: Option<(Instant, Snapshot)>,
    json: Option<Arc<[u8]>>,
    text: Option<Arc<[u8]>>,
}

impl<'a> ResponseCache<'a> {
    pub(super) fn new(devices: &'a Devices) -> Self {
        Self {
            devices,
            snapshot: None,
            json: None,
            text: None,
        }
    }

    /// The response to `roce top` and `roce why`.
    pub(super) fn json(&mut self, now: Instant) -> Arc<[u8]> {
        self.drop_expired(now);
        if let Some(json) = &self.json {
            return Arc::clone(json);
        }
        let snapshot = self.snapshot(now);
        // The metrics do not show it.
        snapshot.waits = waits::all();
        // The values are numbers and strings, so this can't fail.
        let json: Arc<[u8]> = serde_json::to_vec(snapshot).unwrap_or_default().into();
        Arc::clone(self.json.insert(json))
    }

    /// The response to Prometheus.
    pub(super) fn text(&mut self, now: Instant) -> Arc<[u8]> {
        self.drop_expired(now);
        if let Some(text) = &self.text {
            return Arc::clone(text);
        }
        let text: Arc<[u8]> = prometheus::text(self.snapshot(now)).into_bytes().into();
        Arc::clone(self.text.insert(text))
    }

    fn snapshot(&mut self, now: Instant) -> &mut Snapshot {
        let make = || (now, self.devices.snapshot());
        &mut self.snapshot.get_or_insert_with(make).1
    }

    /// The time at which [`ResponseCache::drop_expired`] must be called.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        self.snapshot
            .as_ref()
            .map(|(taken_at, _)| *taken_at + MAX_AGE)
    }

    pub(super) fn drop_expired(&mut self, now: Instant) {
        if self.expires_at().is_some_and(|at| at <= now) {
            (self.snapshot, self.json, self.text) = (None, None, None);
        }
    }
}

/// A response: a head, a body that several connections share, and the number of bytes that have been
/// written.
pub(super) struct Response {
    pub(super) head: Vec<u8>,
    pub(super) body: Arc<[u8]>,
    pub(super) sent: usize,
}

impl Response {
    pub(super) fn new(head: String, body: Arc<[u8]>) -> Self {
        Self {
            head: head.into_bytes(),
            body,
            sent: 0,
        }
    }

    pub(super) fn rest(&self) -> &[u8] {
        match self.head.get(self.sent..) {
            Some(head) if !head.is_empty() => head,
            _ => &self.body[self.sent - self.head.len()..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_made_again_when_its_snapshot_is_old() {
        let devices = Devices::new();
        let mut cache = ResponseCache::new(&devices);
        let start = Instant::now();
        let first = cache.json(start);
        let text = cache.text(start);
        let soon = start + MAX_AGE - Duration::from_millis(1);
        assert!(Arc::ptr_eq(&first, &cache.json(soon)));
        assert!(Arc::ptr_eq(&text, &cache.text(soon)));
        assert_eq!(cache.expires_at(), Some(start + MAX_AGE));
        let later = start + MAX_AGE;
        assert!(!Arc::ptr_eq(&first, &cache.json(later)));
        assert!(!Arc::ptr_eq(&text, &cache.text(later)));
        assert_eq!(cache.expires_at(), Some(later + MAX_AGE));
    }
}
