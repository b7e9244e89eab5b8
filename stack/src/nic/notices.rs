//! What the NIC does about congestion: CNPs leave before anything else.

use super::{CongestionControl, Nic, NotificationPoint};
use crate::port::Port;
use crate::qp::Turn;
use crate::time::Instant;

impl Nic {
    /// Sets how marked packets are answered from now on.
    pub fn set_notification_point(&mut self, point: NotificationPoint) {
        self.congestion.notification = point;
    }

    /// Sets how CNPs are answered from now on; at first by DCQCN with the paper's parameters.
    /// Rates that were lowered before stay so if it goes on to be DCQCN.
    pub fn set_congestion_control(&mut self, control: CongestionControl) {
        self.congestion.control = control;
    }

    /// Sends what CNPs are owed. Returns whether there was room for all of them.
    pub(super) fn transmit_notices(&mut self, now: Instant, port: &mut dyn Port) -> bool {
        while let Some(handle) = self.notices.pop_front() {
            let turn = self.with_qp_unscheduled(now, handle, |qp, cx| qp.transmit_notice(cx, port));
            if turn == Some(Turn::PortFull) {
                self.notices.push_front(handle);
                return false;
            }
        }
        true
    }
}
