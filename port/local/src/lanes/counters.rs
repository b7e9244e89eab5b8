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
        let of = self;
        vec![
            ("tx_packets", of.tx_packets),
            ("rx_packets", of.rx_packets),
            ("tx_bytes", of.tx_bytes),
            ("rx_bytes", of.rx_bytes),
            ("tx_lane_packets", of.tx_packets),
            ("rx_lane_packets", of.rx_packets),
            ("lanes_opened", of.opened),
            ("lanes_accepted", of.accepted),
            ("lane_wake_ups", of.wake_ups),
            ("tx_lane_full", of.full),
            ("tx_lane_stalled", of.stalled),
            ("lanes_broken", of.broken),
            ("lanes_silent", of.silent),
            ("lanes_other_user", of.other_user),
            ("lanes_no_room", of.no_room),
        ]
    }
}
