//! The description of an experiment.

use super::topology::{Loss, Topology};
use crate::fabric::EcnSpec;
use roce_stack::{
    CongestionControl, DcqcnParameters, DelayParameters, Duration, NotificationPoint,
};
use serde::Serialize;

/// The senders' reaction to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// DCQCN, with the parameters of the scenario.
    Dcqcn,
    /// Based on round-trip times.
    Delay,
    /// None: only the switch's flow control, or loss, slows the senders.
    None,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dcqcn, Self::Delay, Self::None];

    /// Its name in tables and arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dcqcn => "dcqcn",
            Self::Delay => "delay",
            Self::None => "none",
        }
    }
}

/// A flow of data from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// The number of the host that sends.
    pub from: usize,
    /// The number of the host that receives.
    pub to: usize,
    /// When it starts.
    pub start: Duration,
    /// When it stops abruptly; `None` if it lasts until the end of the experiment or of its bytes.
    pub stop: Option<Duration>,
    /// The amount of data; `None` for unlimited.
    pub bytes: Option<u64>,
}

impl FlowPlan {
    /// A flow that always has data to send.
    pub const fn endless(from: usize, to: usize) -> Self {
        Self {
            from,
            to,
            start: Duration::ZERO,
            stop: None,
            bytes: None,
        }
    }
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, for arguments and files.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Hosts, switches and links. With [`Topology::Given`] the next four have no effect.
    pub topology: Topology,
    /// Bits per second of every link.
    pub bits_per_sec: u64,
    /// The delay from one end of a link to the other.
    pub delay: Duration,
    /// The switches' marking.
    pub ecn: EcnSpec,
    /// The switches' behaviour when they run full.
    pub loss: Loss,
    /// The senders' algorithm.
    pub algorithm: Algorithm,
    /// The parameters of DCQCN.
    pub dcqcn: DcqcnParameters,
    /// How receivers respond to marked packets.
    pub notification: NotificationPoint,
    /// The parameters of the algorithm based on round-trip times.
    pub round_trips: DelayParameters,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// When it ends. Flows of a mix may take longer.
    pub duration: Duration,
    /// Time between two points of the curves.
    pub every: Duration,
}

impl Scenario {
    /// The same scenario with another algorithm, and another behaviour of full switches.
    #[must_use]
    pub fn with(&self, algorithm: Algorithm, loss: Loss) -> Self {
        Self {
            algorithm,
            loss,
            ..self.clone()
        }
    }

    pub(super) fn control(&self) -> CongestionControl {
        match self.algorithm {
            Algorithm::Dcqcn => CongestionControl::Dcqcn(self.dcqcn),
            Algorithm::Delay => CongestionControl::Delay(self.round_trips),
            Algorithm::None => CongestionControl::None,
        }
    }

    /// Whether all flows end by themselves, so that their completion times count.
    pub fn is_mix(&self) -> bool {
        self.flows.iter().all(|flow| flow.bytes.is_some())
    }
}
