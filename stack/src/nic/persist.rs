//! FLUSHes to persistence whose memory takes long to become durable.

use super::Nic;
use crate::persist::{Persist, Persisted};
use crate::time::Instant;

impl Nic {
    /// Whether [`Nic::poll_persist`] would return a request.
    #[inline]
    pub fn has_persists(&self) -> bool {
        !self.shared.persists.is_empty()
    }

    /// Takes the oldest request to make memory durable that has not been polled; `None` if there is
    /// none. Each belongs to a FLUSH of a peer, which is answered after
    /// [`Nic::finish_persist`].
    pub fn poll_persist(&mut self) -> Option<Persist> {
        self.shared.persists.pop()
    }

    /// Answers the FLUSH to which the request belonged, and executes the requests behind it that
    /// have arrived. Does nothing if the QP has failed, was reset or is gone.
    pub fn finish_persist(&mut self, now: Instant, done: Persisted) {
        let Persisted { id, result } = done;
        self.with_handle(now, id.handle, |qp, cx| {
            qp.finish_persist(cx, id.number, result);
        });
    }
}
