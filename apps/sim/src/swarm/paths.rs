//! The paths of pairs: their network layer, limits of rates, and congestion control.

use super::plan::PairPlan;
use super::state::Run;
use crate::fabric::HostId;
use crate::oracle::{CongestionCounts, CongestionLimits, Network, Verdict, about};
use roce_stack::{Instant, NetworkHeader, QpAttributes, QpState, RateLimit, RoceVersion};
use std::net::IpAddr;

/// The limit of a QP whose path and whose application may both limit it.
fn effective_limit(limit: RateLimit, static_rate: u32) -> RateLimit {
    let rates = [limit.kilobits_per_second, static_rate];
    let lower = rates.into_iter().filter(|rate| *rate != 0).min();
    RateLimit {
        kilobits_per_second: lower.unwrap_or(0),
        ..limit
    }
}

/// The header of packets of this version between addresses of this family.
pub(super) fn network_header(version: RoceVersion, address: IpAddr) -> NetworkHeader {
    match (version, address) {
        (RoceVersion::V1, _) => NetworkHeader::Grh,
        (RoceVersion::V2, IpAddr::V4(_)) => NetworkHeader::Ipv4,
        (RoceVersion::V2, IpAddr::V6(_)) => NetworkHeader::Ipv6,
    }
}

impl Run<'_> {
    /// Sets the congestion control of a host with a new NIC.
    pub(super) fn configure(&mut self, host: HostId) {
        if let Some(settings) = self.plan.congestion.get(host.0) {
            self.fabric.nic(host).set_congestion(settings);
        }
    }

    /// The network layer of the messages of one end.
    pub(super) fn network(&self, plan: &PairPlan, side: usize) -> Network {
        let [from, to] = [side, 1 - side].map(|end| self.fabric.address(HostId(plan.hosts[end])));
        Network {
            header: network_header(plan.connect.version, from),
            from,
            to,
        }
    }

    /// Reports the limits with which a pair starts to the oracle.
    pub(super) fn note_first_limits(&mut self, pair: usize) {
        for side in [0, 1] {
            self.note_limit(pair, side, self.plan.pairs[pair].connect.rate_limit[side]);
        }
    }

    pub(super) fn note_limit(&mut self, pair: usize, side: usize, limit: RateLimit) {
        let connect = &self.plan.pairs[pair].connect;
        let static_rate = match connect.kind.is_connected() {
            true => connect.static_rate[side],
            false => 0,
        };
        let limit = effective_limit(limit, static_rate);
        let mtu = match connect.kind.is_connected() {
            true => connect.path_mtu.bytes(),
            false => self.plan.link.max_packet_bytes,
        };
        self.outcome.counts.limited += u64::from(limit.kilobits_per_second != 0);
        let now = self.fabric.now();
        let sent = self.bytes_sent(pair, side, now).unwrap_or(0);
        self.oracle
            .rate_limited((pair, side), (now, sent), limit, mtu);
    }

    /// The payload bytes that a QP has sent so far.
    fn bytes_sent(&mut self, pair: usize, side: usize, now: Instant) -> Option<u64> {
        let (host, qpn) = (self.end(pair, side).host, self.end(pair, side).qpn);
        let status = self.fabric.nic(host).qp_status(now, qpn)?;
        Some(status.traffic.tx_bytes)
    }

    /// Checks that a QP has sent no faster than its limit allows, and its CNPs not too often.
    pub(super) fn check_rate(&mut self, pair: usize, side: usize) -> Verdict {
        self.check_cnps(pair, side)?;
        if !self.end(pair, side).alive || !self.oracle.is_rate_limited(pair, side) {
            return Ok(());
        }
        let now = self.fabric.now();
        match self.bytes_sent(pair, side, now) {
            Some(sent) => self.oracle.bytes_sent(pair, side, now, sent),
            None => Ok(()),
        }
    }

    /// Limits the rate of a QP that may send, or removes its limit.
    pub(super) fn limit_rate(&mut self, pair: usize, side: usize, limit: RateLimit) -> Verdict {
        self.check_rate(pair, side)?;
        let (host, qpn) = (self.end(pair, side).host, self.end(pair, side).qpn);
        let state = self.qp_state(pair, side);
        if state != Some(QpState::Rts) {
            return Ok(());
        }
        let attributes = QpAttributes {
            state,
            rate_limit: Some(limit),
            ..QpAttributes::default()
        };
        let now = self.fabric.now();
        self.fabric
            .nic(host)
            .modify_qp(now, qpn, &attributes)
            .map_err(about(format_args!("pair {pair} side {side}: {limit:?}")))?;
        self.note_limit(pair, side, limit);
        self.drive(host);
        Ok(())
    }

    /// Checks the congestion counters of pairs whose QPs exist.
    pub(super) fn check_congestion(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            let counts = [
                self.congestion_counts(pair, 0),
                self.congestion_counts(pair, 1),
            ];
            let [Some(first), Some(second)] = counts else {
                continue;
            };
            self.outcome.counts.cnps += first.cnps_sent + second.cnps_sent;
            let limits = self.congestion_limits(pair);
            self.oracle
                .check_congestion(pair, [first, second], limits)?;
        }
        Ok(())
    }

    fn congestion_limits(&self, pair: usize) -> CongestionLimits {
        let plan = &self.plan.pairs[pair];
        CongestionLimits {
            any_marked: self.fabric.counters().marked > 0,
            has_ecn: plan.connect.version == RoceVersion::V2,
        }
    }

    /// Checks that a QP has not sent CNPs too often, if that is configured.
    fn check_cnps(&mut self, pair: usize, side: usize) -> Verdict {
        let host = self.plan.pairs[pair].hosts[side];
        let Some(settings) = self.plan.congestion.get(host) else {
            return Ok(());
        };
        let period = settings.notification.min_time_between_cnps;
        match self.congestion_counts(pair, side) {
            Some(counts) => {
                let now = self.fabric.now();
                self.oracle
                    .cnps_sent((pair, side), now, counts.cnps_sent, period)
            }
            None => Ok(()),
        }
    }

    fn congestion_counts(&mut self, pair: usize, side: usize) -> Option<CongestionCounts> {
        let end = self.pairs[pair].as_ref().map(|state| &state.ends[side])?;
        let (host, qpn) = (end.host, end.qpn);
        if !end.alive {
            return None;
        }
        let now = self.fabric.now();
        let counts = self.fabric.nic(host).qp_congestion(now, qpn)?;
        Some(CongestionCounts {
            marked: counts.ecn_marked,
            cnps_sent: counts.cnps_sent,
            suppressed: counts.cnps_suppressed,
            cnps_received: counts.cnps_received,
        })
    }
}
