//! Options for what watches a device.

use super::OpenOptions;
use crate::error::OpenError;
use crate::watch::environment_metrics;
use crate::why::{WhyLog, WhyOutput, environment_why, environment_why_packets};
use roce_observe::DeviceNames;
use roce_observe::capture::{Capture, RecentPackets, Tap, environment_capture};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    capture: Option<Capture>,
    pub(crate) metrics: Option<SocketAddr>,
    why: Option<WhyOutput>,
    why_packets: Option<PathBuf>,
}

impl Options {
    pub(super) fn from_env() -> Result<Self, OpenError> {
        Ok(Self {
            capture: environment_capture()?,
            metrics: environment_metrics()?,
            why: environment_why()?,
            why_packets: environment_why_packets()?,
        })
    }
}

impl OpenOptions {
    /// Captures what the device sends and receives, with comments on what became of each packet.
    /// Several devices may share a capture.
    pub fn capture(mut self, capture: Capture) -> Self {
        self.observing.capture = Some(capture);
        self
    }

    /// Serves metrics of all the process's devices at `at`, in Prometheus text format over HTTP,
    /// until the last device is closed. If the address is in use, the library reports that on
    /// stderr, and the device works without metrics.
    pub fn metrics(mut self, at: SocketAddr) -> Self {
        self.observing.metrics = Some(at);
        self
    }

    /// Writes why QPs fail, as they fail.
    pub fn why(mut self, output: WhyOutput) -> Self {
        self.observing.why = Some(output);
        self
    }

    /// Writes the last packets of each QP that fails to the end of this pcapng file, which other
    /// devices and processes may share. The last packet has the explanation as a comment. The device
    /// keeps its last 1024 packets in memory for that, and takes the slower path of a capture.
    pub fn why_packets(mut self, file: impl Into<PathBuf>) -> Self {
        self.observing.why_packets = Some(file.into());
        self
    }

    /// The tap and the log of a new context, if the options need them. The log writes packets that
    /// the tap keeps.
    pub(crate) fn tap_and_log(&self, device: &DeviceNames) -> (Option<Tap>, Option<WhyLog>) {
        let packets = self.observing.why_packets.as_ref();
        let packets = packets.map(|file| (file.clone(), RecentPackets::new(device)));
        let recent = packets.as_ref().map(|(_, recent)| recent.clone());
        let taps = self.observing.capture.is_some() || recent.is_some();
        let tap = taps.then(|| Tap::new(self.observing.capture.as_ref(), recent, device));
        let logs = self.observing.why.is_some() || packets.is_some();
        (
            tap,
            logs.then(|| WhyLog::new(self.observing.why.clone(), packets)),
        )
    }
}
