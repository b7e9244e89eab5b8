//! A request for the send queue: the operation, its payload and its target.

use super::{RemoteAddr, SendOp, Sge, total_len};
use crate::address::Destination;
use crate::ids::Srqn;
use bitflags::bitflags;

bitflags! {
    /// Modifiers of a send work request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// Ask for a completion. (A request that fails always gets one.)
        const SIGNALED = 1;
        /// Raise a solicited event at the peer.
        const SOLICITED = 2;
        /// Wait for earlier READs and atomics before starting (IBTA 1.7, 10.8.3.3).
        // rule: 10.8.3-fence
        const FENCE = 4;
        /// Copy the payload from its elements when the request is posted, so that the
        /// program can reuse that memory at once. SEND and WRITE only, up to
        /// [`QpInit::max_inline`](crate::QpInit::max_inline) bytes. [`Payload::Inline`] is
        /// copied with this flag or without it.
        const INLINE = 8;
    }
}

/// A request for the send queue (IBTA 1.7, 11.4.1.1).
///
/// The constructors make a request to the QP's own peer that asks for a completion; each method
/// changes one field:
///
/// ```
/// use roce_stack::{RemoteAddr, SendRequest, Sge};
///
/// let element = Sge { addr: 0x1000, length: 8, lkey: 1 };
/// let remote = RemoteAddr { addr: 0x2000, rkey: 2 };
/// let write = SendRequest::write(element, remote).id(7);
/// let quiet = SendRequest::write((), remote).inline(b"eight...").signaled(false);
/// # let _ = (write, quiet);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// The local bytes: what SEND and WRITE send, and where READ and the atomics (8 bytes)
    /// put what they fetch.
    pub payload: Payload<'a>,
    /// The destination of the request.
    pub target: Target,
    /// Modifiers.
    pub flags: SendFlags,
}

/// The local bytes of a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Payload<'a> {
    /// In one stretch of a region.
    Element(Sge),
    /// In several stretches of regions, one after the other; in none if the slice is empty.
    Elements(&'a [Sge]),
    /// In this slice. They are copied when the request is posted, and need no region. SEND and
    /// WRITE only, up to [`QpInit::max_inline`](crate::QpInit::max_inline) bytes.
    Inline(&'a [u8]),
}

/// The QP or the queue that a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The QP's own peer. (RC and UC.)
    #[default]
    Peer,
    /// A shared receive queue of the peer's XRC domain (IBTA 1.7, annex A14). (XRC only.)
    Srq(Srqn),
    /// Any UD QP, or all QPs of a multicast group. (UD only.)
    Datagram(Destination),
}

impl<'a> SendRequest<'a> {
    /// A request to the QP's own peer that asks for a completion.
    pub fn new(wr_id: u64, op: SendOp, payload: impl Into<Payload<'a>>) -> Self {
        Self {
            wr_id,
            op,
            payload: payload.into(),
            target: Target::Peer,
            flags: SendFlags::SIGNALED,
        }
    }

    /// A SEND.
    pub fn send(payload: impl Into<Payload<'a>>) -> Self {
        Self::new(0, SendOp::Send, payload)
    }

    /// A WRITE to `remote`.
    pub fn write(payload: impl Into<Payload<'a>>, remote: RemoteAddr) -> Self {
        Self::new(0, SendOp::Write(remote), payload)
    }

    /// A READ of `remote`; the bytes go to `into`.
    pub fn read(into: impl Into<Payload<'a>>, remote: RemoteAddr) -> Self {
        Self::new(0, SendOp::Read(remote), into)
    }

    /// Adds to the 8 bytes at `remote`; the previous value goes to `into`.
    pub fn fetch_add(into: impl Into<Payload<'a>>, remote: RemoteAddr, add: u64) -> Self {
        Self::new(0, SendOp::FetchAdd { remote, add }, into)
    }

    /// Replaces the 8 bytes at `remote` by `swap` if they equal `compare`; the previous value goes
    /// to `into`.
    pub fn compare_swap(
        into: impl Into<Payload<'a>>,
        remote: RemoteAddr,
        compare: u64,
        swap: u64,
    ) -> Self {
        let op = SendOp::CompareSwap {
            remote,
            compare,
            swap,
        };
        Self::new(0, op, into)
    }

    /// Sets [`SendRequest::wr_id`], which is 0 by default.
    #[must_use]
    pub fn id(self, wr_id: u64) -> Self {
        Self { wr_id, ..self }
    }

    /// Sets the payload to these bytes, which are copied when the request is posted.
    #[must_use]
    pub fn inline(self, data: &'a [u8]) -> Self {
        let payload = Payload::Inline(data);
        Self { payload, ..self }
    }

    /// Sets the target: a [`Destination`] of datagrams, or an SRQ of an XRC peer.
    #[must_use]
    pub fn to(self, target: impl Into<Target>) -> Self {
        let target = target.into();
        Self { target, ..self }
    }

    /// Replaces all flags.
    #[must_use]
    pub fn with_flags(self, flags: SendFlags) -> Self {
        Self { flags, ..self }
    }

    /// Sets whether the request asks for a completion; by default it does. A request that fails
    /// always gets one.
    #[must_use]
    pub fn signaled(mut self, signaled: bool) -> Self {
        self.flags.set(SendFlags::SIGNALED, signaled);
        self
    }

    /// Makes it raise a solicited event at the peer (IBTA 1.7, 11.4.2.2).
    #[must_use]
    pub fn solicited(self) -> Self {
        let flags = self.flags | SendFlags::SOLICITED;
        Self { flags, ..self }
    }

    /// Makes it wait for earlier READs and atomics (IBTA 1.7, 10.8.3.3).
    #[must_use]
    pub fn fenced(self) -> Self {
        let flags = self.flags | SendFlags::FENCE;
        Self { flags, ..self }
    }
}

impl Payload<'_> {
    /// The total length of its parts, in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Element(element) => element.length.into(),
            Self::Elements(elements) => total_len(elements),
            Self::Inline(data) => data.len() as u64,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements; none if the bytes are inline.
    #[inline]
    pub(crate) fn elements(&self) -> &[Sge] {
        match self {
            Self::Element(element) => core::slice::from_ref(element),
            Self::Elements(elements) => elements,
            Self::Inline(_) => &[],
        }
    }
}

impl Default for Payload<'_> {
    fn default() -> Self {
        Self::Elements(&[])
    }
}

/// The payload without any bytes.
impl From<()> for Payload<'_> {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Sge> for Payload<'_> {
    fn from(element: Sge) -> Self {
        Self::Element(element)
    }
}

impl<'a> From<&'a [Sge]> for Payload<'a> {
    fn from(elements: &'a [Sge]) -> Self {
        Self::Elements(elements)
    }
}

impl<'a, const N: usize> From<&'a [Sge; N]> for Payload<'a> {
    fn from(elements: &'a [Sge; N]) -> Self {
        Self::Elements(elements)
    }
}

impl<'a> From<&'a Vec<Sge>> for Payload<'a> {
    fn from(elements: &'a Vec<Sge>) -> Self {
        Self::Elements(elements)
    }
}

impl From<Srqn> for Target {
    fn from(srq: Srqn) -> Self {
        Self::Srq(srq)
    }
}

impl From<Destination> for Target {
    fn from(destination: Destination) -> Self {
        Self::Datagram(destination)
    }
}
