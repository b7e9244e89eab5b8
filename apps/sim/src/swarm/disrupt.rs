//! Carries out the disruptive actions of applications and hosts.

use super::end::End;
use super::memory::Region;
use super::plan::Action;
use super::state::{HostState, Run, Token};
use crate::fabric::HostId;
use crate::oracle::{AreaName, Verdict, about, violated};
use roce_stack::{Duration, QpAttributes, QpState};
use std::sync::Arc;

impl Run<'_> {
    pub(super) fn end(&self, pair: usize, side: usize) -> &End {
        match &self.pairs[pair] {
            Some(state) => &state.ends[side],
            None => unreachable!("pair {pair} is not connected yet"),
        }
    }

    pub(super) fn end_mut(&mut self, pair: usize, side: usize) -> &mut End {
        match &mut self.pairs[pair] {
            Some(state) => &mut state.ends[side],
            None => unreachable!("pair {pair} is not connected yet"),
        }
    }

    pub(super) fn out_at(&self, pair: usize, side: usize, id: usize) -> usize {
        self.pairs[pair]
            .as_ref()
            .map_or(0, |state| state.memory[side].out_at[id])
    }

    /// Whether the application of this QP is running.
    pub(super) fn is_running(&self, pair: usize, side: usize) -> bool {
        self.pairs[pair].as_ref().is_some_and(|state| {
            let end = &state.ends[side];
            end.alive && !self.paused[end.host.0]
        })
    }

    pub(super) fn disrupt(&mut self, number: usize) -> Verdict {
        match self.plan.disruptions[number].what {
            Action::Destroy(pair, side) if self.is_running(pair, side) => self.destroy(pair, side),
            Action::Break(pair, side) if self.is_running(pair, side) => {
                self.oracle.mark_may_be_broken(pair, side);
                self.modify(pair, side, QpState::Err)
            }
            Action::Drain(pair, side, lasts) if self.is_running(pair, side) => {
                self.drain(pair, side, Duration::from_nanos(lasts), number)
            }
            Action::DropOut(pair, side) if self.is_running(pair, side) => {
                self.deregister(pair, side, 0)
            }
            Action::DropTarget(pair, side) if self.is_running(pair, 1 - side) => {
                self.deregister(pair, side, 1)
            }
            Action::DropInbox(pair, side) if self.is_running(pair, 1 - side) => {
                self.deregister(pair, side, 2)
            }
            Action::DropWindow(pair, side, which) if self.is_running(pair, 1 - side) => {
                self.free_window(pair, side, which)
            }
            Action::Resize(host, depth) if !self.paused[host] => match self.srq(host) {
                Some(pool) => self.resize(pool, depth),
                None => Ok(()),
            },
            Action::Limit(host, limit) if !self.paused[host] => match self.srq(host) {
                Some(pool) => self.set_limit(pool, limit),
                None => Ok(()),
            },
            Action::ResizeCq(pair, side, entries) if self.is_running(pair, side) => {
                self.resize_cqs(pair, side, entries)
            }
            Action::Disconnect(pair, side) if self.is_running(pair, side) => {
                self.disconnect(pair, side)
            }
            Action::Unmap(pair, side, area) => {
                let owner = if area == 0 { side } else { 1 - side };
                match self.is_running(pair, owner) {
                    true => self.unmap(pair, side, area),
                    false => Ok(()),
                }
            }
            Action::Reregister(pair, side, change) if self.is_running(pair, 1 - side) => {
                self.reregister(pair, side, change)
            }
            Action::LimitRate(pair, side, limit) if self.is_running(pair, side) => {
                self.limit_rate(pair, side, limit)
            }
            Action::Pause(host, lasts) if !self.paused[host] => {
                self.paused[host] = true;
                self.fabric.set_paused(HostId(host), true);
                let end = self.fabric.now() + Duration::from_nanos(lasts);
                self.call_at(end, Token::EndDisruption(number));
                Ok(())
            }
            Action::Restart(host) if !self.paused[host] => self.restart(HostId(host), false),
            Action::RestartWithSameSeed(host) if !self.paused[host] => {
                self.restart(HostId(host), true)
            }
            // The target of the action does not exist any more, or not yet, or its host is paused.
            _ => Ok(()),
        }
    }

    /// The SRQ of a host, if it is still there.
    pub(super) fn srq(&self, host: usize) -> Option<usize> {
        self.srqs[host].filter(|pool| self.pools[*pool].alive)
    }

    pub(super) fn end_disruption(&mut self, number: usize) -> Verdict {
        match self.plan.disruptions[number].what {
            Action::Pause(host, _) => {
                self.paused[host] = false;
                self.fabric.set_paused(HostId(host), false);
                self.poll_host(HostId(host))?;
                self.post_requests_of_host(HostId(host))
            }
            Action::Drain(pair, side, _) if self.is_running(pair, side) => {
                self.oracle.drained(pair, side, false);
                self.end_mut(pair, side).draining = false;
                if self.qp_state(pair, side) == Some(QpState::Sqd) {
                    self.modify(pair, side, QpState::Rts)?;
                }
                self.post_requests(pair, side)
            }
            // The host is paused, so this is tried again until the host runs. Then the QP leaves
            // SQD.
            Action::Drain(pair, side, _) if self.pairs[pair].is_some() => {
                let later = self.fabric.now() + Duration::from_millis(1);
                if self.end(pair, side).alive {
                    self.call_at(later, Token::EndDisruption(number));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn post_requests_of_host(&mut self, host: HostId) -> Verdict {
        for (pair, side) in self.all_ends() {
            if self.is_running(pair, side) && self.is_of(pair, side, host) {
                self.post_requests(pair, side)?;
            }
        }
        Ok(())
    }

    pub(super) fn modify(&mut self, pair: usize, side: usize, to: QpState) -> Verdict {
        let (host, qpn) = (self.end(pair, side).host, self.end(pair, side).qpn);
        let now = self.fabric.now();
        let attributes = QpAttributes {
            state: Some(to),
            ..QpAttributes::default()
        };
        self.fabric
            .nic(host)
            .modify_qp(now, qpn, &attributes)
            .map_err(about(format_args!("pair {pair} side {side} to {to:?}")))?;
        self.drive(host);
        Ok(())
    }

    fn drain(&mut self, pair: usize, side: usize, lasts: Duration, number: usize) -> Verdict {
        if self.qp_state(pair, side) != Some(QpState::Rts) || self.end(pair, side).draining {
            return Ok(());
        }
        self.end_mut(pair, side).draining = true;
        self.modify(pair, side, QpState::Sqd)?;
        let until = self.fabric.now() + lasts;
        self.call_at(until, Token::EndDisruption(number));
        Ok(())
    }

    pub(super) fn destroy(&mut self, pair: usize, side: usize) -> Verdict {
        if !self.end(pair, side).alive {
            return Ok(());
        }
        // Completions until now are valid, so take them first. None may follow.
        self.poll(pair, side)?;
        if !self.end(pair, side).alive {
            // The poll found that a CQ of the QP has overrun, and destroyed the QP.
            return Ok(());
        }
        let (host, qpn) = (self.end(pair, side).host, self.end(pair, side).qpn);
        if !self.fabric.nic(host).destroy_qp(qpn) {
            return violated(format!("pair {pair} side {side}: the QP is not there"));
        }
        self.end_mut(pair, side).alive = false;
        self.oracle.destroyed(pair, side)
    }

    /// Deregisters the out (0), target (1) or inbox (2) of a flow.
    pub(super) fn deregister(&mut self, pair: usize, side: usize, area: usize) -> Verdict {
        let owner = if area == 0 { side } else { 1 - side };
        self.poll(pair, owner)?;
        if let (2, Some(pool)) = (area, self.end(pair, owner).pool) {
            self.deregister_pool(pool)?;
        }
        let Some(state) = &mut self.pairs[pair] else {
            return Ok(());
        };
        let memory = &mut state.memory[side];
        let (region, name) = match area {
            0 => (&memory.out, AreaName::Out),
            1 => (&memory.target, AreaName::Target),
            _ => (&memory.inbox, AreaName::Inbox),
        };
        let key = region.key;
        if !core::mem::replace(&mut memory.registered[area], false) {
            return Ok(());
        }
        let host = state.ends[owner].host;
        if !self.fabric.nic(host).deregister(key) {
            return violated(format!("pair {pair} side {side}: {name:?} is not there"));
        }
        self.oracle.deregistered(pair, side, name)
    }

    /// Restarts a host: all objects of its applications are gone.
    fn restart(&mut self, host: HostId, same_seed: bool) -> Verdict {
        for (pair, side) in self.all_ends() {
            if !self.is_running(pair, side) || !self.is_of(pair, side, host) {
                continue;
            }
            self.poll(pair, side)?;
            if core::mem::replace(&mut self.end_mut(pair, side).alive, false) {
                self.oracle.destroyed(pair, side)?;
            }
        }
        for state in self.pairs.iter_mut().flatten() {
            for side in [0, 1] {
                for area in 0..3 {
                    let owner = if area == 0 { side } else { 1 - side };
                    state.memory[side].registered[area] &= state.ends[owner].host != host;
                }
            }
        }
        self.forget_windows(host);
        self.forget_cqs(host);
        self.host_cqs[host.0] = None;
        self.close_pools(host)?;
        self.forget_groups(host)?;
        match same_seed {
            true => self.fabric.restart_with_same_seed(host),
            false => self.fabric.restart(host),
        }
        self.configure(host);
        let nic = self.fabric.nic(host);
        let pd = nic.alloc_pd();
        self.forget_connections(host);
        self.managers[host.0] = self.make_manager(host)?;
        let nic = self.fabric.nic(host);
        let buffer = Arc::clone(&self.hosts[host.0].region.buffer);
        let region = Region::register(nic, pd, 1000 + host.0, buffer)?;
        self.hosts[host.0] = HostState {
            pd,
            region,
            other_pd: None,
        };
        Ok(())
    }
}
