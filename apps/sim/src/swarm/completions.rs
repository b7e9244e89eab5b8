//! Processes the completions and events of hosts.

use super::end::End;
use super::state::{PoolState, Run};
use crate::fabric::HostId;
use crate::oracle::{Verdict, violated};
use roce_stack::{Event, WcOpcode};
use roce_wire::Qpn;

impl Run<'_> {
    /// Polls a host's completions and events, and lets its applications continue.
    pub(super) fn poll_host(&mut self, host: HostId) -> Verdict {
        if self.paused[host.0] {
            return Ok(());
        }
        for (pair, side) in self.all_ends() {
            if !self.is_of(pair, side, host) {
                continue;
            }
            self.check_rate(pair, side)?;
            if !self.postpones_poll(pair, side) && self.poll(pair, side)? {
                match self.end(pair, side).in_host_cq {
                    true => self.post_requests_of_host(host)?,
                    false => self.post_requests(pair, side)?,
                }
            }
        }
        for pool in 0..self.pools.len() {
            if self.pools[pool].host == host {
                self.refill(pool)?;
            }
        }
        self.poll_groups(host)?;
        self.poll_manager(host)?;
        while let Some(event) = self.fabric.nic(host).poll_event() {
            self.event(host, event)?;
        }
        Ok(())
    }

    /// Polls the completions of all ends of a host.
    pub(super) fn poll_all(&mut self, host: HostId) -> Verdict {
        for (pair, side) in self.all_ends() {
            if self.is_of(pair, side, host) {
                self.poll(pair, side)?;
            }
        }
        Ok(())
    }

    /// The end with this QP.
    pub(super) fn end_of(&self, host: HostId, qpn: Qpn) -> Option<(usize, usize)> {
        self.all_ends().find(|&(pair, side)| {
            let is_it = |end: &End| end.qpn == qpn && end.alive;
            self.is_of(pair, side, host) && is_it(self.end(pair, side))
        })
    }

    fn event(&mut self, host: HostId, event: Event) -> Verdict {
        let find = |qpn| self.end_of(host, qpn);
        match event {
            Event::QpFatal(qpn) | Event::QpRequestError(qpn) | Event::QpAccessError(qpn) => {
                let Some((pair, side)) = find(qpn) else {
                    return Ok(());
                };
                // Completions precede the event.
                self.poll(pair, side)?;
                if let Event::QpFatal(_) = event {
                    self.check_fatal(pair, side)?;
                }
                if self.oracle.may_be_broken(pair, side) {
                    return Ok(());
                }
                violated(format!("pair {pair} side {side}: {event:?} has no cause"))
            }
            Event::SqDrained(qpn) => {
                let Some((pair, side)) = find(qpn) else {
                    return Ok(());
                };
                self.poll(pair, side)?;
                if !self.end(pair, side).draining {
                    return violated(format!("pair {pair} side {side} drained without a request"));
                }
                self.oracle.drained(pair, side, true);
                Ok(())
            }
            Event::LastWqeReached(qpn) => {
                let Some((pair, side)) = find(qpn) else {
                    return Ok(());
                };
                self.poll(pair, side)?;
                if !self.end(pair, side).shared {
                    return violated(format!("pair {pair} side {side} has no SRQ: {event:?}"));
                }
                self.oracle.last_wqe_reached(pair, side)
            }
            Event::SrqLimit(srqn) => {
                let is_it = |state: &PoolState| {
                    state.host == host && state.alive && state.queue.srqn() == Some(srqn)
                };
                match self.pools.iter().position(is_it) {
                    Some(pool) => self.limit_reached(pool),
                    None => violated(format!("host {}: {event:?}", host.0)),
                }
            }
            Event::CommEstablished(qpn) => self.first_message(host, qpn),
            Event::CqError(id) => self.cq_error(host, id),
            Event::CqNotify(id) => self.notified(host, id),
            other => violated(format!("host {}: {other:?}", host.0)),
        }
    }
}

pub(super) fn is_receive(opcode: WcOpcode) -> bool {
    matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm)
}
