//! XRC: extended reliable connections (IBTA 1.7, annex A14).

use super::QueuePair;
use crate::context::Context;
use crate::error::QpError;
use roce_stack::XrcdId;
use std::sync::Arc;

/// An XRC domain. It ties XRC targets to the shared receive queues that their peers may name. Cheap
/// to clone. The domain is closed when the last clone and all its targets and queues are dropped.
///
/// With XRC, one connection serves all receivers of a process or host. The initiator (a QP of kind
/// [`QpKind::XrcInitiator`](crate::QpKind)) names an SRQ in each request:
/// [`SendRequest::to`](crate::SendRequest::to). The target at the other end has no queues of its
/// own. A message completes to the CQ of its SRQ, and the peer has access to memory of the SRQ's
/// protection domain.
#[derive(Clone, Debug)]
pub struct XrcDomain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    id: XrcdId,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let destroyed = self.context.inner.shared.lock().nic.destroy_xrcd(self.id);
        debug_assert_eq!(destroyed, Ok(()), "its targets and SRQs keep it alive");
    }
}

impl Context {
    /// A new XRC domain.
    pub fn create_xrcd(&self) -> XrcDomain {
        let (context, id) = (self.clone(), self.inner.shared.lock().nic.create_xrcd());
        XrcDomain {
            inner: Arc::new(Inner { context, id }),
        }
    }
}

impl XrcDomain {
    pub(crate) fn id(&self) -> XrcdId {
        self.inner.id
    }

    pub(crate) fn context(&self) -> &Context {
        &self.inner.context
    }

    /// A QP in state RESET that receives for all SRQs of this domain.
    ///
    /// # Errors
    /// As for [`ProtectionDomain::create_qp`](crate::ProtectionDomain::create_qp).
    pub fn create_target(&self) -> Result<QueuePair, QpError> {
        QueuePair::xrc_target(self)
    }
}
