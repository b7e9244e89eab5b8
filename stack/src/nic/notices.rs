//! What the NIC does about congestion: CNPs leave before anything else.

use super::{CongestionControl, Nic, NotificationPoint};
use crate::congestion::{CongestionSettings, QpCongestion};
use crate::qp::{Qp, Turn};
use crate::time::Instant;
use crate::transmit::Transmit;
use core::hint::cold_path;
use roce_wire::Qpn;

impl Nic {
    /// Sets how marked packets are answered from now on.
    pub fn set_notification_point(&mut self, point: NotificationPoint) {
        self.congestion.notification = point;
    }

    /// How marked packets are answered.
    pub fn notification_point(&self) -> NotificationPoint {
        self.congestion.notification
    }

    /// Sets how senders keep from filling the network's queues; at first by DCQCN with the
    /// paper's parameters. If it stays the same algorithm, QPs keep the rates that they
    /// have; if not, all of them begin anew.
    pub fn set_congestion_control(&mut self, control: CongestionControl) {
        if self.congestion.control.name() != control.name() {
            self.qps.iter_mut().for_each(Qp::forget_congestion);
        }
        self.congestion.control = control;
    }

    /// Sets both.
    pub fn set_congestion(&mut self, settings: &CongestionSettings) {
        self.set_notification_point(settings.notification);
        self.set_congestion_control(settings.control);
    }

    /// Both.
    pub fn congestion(&self) -> CongestionSettings {
        CongestionSettings {
            control: self.congestion.control,
            notification: self.congestion.notification,
        }
    }

    /// How senders keep from filling the network's queues.
    pub fn congestion_control(&self) -> CongestionControl {
        self.congestion.control
    }

    /// What congestion control has made of a QP, as of `now`; `None` if there is no such QP.
    pub fn qp_congestion(&self, now: Instant, qpn: Qpn) -> Option<QpCongestion> {
        let qp = self.qps.get(qpn)?;
        Some(qp.congestion(now, &self.congestion.control))
    }

    /// Sends what CNPs are owed. Returns whether there was room for all of them.
    pub(super) fn transmit_notices(&mut self, now: Instant, port: &mut dyn Transmit) -> bool {
        while let Some(handle) = self.notices.pop_front() {
            cold_path();
            let turn = self.with_qp_unscheduled(now, handle, |qp, cx| qp.transmit_notice(cx, port));
            if turn == Some(Turn::PortFull) {
                self.notices.push_front(handle);
                return false;
            }
        }
        true
    }
}
