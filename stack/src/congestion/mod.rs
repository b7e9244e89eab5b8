//! Congestion control by ECN marks, as in DCQCN (Zhu et al., SIGCOMM 2015; RoCEv2 Annex
//! A17.9). A switch whose queue grows marks packets; their receiver, the
//! [`notification`] point, tells their sender with congestion notification packets (CNPs).

pub(crate) mod notification;

pub use notification::NotificationPoint;

/// What a NIC does about congestion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Congestion {
    pub(crate) notification: NotificationPoint,
}
