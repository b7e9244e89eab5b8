//! Finds the two flows that are the two directions of a connection.
//!
//! Packets name only their destination queue pair. But a response has the PSN of the request that
//! it answers, so its peer is the flow in the opposite direction that recently sent that PSN. If
//! several flows sent it, a later response decides.

use roce_wire::Psn;

use super::FlowTable;

/// The most flows between the two hosts to examine for a response.
const MAX_CANDIDATES: usize = 256;

/// The number of responses of a flow for which its peer is searched.
const MAX_SEARCHES: u32 = 1024;

impl FlowTable {
    /// Looks for the flow whose request the response with this PSN, seen in the flow
    /// `index`, answers.
    pub(super) fn find_peer(&mut self, index: usize, psn: Psn) {
        let flow = &mut self.flows[index];
        if flow.peer.is_some() || flow.searches == MAX_SEARCHES {
            return;
        }
        flow.searches += 1;
        let (key, transport) = (flow.key, flow.transport);
        let Some(candidates) = self.by_hosts.get(&(key.dst, key.src)) else {
            return;
        };
        if candidates.len() > MAX_CANDIDATES {
            return;
        }
        let mut answered = candidates.iter().copied().filter(|&other| {
            let candidate = &self.flows[other];
            candidate.peer.is_none()
                && candidate.transport == transport
                && candidate.requests.covers(psn)
        });
        if let (Some(peer), None) = (answered.next(), answered.next()) {
            for (one, other) in [(index, peer), (peer, index)] {
                self.flows[one].peer = Some(other);
                self.flows[one].peer_qpn = Some(self.flows[other].key.dest_qpn);
            }
        }
    }
}
