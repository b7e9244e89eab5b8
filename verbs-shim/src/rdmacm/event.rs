//! Events: queued when the connection manager reports them, processed and returned when C asks.

use super::id::{Id, State, find};
use super::peer::Peer;
use super::table::table;
use super::{accept, connect};
use crate::abi::*;
use crate::events::Unacknowledged;
use crate::guard;
use crate::pointer::{CPart, In, Out};
use nix::errno::Errno;
use parking_lot::Mutex;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// An event in the queue of a channel.
pub(super) struct Pending {
    /// The ID that waits for the acknowledgement; for a request, the listener.
    pub(super) about: Arc<Id>,
    /// For a request, the connection.
    pub(super) child: Option<Arc<Id>>,
    pub(super) event: u32,
    pub(super) status: c_int,
    pub(super) says: Says,
    /// The peer's parameters in a reply.
    pub(super) peer: Option<Peer>,
    pub(super) private: Vec<u8>,
}

/// The data of an event besides its type.
#[derive(Clone, Copy, Default)]
pub(super) enum Says {
    #[default]
    Nothing,
    Connection(Connection),
    /// The number and Q_Key of a QP for datagrams.
    Found(u32, u32),
    Datagram(Datagram),
}

/// The peer's parameters of a connection, from this end's point of view.
#[derive(Clone, Copy)]
pub(super) struct Connection {
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: bool,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: bool,
    pub(super) qpn: u32,
}

/// The path of datagrams to a QP or group.
#[derive(Clone, Copy)]
pub(super) struct Datagram {
    pub(super) path: IbvAhAttr,
    pub(super) qpn: u32,
    pub(super) qkey: u32,
    /// For a group, the program's context from the join.
    pub(super) context: usize,
}

/// An event that was returned to C.
#[repr(C)]
pub(super) struct Told {
    c: CPart<RdmaCmEvent>,
    /// The data that C's pointer refers to.
    _private: Vec<u8>,
    /// The counter that waits for its acknowledgement.
    waits: Mutex<Option<Arc<Unacknowledged>>>,
}

impl Told {
    /// Acknowledges it, unless it already was.
    fn settle(&self) {
        if let Some(waits) = self.waits.lock().take() {
            waits.acknowledge(1);
        }
    }
}

impl Pending {
    /// An event whose only data is a status.
    pub(super) fn plain(about: &Arc<Id>, event: u32, status: c_int) -> Self {
        Self {
            about: Arc::clone(about),
            child: None,
            event,
            status,
            says: Says::Nothing,
            peer: None,
            private: Vec::new(),
        }
    }

    /// As [`Pending::plain`], for a step that may have failed.
    pub(super) fn of(about: &Arc<Id>, result: Result<(), Errno>, good: u32, bad: u32) -> Self {
        match result {
            Ok(()) => Self::plain(about, good, 0),
            Err(errno) => Self::plain(about, bad, -(errno as c_int)),
        }
    }

    /// Creates the C event.
    fn into_c(self) -> Result<*mut RdmaCmEvent, Errno> {
        let mut c = RdmaCmEvent::unset();
        let of = self.child.as_ref().unwrap_or(&self.about);
        c.id = of.as_ptr();
        if self.child.is_some() {
            c.listen_id = self.about.as_ptr();
        }
        (c.event, c.status) = (self.event, self.status);
        c.param = self.says.param(&self.private);
        let told = Arc::new(Told {
            c: CPart::new(c),
            _private: self.private,
            waits: Mutex::new(Some(Arc::clone(&self.about.unacknowledged))),
        });
        let part = told.c.as_ptr();
        let table = table()?;
        if let Some(child) = self.child {
            table.ids.add(child);
        }
        table.events.add(told);
        Ok(part)
    }
}

impl Says {
    fn param(self, private: &[u8]) -> RdmaParam {
        let len = u8::try_from(private.len()).unwrap_or(u8::MAX);
        let bytes = if private.is_empty() {
            In::at(0)
        } else {
            In::at(private.as_ptr() as u64)
        };
        match self {
            Self::Nothing | Self::Found(..) => RdmaParam {
                conn: RdmaConnParam {
                    private_data: bytes,
                    private_data_len: len,
                    ..RdmaConnParam::none()
                },
            },
            Self::Connection(says) => RdmaParam {
                conn: RdmaConnParam {
                    private_data: bytes,
                    private_data_len: len,
                    responder_resources: says.responder_resources,
                    initiator_depth: says.initiator_depth,
                    flow_control: says.flow_control.into(),
                    retry_count: says.retry_count,
                    rnr_retry_count: says.rnr_retry_count,
                    srq: says.srq.into(),
                    qp_num: says.qpn,
                },
            },
            Self::Datagram(says) => RdmaParam {
                ud: RdmaUdParam {
                    private_data: if private.is_empty() {
                        says.context as *const c_void
                    } else {
                        private.as_ptr().cast()
                    },
                    private_data_len: len,
                    ah_attr: says.path,
                    qp_num: says.qpn,
                    qkey: says.qkey,
                },
            },
        }
    }
}

/// Removes the next event from a channel's queue and returns it as a C event. Carries out its
/// effects: changes the state of QPs, and sends messages to the peer.
///
/// # Errors
/// `EAGAIN` if there is none and the descriptor is non-blocking, `EINTR` after a signal.
pub(super) fn next(channel: &super::channel::Channel) -> Result<*mut RdmaCmEvent, Errno> {
    let table = table()?;
    let mut event = channel.wait(|| table.devices.hand_over())?;
    match event.event {
        CM_EVENT_CONNECT_RESPONSE => connect::replied(&mut event),
        CM_EVENT_REJECTED | CM_EVENT_UNREACHABLE => connect::refused(&event),
        CM_EVENT_CONNECT_REQUEST => accept::requested(&event),
        CM_EVENT_ESTABLISHED => connect::established(&mut event),
        _ => {}
    }
    event.into_c()
}

/// `rdma_get_cm_event`.
pub(crate) extern "C" fn get_cm_event(
    channel: *mut RdmaEventChannel,
    event: Out<*mut RdmaCmEvent>,
) -> c_int {
    guard::minus_one(|| {
        let channel = table()?.channels.find(channel)?;
        event.get()?;
        event.put(next(&channel)?)
    })
}

/// `rdma_ack_cm_event`.
pub(crate) extern "C" fn ack_cm_event(event: *mut RdmaCmEvent) -> c_int {
    guard::minus_one(|| acknowledge(event))
}

fn acknowledge(event: *mut RdmaCmEvent) -> Result<(), Errno> {
    table()?.events.remove(event)?.settle();
    Ok(())
}

/// Acknowledges the event of the last call, if the ID has no channel.
pub(super) fn acknowledge_own(id: &Id) -> Result<(), Errno> {
    let mut event = std::ptr::null_mut();
    id.c.set(|c| event = std::mem::replace(&mut c.event, event));
    if event.is_null() {
        return Ok(());
    }
    acknowledge(event)
}

/// Waits for the result event of a call, if its ID has no channel.
///
/// # Errors
/// The error in the event.
pub(super) fn complete(id: &Arc<Id>) -> Result<(), Errno> {
    if !id.inner.lock().sync {
        return Ok(());
    }
    acknowledge_own(id)?;
    let event = next(&id.channel())?;
    id.c.set(|c| c.event = event);
    outcome(event)
}

/// # Errors
/// The error in the event.
fn outcome(event: *mut RdmaCmEvent) -> Result<(), Errno> {
    let told = table()?.events.find(event)?.c.get();
    match told.status {
        0 => Ok(()),
        // The peer's reject reason or status.
        1.. => Err(Errno::ECONNREFUSED),
        status => Err(Errno::from_raw(status.saturating_neg())),
    }
}

/// Waits for the next request of a listener without a channel. The event then belongs to the
/// connection.
pub(super) fn next_request(listener: &Arc<Id>) -> Result<Arc<Id>, Errno> {
    {
        let inner = listener.inner.lock();
        inner.check(&[State::Listening])?;
        if !inner.sync {
            return Err(Errno::EINVAL);
        }
    }
    let event = next(&listener.channel())?;
    let told = table()?.events.find(event)?;
    let said = told.c.get();
    if said.event != CM_EVENT_CONNECT_REQUEST {
        acknowledge(event)?;
        return Err(Errno::EINVAL);
    }
    let id = find(said.id)?;
    // The listener can be destroyed while the connection exists.
    told.settle();
    id.c.set(|c| c.event = event);
    Ok(id)
}
