//! The congestion settings of the NIC, and its CNPs, which are sent before any other packet.

use super::{CongestionControl, Nic, NotificationPoint};
use crate::congestion::{CongestionSettings, QpCongestion};
use crate::qp::{Qp, Turn};
use crate::time::Instant;
use crate::transmit::Transmit;
use core::hint::cold_path;
use roce_wire::Qpn;

impl Nic {
    /// Sets how the NIC responds to ECN-marked packets from now on.
    pub fn set_notification_point(&mut self, point: NotificationPoint) {
        self.shared.congestion.notification = point;
    }

    /// How the NIC responds to ECN-marked packets.
    pub fn notification_point(&self) -> NotificationPoint {
        self.shared.congestion.notification
    }

    /// Sets the congestion control of all QPs as senders; the default is DCQCN with the paper's
    /// parameters. If the algorithm stays the same, QPs keep their rates. Otherwise their
    /// congestion state is reset.
    pub fn set_congestion_control(&mut self, control: CongestionControl) {
        if self.shared.congestion.control.name() != control.name() {
            self.qps.iter_mut().for_each(Qp::forget_congestion);
        }
        self.shared.congestion.control = control;
    }

    /// Sets the notification point and the congestion control.
    pub fn set_congestion(&mut self, settings: &CongestionSettings) {
        self.set_notification_point(settings.notification);
        self.set_congestion_control(settings.control);
    }

    /// The notification point and the congestion control.
    pub fn congestion(&self) -> CongestionSettings {
        CongestionSettings {
            control: self.shared.congestion.control,
            notification: self.shared.congestion.notification,
        }
    }

    /// The senders' congestion control.
    pub fn congestion_control(&self) -> CongestionControl {
        self.shared.congestion.control
    }

    /// The congestion state of a QP as of `now`; `None` if there is no such QP.
    pub fn qp_congestion(&self, now: Instant, qpn: Qpn) -> Option<QpCongestion> {
        let qp = self.qps.get(qpn)?;
        Some(qp.congestion(now, &self.shared.congestion.control))
    }

    /// Sends the CNPs that are due. Returns whether the port had room for all of them.
    pub(super) fn transmit_cnps(&mut self, now: Instant, port: &mut dyn Transmit) -> bool {
        while let Some(handle) = self.pending_cnps.pop_front() {
            cold_path();
            let turn = self.with_qp_unscheduled(now, handle, |qp, cx| qp.transmit_cnp(cx, port));
            // Otherwise, the CNP is lost, as the network may lose it.
            if turn == Some(Turn::PortFull) && !port.has_room_for_others() {
                self.pending_cnps.push_front(handle);
                return false;
            }
        }
        true
    }
}
