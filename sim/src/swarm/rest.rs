//! The end of a run.

use super::state::Run;
use crate::fabric::HostId;
use crate::oracle::{Verdict, violated};
use roce_stack::{Duration, QpState, Stat};

impl Run<'_> {
    /// Checks the end of a run: everything must be finished, and nothing may be left after all
    /// objects are destroyed.
    pub(super) fn at_rest(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                self.poll(pair, side)?;
                let end = self.end(pair, side);
                let left = self.plan.pairs[pair].ops[side].len() - end.next_op;
                if end.alive && left > 0 {
                    return violated(format!(
                        "pair {pair} side {side}, at rest: {left} requests could not be posted"
                    ));
                }
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
        self.oracle.at_rest(|pair, side| queued[pair][side])?;
        self.pools_at_rest()?;
        self.last_wqes_known()?;
        self.cqs_at_rest()?;
        let under_way = self.fabric.under_way();
        if under_way != (0, 0) {
            return violated(format!(
                "at rest, but packets and bytes wait: {under_way:?}"
            ));
        }
        self.take_down()
    }

    /// Checks that every failed QP with an SRQ was reported to take no more receives.
    fn last_wqes_known(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                let end = self.end(pair, side);
                let (host, qpn) = (end.host, end.qpn);
                if !end.alive || !end.shared {
                    continue;
                }
                let state = self.fabric.nic(host).query_qp(qpn).map(|known| known.0);
                let told = self.oracle.is_last_wqe_known(pair, side);
                if (state == Some(QpState::Err)) != told {
                    return violated(format!(
                        "pair {pair} side {side} is in {state:?}, last WQE reached: {told}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Destroys everything and checks that nothing is left.
    fn take_down(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                self.destroy(pair, side)?;
                for area in 0..3 {
                    self.deregister(pair, side, area)?;
                }
                for window in 0..self.plan.pairs[pair].windows[side].len() {
                    self.free_window(pair, side, window)?;
                }
            }
        }
        self.destroy_pools()?;
        let later = self.fabric.now() + Duration::from_secs(1_000_000);
        for host in 0..self.words.len() {
            let key = self.words[host].region.key;
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

    pub(super) fn sum_up(&mut self) {
        self.outcome.fingerprint = self.fabric.fingerprint();
        self.outcome.packets = self.fabric.counters();
        self.outcome.virtual_ns = self.fabric.now().as_nanos();
        for host in 0..self.fabric.hosts() {
            let counters = self.fabric.nic(HostId(host)).counters();
            self.outcome.retransmitted += counters.stat(Stat::Retransmitted);
            self.outcome.dropped_by_nics += counters.total_drops();
        }
    }
}
