//! Faults of incoming connection requests.

use crate::{Judge, RequestFault, Target};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of requests remembered to recognise retransmissions.
const MAX_REQUESTS: usize = 256;

/// The attribute ID of a REQ (IBTA 1.7, 16.7.1).
const REQ: [u8; 2] = [0x00, 0x10];

/// A request: the peer, and the transaction ID of its MADs.
type Request = (IpAddr, [u8; 8]);

/// Decides the fate of incoming connection requests.
#[derive(Debug)]
pub struct ConnectionJudge {
    judge: Arc<Judge>,
    recent: VecDeque<(Request, Option<RequestFault>)>,
}

impl ConnectionJudge {
    /// `None` if no injection is about requests.
    pub fn new(judge: &Arc<Judge>) -> Option<Self> {
        let concerns = judge.has(|what| matches!(what, Target::Request(_)));
        concerns.then(|| Self {
            judge: Arc::clone(judge),
            recent: VecDeque::new(),
        })
    }

    /// The fault of a MAD, if it has one. A retransmitted request has that of the original.
    pub fn decide(&mut self, from: IpAddr, mad: &[u8]) -> Option<RequestFault> {
        let transaction = mad.get(8..16).and_then(|id| id.try_into().ok());
        let (Some(transaction), true) = (transaction, mad.get(16..18) == Some(&REQ)) else {
            return None;
        };
        let request: Request = (from, transaction);
        if let Some((_, fault)) = self.recent.iter().find(|(known, _)| *known == request) {
            return *fault;
        }
        let fault = self.judge.strike(|injection| match injection.what {
            Target::Request(fault) => Some(fault),
            _ => None,
        });
        if self.recent.len() >= MAX_REQUESTS {
            self.recent.pop_front();
        }
        self.recent.push_back((request, fault));
        fault
    }
}
