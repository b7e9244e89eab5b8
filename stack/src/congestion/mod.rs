//! Congestion control: senders avoid filling the queues of the network.
//!
//! With DCQCN (Zhu et al., SIGCOMM 2015; RoCEv2 Annex A17.9.3), a switch whose queue grows marks
//! packets; their receiver, the [`notification`] point, informs the sender with congestion
//! notification packets (CNPs). The sender, the reaction point, lowers its rate and raises it again
//! ([`dcqcn`]), and keeps to it ([`limiter`]). Where no switch marks packets, round trips carry the
//! same information ([`delay`]). Both algorithms implement the trait in [`law`]. An application may
//! limit the rate of a QP further ([`rate_limit`]).

mod dcqcn;
mod delay;
mod law;
pub(crate) mod limiter;
pub(crate) mod notification;
mod parameters;
mod rate_limit;
mod sender;
mod settings;
mod status;

pub(crate) use law::Acked;
pub use notification::NotificationPoint;
pub use parameters::{CongestionControl, DcqcnParameters, DelayParameters};
pub use rate_limit::RateLimit;
pub use settings::{CongestionSettings, CongestionSettingsError};
pub use status::QpCongestion;

/// The congestion control settings of a NIC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Congestion {
    pub(crate) notification: NotificationPoint,
    pub(crate) control: CongestionControl,
}
