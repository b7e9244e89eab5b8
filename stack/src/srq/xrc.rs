//! XRC: domains, and the SRQs in them (IBTA 1.7, annex A14).
//!
//! A domain connects XRC targets to the SRQs that their peers may name: each request names its SRQ,
//! and the SRQ determines the CQ and the protection domain.

use super::{Srq, SrqError, SrqInit, SrqTable};
use crate::cq::CompletionQueue;
use crate::ids::Srqn;
use crate::ids::XrcdId;
use crate::memory::PdId;
use std::sync::Arc;

/// The additional fields of an XRC SRQ.
#[derive(Debug)]
pub(super) struct Xrc {
    domain: XrcdId,
    cq: Arc<CompletionQueue>,
}

impl SrqTable {
    /// Creates a domain.
    // rule: A14-domain
    pub(crate) fn create_domain(&mut self) -> XrcdId {
        self.last_domain += 1;
        self.domains.insert(self.last_domain, 0);
        XrcdId(self.last_domain)
    }

    /// Removes a domain that nothing uses.
    pub(crate) fn destroy_domain(&mut self, domain: XrcdId) -> Result<(), SrqError> {
        match *self.users(domain)? {
            0 => {
                self.domains.remove(&domain.0);
                Ok(())
            }
            users => Err(SrqError::DomainInUse { domain, users }),
        }
    }

    /// Counts one more SRQ or QP in the domain.
    pub(crate) fn join(&mut self, domain: XrcdId) -> Result<(), SrqError> {
        *self.users(domain)? += 1;
        Ok(())
    }

    /// Counts one SRQ or QP fewer in the domain.
    pub(crate) fn leave(&mut self, domain: XrcdId) {
        if let Ok(users) = self.users(domain) {
            *users -= 1;
        }
    }

    fn users(&mut self, domain: XrcdId) -> Result<&mut usize, SrqError> {
        let users = self.domains.get_mut(&domain.0);
        users.ok_or(SrqError::UnknownDomain(domain))
    }

    /// Adds an SRQ of a domain, with a number that is free.
    pub(crate) fn create_xrc(
        &mut self,
        srqn: Srqn,
        init: &SrqInit,
        domain: XrcdId,
        cq: Arc<CompletionQueue>,
    ) -> Result<(), SrqError> {
        self.users(domain)?;
        self.create(srqn, init)?;
        self.get_mut(srqn)?.xrc = Some(Xrc { domain, cq });
        self.join(domain)
    }

    /// The protection domain and the CQ of an SRQ, if it is in the XRC domain.
    // rule: A14-srq-domain
    pub(crate) fn of_domain(
        &self,
        srqn: Srqn,
        domain: XrcdId,
    ) -> Option<(PdId, &Arc<CompletionQueue>)> {
        let srq = self.srqs.get(&srqn.0)?;
        let xrc = srq.xrc.as_ref().filter(|xrc| xrc.domain == domain)?;
        Some((srq.pd, &xrc.cq))
    }
}

impl Srq {
    pub(super) fn domain(&self) -> Option<XrcdId> {
        self.xrc.as_ref().map(|xrc| xrc.domain)
    }
}
