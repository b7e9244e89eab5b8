//! The work of `roce why` while the program runs, and when it has ended.

use super::losses::Loss;
use super::report::Report;
use super::watcher::Watcher;
use crate::run::Observer;
use roce_verbs::observation::Totals;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Watches the program, and prints its report.
pub(super) struct Explainer {
    report: Arc<Report>,
    packets: Option<PathBuf>,
    watcher: Option<Watcher>,
}

impl Explainer {
    pub(super) fn new(report: Report, packets: Option<PathBuf>) -> Self {
        Self {
            report: Arc::new(report),
            packets,
            watcher: None,
        }
    }
}

impl Observer for Explainer {
    fn file(&self) -> &Path {
        self.report.path()
    }

    fn packets(&self) -> Option<&Path> {
        self.packets.as_deref()
    }

    fn starts(&mut self) {
        self.watcher = Watcher::start(Arc::clone(&self.report));
    }

    fn may_end(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.look_now();
        }
    }

    fn has_ended(&mut self, succeeded: bool, totals: &Totals) {
        let seen = self.watcher.take().map(Watcher::stop).unwrap_or_default();
        let mut losses = Vec::new();
        // A program that succeeds has coped with what it lost.
        if !succeeded {
            for (pid, waits) in &seen.waits {
                losses.extend(waits.iter().map(|wait| Loss::of_wait(*pid, wait)));
            }
            let each = seen.devices.iter();
            losses.extend(each.flat_map(|((pid, _), device)| Loss::of(*pid, device)));
        }
        self.report.print_rest(&losses, totals);
    }
}
