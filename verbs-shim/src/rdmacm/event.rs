//! Events: queued as the manager tells them, worked off and given to C when it asks.

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
    /// The ID that waits for its acknowledgement: of a request, the one that listens.
    pub(super) about: Arc<Id>,
    /// Of a request, the connection.
    pub(super) child: Option<Arc<Id>>,
    pub(super) event: u32,
    pub(super) status: c_int,
    pub(super) says: Says,
    /// What a reply says for the QP.
    pub(super) peer: Option<Peer>,
    pub(super) private: Vec<u8>,
}

/// What an event says beyond its type.
#[derive(Clone, Copy, Default)]
pub(super) enum Says {
    #[default]
    Nothing,
    Connection(Connection),
    /// A QP for datagrams, and its key.
    Found(u32, u32),
    Datagram(Datagram),
}

/// What the peer says of a connection, seen from here.
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

/// How datagrams get to a QP, or to a group.
#[derive(Clone, Copy)]
pub(super) struct Datagram {
    pub(super) path: IbvAhAttr,
    pub(super) qpn: u32,
    pub(super) qkey: u32,
    /// Of a group, what the program gave when it joined.
    pub(super) context: usize,
}

/// An event that C has.
#[repr(C)]
pub(super) struct Told {
    c: CPart<RdmaCmEvent>,
    /// What C's pointer points to.
    _private: Vec<u8>,
    /// Who waits for its acknowledgement.
    waits: Mutex<Option<Arc<Unacknowledged>>>,
}

impl Told {
    /// Nobody waits for it any more.
    fn settle(&self) {
        if let Some(waits) = self.waits.lock().take() {
            waits.acknowledge(1);
        }
    }
}

impl Pending {
    /// An event that says nothing but its type, or that it is an error.
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

    /// As [`Pending::plain`], of a step that failed or not.
    pub(super) fn of(about: &Arc<Id>, result: Result<(), Errno>, good: u32, bad: u32) -> Self {
        match result {
            Ok(()) => Self::plain(about, good, 0),
            Err(errno) => Self::plain(about, bad, -(errno as c_int)),
        }
    }

    /// Gives it to C.
    fn tell(self) -> Result<*mut RdmaCmEvent, Errno> {
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

/// The next event of a channel's queue, as C gets it. Who asks does what the event takes: QPs
/// go from state to state, and the peer is told.
///
/// # Errors
/// `EAGAIN` if there is none and the program does not want to wait, `EINTR`.
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
    event.tell()
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

/// The event that the last call of an ID without a channel has waited for is done with.
pub(super) fn acknowledge_own(id: &Id) -> Result<(), Errno> {
    let mut event = std::ptr::null_mut();
    id.c.set(|c| event = std::mem::replace(&mut c.event, event));
    if event.is_null() {
        return Ok(());
    }
    acknowledge(event)
}

/// Waits for the event that a call leads to, if its ID has no channel of the program's.
///
/// # Errors
/// What the event says.
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
/// What an event says.
fn outcome(event: *mut RdmaCmEvent) -> Result<(), Errno> {
    let told = table()?.events.find(event)?.c.get();
    match told.status {
        0 => Ok(()),
        // What the peer said: its reason, or its status.
        1.. => Err(Errno::ECONNREFUSED),
        status => Err(Errno::from_raw(status.saturating_neg())),
    }
}

/// Waits for the next request of a listener without a channel. The event is the
/// connection's from then on.
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
    // The listener can be destroyed while the connection lives.
    told.settle();
    id.c.set(|c| c.event = event);
    Ok(id)
}
