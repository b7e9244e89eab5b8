//! The checks at the end of a run, also of the causes that NICs name for failures, and the removal of
//! all objects.

use super::state::Run;
use crate::fabric::HostId;
use crate::oracle::{Verdict, violated};
use roce_stack::{Cause, Duration, Failure, QpState, Stat, WcOpcode};

impl Run<'_> {
    /// Checks the end of a run: all requests are finished, and nothing is left after all objects
    /// are destroyed.
    pub(super) fn check_end(&mut self) -> Verdict {
        self.check_events_came()?;
        for (pair, side) in self.all_ends() {
            self.poll(pair, side)?;
            let end = self.end(pair, side);
            let unposted = self.plan.pairs[pair].ops[side].len() - end.next_op;
            if end.alive && end.ready && unposted > 0 {
                return violated(format!(
                    "pair {pair} side {side}: {unposted} requests could not be posted"
                ));
            }
        }
        let (pairs, fabric) = (&self.pairs, &mut self.fabric);
        let mut queued = Vec::new();
        for state in pairs.iter().flatten() {
            queued.push([0, 1].map(|side: usize| {
                let end = &state.ends[side];
                let queued = fabric.nic(end.host).queued(end.qpn);
                queued.filter(|_| end.alive)
            }));
        }
        self.oracle.check_idle(|pair, side| queued[pair][side])?;
        self.check_pools_idle()?;
        self.check_last_wqes_reached()?;
        self.check_causes()?;
        self.check_cq_errors_reported()?;
        self.check_congestion()?;
        self.check_groups()?;
        self.check_managers()?;
        let in_flight = self.fabric.in_flight();
        if in_flight != (0, 0) {
            return violated(format!(
                "the run has ended, but packets and bytes wait: {in_flight:?}"
            ));
        }
        self.destroy_all()
    }

    /// Checks that every failed QP with an SRQ was reported to take no more receives.
    fn check_last_wqes_reached(&mut self) -> Verdict {
        for (pair, side) in self.all_ends() {
            let end = self.end(pair, side);
            if !end.alive || !end.shared {
                continue;
            }
            let state = self.qp_state(pair, side);
            let is_reported = self.oracle.has_reached_last_wqe(pair, side);
            if (state == Some(QpState::Err)) != is_reported {
                return violated(format!(
                    "pair {pair} side {side} is in {state:?}, last WQE reached: {is_reported}"
                ));
            }
        }
        Ok(())
    }

    /// Destroys everything and checks that nothing is left.
    fn destroy_all(&mut self) -> Verdict {
        for (pair, side) in self.all_ends() {
            self.destroy(pair, side)?;
            for area in 0..3 {
                self.deregister(pair, side, area)?;
            }
            for window in 0..self.plan.pairs[pair].windows[side].len() {
                self.free_window(pair, side, window)?;
            }
        }
        self.destroy_pools()?;
        self.destroy_groups()?;
        self.stop_managers();
        let later = self.fabric.now() + Duration::from_secs(1_000_000);
        for host in 0..self.hosts.len() {
            let key = self.hosts[host].region.key;
            self.fabric.drive(HostId(host));
            let nic = self.fabric.nic(HostId(host));
            nic.deregister(key);
            nic.handle_timeouts(later);
            while nic.poll_event().is_some() {}
            let usage = nic.usage();
            if usage != roce_stack::Usage::default() || nic.wants_to_send() {
                return violated(format!("host {host} still holds {usage:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn collect_counters(&mut self) {
        self.outcome.fingerprint = self.fabric.fingerprint();
        self.outcome.counts.packets = self.fabric.counters();
        self.outcome.virtual_ns = self.fabric.now().as_nanos();
        for host in 0..self.fabric.hosts() {
            let counters = self.fabric.nic(HostId(host)).counters();
            self.outcome.counts.retransmitted += counters.stat(Stat::Retransmitted);
            self.outcome.counts.dropped_by_nics += counters.total_drops();
        }
    }
}

/// Whether this is about a request of the peer that was refused, and by which NAK.
fn refusal(cause: &Cause) -> Option<&'static str> {
    match cause {
        Cause::PeerAccess { .. } => Some("access"),
        Cause::ReceiveMemory { .. } => Some("operation"),
        Cause::PeerRight { .. }
        | Cause::MessageTooLong { .. }
        | Cause::OutOfPlace { .. }
        | Cause::WrongLength { .. }
        | Cause::TooManyFetches { .. }
        | Cause::TooLong { .. }
        | Cause::Misaligned { .. }
        | Cause::WrongSrq => Some("invalid"),
        // An illegal FLUSH is invalid, and one to persistent memory is denied access.
        _ => None,
    }
}

/// Whether a requester's cause agrees with that of the peer that refused the request. A peer that
/// failed for another reason before may still refuse: it sends the responses of READs after later
/// requests have arrived, so such a request may fail its QP before a READ loses its memory.
fn agree(own: &Failure, peer: &Cause) -> bool {
    let of_read = own
        .request
        .is_some_and(|request| request.opcode == WcOpcode::RdmaRead);
    let told = match own.cause {
        Cause::RefusedAccess { .. } if of_read => return true,
        Cause::RefusedAccess { .. } => "access",
        Cause::RefusedOperation { .. } => "operation",
        Cause::RefusedInvalid { .. } => "invalid",
        _ => return true,
    };
    refusal(peer).is_none_or(|refused| refused == told)
}

impl Run<'_> {
    /// Checks that each QP in an error state has a cause, and that the two ends of a pair agree on
    /// the request that one of them refused.
    pub(super) fn check_causes(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            let failures = [self.cause(pair, 0)?, self.cause(pair, 1)?];
            for side in [0, 1] {
                let (Some(own), Some(peer)) = (failures[side], failures[1 - side]) else {
                    continue;
                };
                if !agree(&own, &peer.cause) {
                    return violated(format!(
                        "pair {pair} side {side}: {:?}, but the peer: {:?}",
                        own.cause, peer.cause
                    ));
                }
            }
        }
        Ok(())
    }

    fn cause(
        &mut self,
        pair: usize,
        side: usize,
    ) -> Result<Option<Failure>, crate::oracle::Violation> {
        let end = self.end(pair, side);
        let (host, qpn, alive) = (end.host, end.qpn, end.alive);
        let state = self.qp_state(pair, side);
        let has_failed = matches!(state, Some(QpState::Err | QpState::Sqe));
        let failure = self.fabric.nic(host).failure(qpn).copied();
        if alive && has_failed != failure.is_some() {
            violated(format!(
                "pair {pair} side {side} is in {state:?}, for this reason: {failure:?}"
            ))?;
        }
        Ok(failure.filter(|_| alive))
    }
}
