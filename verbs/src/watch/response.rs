//! The response on a connection: a head, and a body that several connections share.

use std::sync::Arc;

/// A response, and the number of its bytes that have been written.
pub(super) struct Response {
    pub(super) head: Vec<u8>,
    pub(super) body: Arc<[u8]>,
    pub(super) sent: usize,
}

impl Response {
    pub(super) fn new(head: String, body: Arc<[u8]>) -> Self {
        Self {
            head: head.into_bytes(),
            body,
            sent: 0,
        }
    }

    pub(super) fn rest(&self) -> &[u8] {
        match self.head.get(self.sent..) {
            Some(head) if !head.is_empty() => head,
            _ => &self.body[self.sent - self.head.len()..],
        }
    }
}
