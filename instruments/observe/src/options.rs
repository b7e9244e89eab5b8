//! How a device is observed.

use crate::DeviceNames;
use crate::capture::{Capture, RecentPackets, Tap, environment_capture};
use crate::watch::environment_metrics;
use crate::why::{Explainer, WhyLog, WhyOutput, environment_why, environment_why_packets};
use roce_trust::environment::Malformed;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How a device is observed. The default is not to write anything.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Captures what the device sends and receives.
    pub capture: Option<Capture>,
    /// The address at which the process serves metrics.
    pub metrics: Option<SocketAddr>,
    /// Where it is written why QPs fail.
    pub why: Option<WhyOutput>,
    /// The file for the last packets of QPs that fail.
    pub why_packets: Option<PathBuf>,
}

impl Options {
    /// The options that `ROCE_PCAP`, `ROCE_METRICS`, `ROCE_WHY` and `ROCE_WHY_PCAP` set.
    ///
    /// # Errors
    /// If a variable's value is malformed, or the capture's file can't be created.
    pub fn from_env() -> Result<Self, Malformed> {
        Ok(Self {
            capture: environment_capture()?,
            metrics: environment_metrics()?,
            why: environment_why()?,
            why_packets: environment_why_packets()?,
        })
    }

    /// The tap of a new open device, if the options need one, and what explains its failures. The latter
    /// writes packets that the tap keeps.
    pub fn begin(&self, device: DeviceNames) -> (Option<Tap>, Explainer) {
        let packets = self.why_packets.as_ref();
        let packets = packets.map(|file| (file.clone(), RecentPackets::new(&device)));
        let recent = packets.as_ref().map(|(_, recent)| recent.clone());
        let taps = self.capture.is_some() || recent.is_some();
        let tap = taps.then(|| Tap::new(self.capture.as_ref(), recent, &device));
        let logs = self.why.is_some() || packets.is_some();
        let log = logs.then(|| WhyLog::new(self.why.clone(), packets));
        (tap, Explainer::new(device, log))
    }
}
