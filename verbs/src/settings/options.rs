//! Options for opening a device.

use super::environment_congestion;
use super::environment_metrics;
use super::warn_of_unknown_variables;
use super::{PrioritySettings, environment_priorities};
use crate::capture::{RecentPackets, Tap, environment_capture};
use crate::datapath::DatapathOptions;
use crate::datapath::environment::environment_datapath;
use crate::device::Device;
use crate::error::OpenError;
use crate::faults::{Faults, Judge, draw_seed, environment_faults};
use crate::why::{WhyLog, WhyOutput, environment_why, environment_why_packets};
use roce_capture::Capture;
use roce_port::fault::FaultSpec;
use roce_stack::CongestionSettings;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Options for opening a [`Device`]. [`Device::open`] uses those of [`OpenOptions::from_env`].
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use roce_verbs::{Device, observation::Capture, settings::OpenOptions};
///
/// let context = OpenOptions::new()
///     .faults("loss=1%,seed=7".parse()?)
///     .capture(Capture::create("run-%p.pcapng")?)
///     .open(&Device::named("roce_eth0")?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    faults: Option<Faults>,
    /// The faults are those of the environment, whose injections count for the whole process.
    faults_of_process: bool,
    pub(crate) datapath: DatapathOptions,
    capture: Option<Capture>,
    pub(crate) congestion: CongestionSettings,
    pub(crate) priorities: PrioritySettings,
    pub(crate) metrics: Option<SocketAddr>,
    why: Option<WhyOutput>,
    why_packets: Option<PathBuf>,
}

impl OpenOptions {
    /// The default options. They ignore the environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// The options that the environment sets: `ROCE_FAULTS`, `ROCE_PCAP`, `ROCE_DATAPATH`,
    /// `ROCE_UDP_BUFFER_MIB`, `ROCE_UDP_FLOWS`, `ROCE_UDP_SPLICE`, `ROCE_XDP_MODE`,
    /// `ROCE_XDP_QUEUES`, `ROCE_XDP_CHECKSUM`, `ROCE_XDP_PRIORITY_TAG`, `ROCE_V1`, `ROCE_CC`,
    /// `ROCE_QOS`, `ROCE_METRICS`, `ROCE_WHY`, `ROCE_WHY_PCAP`. Reports on stderr, once, each variable whose name begins with
    /// `ROCE_` and that nothing reads.
    ///
    /// # Errors
    /// If a variable's value is malformed, or the capture's file can't be created.
    pub fn from_env() -> Result<Self, OpenError> {
        warn_of_unknown_variables();
        Ok(Self {
            faults: environment_faults()?,
            faults_of_process: true,
            datapath: environment_datapath()?,
            capture: environment_capture()?,
            congestion: environment_congestion()?.unwrap_or_default(),
            priorities: environment_priorities()?.unwrap_or_default(),
            metrics: environment_metrics()?,
            why: environment_why()?,
            why_packets: environment_why_packets()?,
        })
    }

    /// Injects faults into the packets that arrive at the device, and makes the failures happen that
    /// are injected. Injections about calls affect only calls of the C API, see
    /// [`CallJudge`](crate::faults::CallJudge). The QPs, completions, regions and requests that
    /// injections count are those of the context.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self.faults_of_process = false;
        self
    }

    /// Chooses the datapath, and whether the device supports RoCE v1.
    pub fn datapath(mut self, options: DatapathOptions) -> Self {
        self.datapath = options;
        self
    }

    /// Captures what the device sends and receives, with comments on what became of each packet.
    /// Several devices may share a capture.
    pub fn capture(mut self, capture: Capture) -> Self {
        self.capture = Some(capture);
        self
    }

    /// Sets the congestion control. The default is DCQCN with the paper's parameters.
    pub fn congestion(mut self, settings: CongestionSettings) -> Self {
        self.congestion = settings;
        self
    }

    /// Sets the traffic classes and priorities of the device's packets.
    pub fn priorities(mut self, settings: PrioritySettings) -> Self {
        self.priorities = settings;
        self
    }

    /// Serves metrics of all the process's devices at `at`, in Prometheus text format over HTTP,
    /// until the last device is closed. If the address is in use, the library reports that on
    /// stderr, and the device works without metrics.
    pub fn metrics(mut self, at: SocketAddr) -> Self {
        self.metrics = Some(at);
        self
    }

    /// Writes why QPs fail, as they fail.
    pub fn why(mut self, output: WhyOutput) -> Self {
        self.why = Some(output);
        self
    }

    /// Writes the last packets of each QP that fails to the end of this pcapng file, which other
    /// devices and processes may share. The last packet has the explanation as a comment. The device
    /// keeps its last 1024 packets in memory for that, and takes the slower path of a capture.
    pub fn why_packets(mut self, file: impl Into<PathBuf>) -> Self {
        self.why_packets = Some(file.into());
        self
    }

    /// The tap and the log of a new context, if the options need them. The log writes packets that
    /// the tap keeps.
    pub(crate) fn tap_and_log(&self, device: &Device) -> (Option<Tap>, Option<WhyLog>) {
        let packets = self.why_packets.as_ref();
        let packets = packets.map(|file| (file.clone(), RecentPackets::new(device)));
        let recent = packets.as_ref().map(|(_, recent)| recent.clone());
        let taps = self.capture.is_some() || recent.is_some();
        let tap = taps.then(|| Tap::new(self.capture.as_ref(), recent, device));
        let logs = self.why.is_some() || packets.is_some();
        (tap, logs.then(|| WhyLog::new(self.why.clone(), packets)))
    }

    /// The faults of the network for a new context. Each context of the process has a seed of its
    /// own; otherwise all would lose the same packets.
    pub(crate) fn network_faults(&self) -> Result<Option<FaultSpec>, OpenError> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let Some(faults) = &self.faults else {
            return Ok(None);
        };
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Some(FaultSpec {
            seed: Some(seed_of(faults)?.wrapping_add(number)),
            ..*faults.network()
        }))
    }

    /// The judge of a new context's injections, if the options have any.
    pub(crate) fn judge(&self) -> Result<Option<Arc<Judge>>, OpenError> {
        match &self.faults {
            Some(_) if self.faults_of_process => Judge::from_environment(),
            Some(faults) if !faults.injections().is_empty() => {
                Ok(Some(Judge::new(faults.clone(), seed_of(faults)?)))
            }
            _ => Ok(None),
        }
    }
}

/// The seed of faults, drawn if they have none.
fn seed_of(faults: &Faults) -> Result<u64, OpenError> {
    match faults.network().seed {
        Some(seed) => Ok(seed),
        None => draw_seed().map_err(OpenError::system("drawing a random seed for faults")),
    }
}
