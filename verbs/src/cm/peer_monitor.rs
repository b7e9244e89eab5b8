//! Detects peers that end without a message: processes of this host that have ended, and other
//! hosts that refuse packets.

use super::core::{Core, PeersAndChecks};
use super::inbox::Inbox;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_cm::{Path, QpnRange};
use roce_udp::{PeerWatch, PortCheck, Refusal};
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// The peers that the agent wants to have watched. The thread polls their descriptors along with
/// the inbox.
pub(super) struct PeerMonitor {
    interface_index: u32,
    /// Processes of this host that hold peers' QPs.
    processes: HashMap<(IpAddr, QpnRange), PeerWatch>,
    /// A socket for each local address from which hosts were checked.
    checks: HashMap<IpAddr, PortCheck>,
}

impl PeerMonitor {
    pub(super) fn new(interface_index: u32) -> Self {
        Self {
            interface_index,
            processes: HashMap::new(),
            checks: HashMap::new(),
        }
    }

    /// Waits until the inbox has work or there is something to [report](Self::report).
    pub(super) fn sleep(&self, inbox: &Inbox, timeout: Option<Duration>) {
        let processes = self.processes.values().map(AsFd::as_fd);
        let checks = self.checks.values().map(AsFd::as_fd);
        let fds = [inbox.as_fd()].into_iter().chain(processes).chain(checks);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Rounded up: a thread that wakes up too early has nothing to do, and sleeps again.
        let rounded = timeout.map(|timeout| timeout + Duration::from_micros(999));
        let timeout = rounded.map_or(PollTimeout::NONE, |timeout| {
            PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)
        });
        // An interrupted poll means that nothing is ready.
        let _ = poll(&mut fds, timeout);
    }

    /// Tells the agent about processes that have ended and hosts that refuse packets.
    pub(super) fn report(&mut self, core: &Core) {
        self.processes.retain(|&(remote, range), process| {
            let gone = process.is_gone();
            if let Ok(true) = gone {
                core.with(|agent, now| agent.peer_gone(now, remote, range));
            }
            // A process whose state can't be read is not watched.
            matches!(gone, Ok(false))
        });
        for (&local, check) in &self.checks {
            for (remote, refusal) in check.refused() {
                report_refusal(core, Path { local, remote }, refusal);
            }
        }
    }

    /// Starts to watch new peers, and checks hosts.
    pub(super) fn start_watching(&mut self, core: &Core, wanted: PeersAndChecks) {
        for peer in wanted.peers {
            if !self.processes.contains_key(&peer)
                && let Ok(Some(process)) = PeerWatch::start(peer.0, self.interface_index, peer.1)
            {
                self.processes.insert(peer, process);
            }
        }
        for path in wanted.checks {
            if let Some(refusal) = self.check(path) {
                report_refusal(core, path, refusal);
            }
        }
    }

    fn check(&mut self, path: Path) -> Option<Refusal> {
        let is_on_this_host = |&(remote, _): &(IpAddr, QpnRange)| remote == path.remote;
        if self.processes.keys().any(is_on_this_host) {
            return None;
        }
        if !self.checks.contains_key(&path.local) {
            // After an error, the next check tries again.
            let new = PortCheck::new(path.local, self.interface_index).ok()?;
            self.checks.insert(path.local, new);
        }
        self.checks.get(&path.local)?.ask(path.remote)
    }
}

fn report_refusal(core: &Core, path: Path, refusal: Refusal) {
    match refusal {
        Refusal::PortUnreachable => core.with(|agent, now| agent.port_unreachable(now, path)),
        Refusal::HostUnreachable => core.with(|agent, now| agent.host_unreachable(now, path)),
        _ => {}
    }
}
