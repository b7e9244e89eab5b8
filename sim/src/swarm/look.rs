//! What hosts have to tell: completions and events.

use super::outcome::label;
use super::pools::PoolState;
use super::run::{PairState, Run};
use crate::fabric::HostId;
use crate::oracle::{Verdict, Violation, violated};
use roce_stack::{Completion, Event, QpKind, WcOpcode, WcStatus};
use roce_wire::Qpn;

impl Run<'_> {
    /// Takes a host's completions and events, and lets its applications go on.
    pub(super) fn look_at(&mut self, host: HostId) -> Verdict {
        if self.paused[host.0] {
            return Ok(());
        }
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                let here = |state: &PairState| state.ends[side].host == host;
                if self.pairs[pair].as_ref().is_some_and(here) && self.poll(pair, side)? {
                    self.pump(pair, side)?;
                }
            }
        }
        for pool in 0..self.pools.len() {
            if self.pools[pool].host == host {
                self.refill(pool)?;
            }
        }
        while let Some(event) = self.fabric.nic(host).poll_event() {
            self.event(host, event)?;
        }
        Ok(())
    }

    /// Takes an end's completions. Returns whether there were any.
    pub(super) fn poll(&mut self, pair: usize, side: usize) -> Result<bool, Violation> {
        let kind = self.plan.pairs[pair].connect.kind;
        if kind.is_xrc() && side == 1 {
            return self.poll_srqs(self.end(pair, side).host);
        }
        let end = self.end(pair, side);
        if end.send_cq.is_empty() && end.recv_cq.is_empty() {
            return Ok(false);
        }
        let mut taken = core::mem::take(&mut self.taken);
        let end = self.end(pair, side);
        for cq in [&end.send_cq, &end.recv_cq] {
            loop {
                match cq.poll() {
                    Ok(Some(done)) => taken.push(done),
                    Ok(None) => break,
                    Err(error) => return violated(format!("pair {pair} side {side}: {error}")),
                }
            }
        }
        // What failed in one queue is why requests in the other were flushed.
        let flushed = |status| matches!(status, WcStatus::Success | WcStatus::WorkRequestFlushed);
        let breaks = |done: &Completion| match kind {
            // An error of a send leaves receiving as it is.
            QpKind::Uc | QpKind::Ud => is_receive(done.opcode) && !flushed(done.status),
            _ => !flushed(done.status),
        };
        if taken.iter().any(breaks) {
            self.oracle.broke(pair, side);
        }
        for done in taken.drain(..) {
            if done.qpn != self.end(pair, side).qpn {
                return violated(format!("a completion of another QP: {done:?}"));
            }
            let name = label(done.status);
            *self.outcome.completions.entry(name).or_default() += 1;
            self.oracle.completed(pair, side, &done)?;
            if let (Some(pool), true) = (self.end(pair, side).pool, is_receive(done.opcode)) {
                self.place_is_free(pool, done.wr_id);
            }
        }
        self.taken = taken;
        Ok(true)
    }

    /// Takes the completions of all ends of a host.
    pub(super) fn poll_all(&mut self, host: HostId) -> Verdict {
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                let here = |state: &PairState| state.ends[side].host == host;
                if self.pairs[pair].as_ref().is_some_and(here) {
                    self.poll(pair, side)?;
                }
            }
        }
        Ok(())
    }

    /// The end that has this QP.
    pub(super) fn end_of(&self, host: HostId, qpn: Qpn) -> Option<(usize, usize)> {
        let mut all = (0..self.pairs.len()).flat_map(|pair| [(pair, 0), (pair, 1)]);
        all.find(|(pair, side)| {
            self.pairs[*pair].as_ref().is_some_and(|state| {
                let end = &state.ends[*side];
                end.host == host && end.qpn == qpn && end.alive
            })
        })
    }

    fn event(&mut self, host: HostId, event: Event) -> Verdict {
        let find = |qpn| self.end_of(host, qpn);
        match event {
            Event::QpFatal(qpn, _) | Event::QpRequestError(qpn) | Event::QpAccessError(qpn) => {
                let Some((pair, side)) = find(qpn) else {
                    return Ok(());
                };
                // Its completions came before.
                self.poll(pair, side)?;
                if self.oracle.may_be_broken(pair, side) {
                    return Ok(());
                }
                violated(format!("pair {pair} side {side}: {event:?} has no cause"))
            }
            Event::SqDrained(qpn) => {
                let Some((pair, side)) = find(qpn) else {
                    return Ok(());
                };
                if !self.end(pair, side).draining {
                    return violated(format!("pair {pair} side {side} drained unasked"));
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
                self.oracle.last_wqe(pair, side)
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
            Event::CqNotify(_) => Ok(()),
            other => violated(format!("host {}: {other:?}", host.0)),
        }
    }
}

pub(super) fn is_receive(opcode: WcOpcode) -> bool {
    matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm)
}
