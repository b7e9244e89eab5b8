//! Congestion control by ECN marks, as in DCQCN (Zhu et al., SIGCOMM 2015; RoCEv2 Annex
//! A17.9). A switch whose queue grows marks packets; their receiver, the
//! [`notification`] point, tells their sender with congestion notification packets (CNPs).
//! The sender, the reaction point, lowers its rate and raises it again ([`dcqcn`]), and
//! keeps to it ([`limiter`]).

mod dcqcn;
pub(crate) mod limiter;
pub(crate) mod notification;
mod parameters;

pub use notification::NotificationPoint;
pub use parameters::{CongestionControl, DcqcnParameters};

/// What a NIC does about congestion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Congestion {
    pub(crate) notification: NotificationPoint,
    pub(crate) control: CongestionControl,
}

impl Congestion {
    /// What DCQCN was told, if it rules.
    pub(crate) fn dcqcn(&self) -> Option<&DcqcnParameters> {
        match &self.control {
            CongestionControl::None => None,
            CongestionControl::Dcqcn(parameters) => Some(parameters),
        }
    }
}
