//! The counters of lanes.

use super::destination::Link;
use roce_port::{NotAccepted, Refusal};
use std::os::fd::OwnedFd;

/// The counters of a device's lanes.
#[derive(Debug, Default)]
pub(super) struct LaneCounters {
    pub(super) tx_packets: u64,
    pub(super) tx_bytes: u64,
    pub(super) rx_packets: u64,
    pub(super) rx_bytes: u64,
    pub(super) opened: u64,
    pub(super) accepted: u64,
    pub(super) wake_ups: u64,
    pub(super) full: u64,
    pub(super) stalled: u64,
    pub(super) broken: u64,
    pub(super) silent: u64,
    pub(super) other_user: u64,
    pub(super) no_room: u64,
}

impl LaneCounters {
    /// Counts the answer to an offer, if it is one. Returns what follows from it.
    pub(super) fn note(
        &mut self,
        offered: Result<(Link, OwnedFd), Refusal>,
    ) -> (Link, Option<OwnedFd>) {
        match offered {
            Ok((link, connection)) => {
                self.opened += u64::from(link.lane().is_some());
                (link, Some(connection))
            }
            Err(Refusal { why, witness }) => {
                match why {
                    NotAccepted::Nobody => {}
                    NotAccepted::OtherUser => self.other_user += 1,
                    NotAccepted::Silent => self.silent += 1,
                    NotAccepted::NoRoom => self.no_room += 1,
                }
                (Link::Port, witness)
            }
        }
    }

    /// Their names and values.
    pub(super) fn each(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("tx_packets", self.tx_packets),
            ("rx_packets", self.rx_packets),
            ("tx_bytes", self.tx_bytes),
            ("rx_bytes", self.rx_bytes),
            ("tx_lane_packets", self.tx_packets),
            ("rx_lane_packets", self.rx_packets),
            ("lanes_opened", self.opened),
            ("lanes_accepted", self.accepted),
            ("lane_wake_ups", self.wake_ups),
            ("tx_lane_full", self.full),
            ("tx_lane_stalled", self.stalled),
            ("lanes_broken", self.broken),
            ("lanes_silent", self.silent),
            ("lanes_other_user", self.other_user),
            ("lanes_no_room", self.no_room),
        ]
    }
}
