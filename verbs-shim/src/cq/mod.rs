//! Completion queues.

mod moderate;
mod poll;

pub(crate) use moderate::modify_cq;

use crate::convert::{c_opcode, c_status};
use crate::prelude::*;
use crate::state::State;
use roce_verbs::completion::Notify;
use roce_verbs::datagram::NetworkHeader;
use roce_verbs::device::{CountedObject, LimitedObject, Unacknowledged};
use roce_verbs::{Completion, CompletionQueue};
use std::hint::cold_path;
use std::mem::offset_of;

/// The most completions that a queue can hold.
pub(crate) const MAX_CQE: usize = 1 << 20;

#[repr(C)]
pub(crate) struct Cq {
    c: CPart<IbvCqEx>,
    pub(crate) queue: CompletionQueue,
    pub(crate) state: Arc<State>,
    /// Completion events that the program has not acknowledged yet.
    pub(crate) comp_events: Arc<Unacknowledged>,
    /// Asynchronous events (`IBV_EVENT_CQ_ERR`) that the program has not acknowledged yet.
    pub(crate) async_events: Arc<Unacknowledged>,
    pub(crate) users: Users,
    _channel: Option<Use>,
    _domain: Option<Use>,
    _counted: CountedObject,
    poll: poll::Poll,
}

// SAFETY: `c` is the first field, and begins with the part.
unsafe impl Part for IbvCq {
    type Object = Cq;
}

impl Cq {
    pub(crate) fn c_part(&self) -> IbvCq {
        self.c.get().base
    }

    /// Acknowledges `events` completion events, and adds them to `ibv_cq.comp_events_completed`,
    /// which programs read.
    pub(crate) fn acknowledge_comp_events(&self, events: u32) {
        self.c
            .count(offset_of!(IbvCqEx, base.comp_events_completed), events);
        self.comp_events.acknowledge(events.into());
    }

    /// Acknowledges one asynchronous event, and counts it in `ibv_cq.async_events_completed`.
    pub(crate) fn acknowledge_async_event(&self) {
        self.c
            .count(offset_of!(IbvCqEx, base.async_events_completed), 1);
        self.async_events.acknowledge(1);
    }
}

fn capacity(cqe: i64) -> Result<usize, Errno> {
    match usize::try_from(cqe) {
        Ok(cqe @ 1..=MAX_CQE) => Ok(cqe),
        _ => Err(with_reason(Errno::EINVAL, || {
            format!("cqe is {cqe}, but must be 1 to {MAX_CQE}")
        })),
    }
}

/// # Errors
/// `EINVAL` for any completion vector other than 0.
fn check_vector(vector: u32) -> Result<(), Errno> {
    match vector {
        0 => Ok(()),
        _ => Err(with_reason(Errno::EINVAL, || {
            format!("comp_vector is {vector}, but the device has only vector 0 (num_comp_vectors)")
        })),
    }
}

pub(crate) extern "C" fn create_cq(
    context: Handle<IbvContext>,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: Handle<IbvCompChannel>,
    comp_vector: c_int,
) -> *mut IbvCq {
    guard::pointer("ibv_create_cq", || {
        create_plain(context, cqe, cq_context, channel, comp_vector)
    })
}

/// As `ibv_create_cq`.
pub(crate) fn create_plain(
    context: Handle<IbvContext>,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: Handle<IbvCompChannel>,
    comp_vector: c_int,
) -> Result<*mut IbvCq, Errno> {
    let attr = IbvCqInitAttrEx {
        cqe: cqe.cast_unsigned(),
        cq_context,
        channel,
        comp_vector: comp_vector.cast_unsigned(),
        ..Zero::zeroed()
    };
    create(context, &attr, cqe.into())
}

/// The completion fields that an extended CQ can provide.
const SUPPORTED_WC_FLAGS: u64 = (WC_EX_WITH_BYTE_LEN
    | WC_EX_WITH_IMM
    | WC_EX_WITH_QP_NUM
    | WC_EX_WITH_SRC_QP
    | WC_EX_WITH_SLID
    | WC_EX_WITH_SL
    | WC_EX_WITH_DLID_PATH_BITS
    | WC_EX_WITH_COMPLETION_TIMESTAMP
    | WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;

pub(crate) extern "C" fn create_cq_ex(
    context: Handle<IbvContext>,
    attr: In<IbvCqInitAttrEx>,
) -> *mut IbvCqEx {
    guard::pointer("ibv_create_cq_ex", || {
        // The C structure of every CQ is an `ibv_cq_ex`.
        let attr = attr.read_grown()?;
        create(context, &attr, attr.cqe.into()).map(<*mut IbvCq>::cast)
    })
}

/// Creates a CQ. Instead of the number of entries in `attr`, `cqe` counts, which is signed or not as
/// C has it.
fn create(
    context: Handle<IbvContext>,
    attr: &IbvCqInitAttrEx,
    cqe: i64,
) -> Result<*mut IbvCq, Errno> {
    check_vector(attr.comp_vector)?;
    let known = CQ_INIT_ATTR_MASK_FLAGS | CQ_INIT_ATTR_MASK_PD;
    let refused = Errno::EOPNOTSUPP;
    check_bits("comp_mask", attr.comp_mask, known, refused)?;
    check_bits("flags", attr.flags, CREATE_CQ_ATTR_SINGLE_THREADED, refused)?;
    check_bits("wc_flags", attr.wc_flags, SUPPORTED_WC_FLAGS, refused)?;
    let state = Arc::clone(&context.get()?.state);
    let capacity = capacity(cqe)?;
    let channel = attr.channel.opt()?;
    let mut domain = None;
    if attr.comp_mask & CQ_INIT_ATTR_MASK_PD != 0 {
        let parent = attr.parent_domain.get()?;
        parent.state.check_same(&state)?;
        domain = Some(parent.use_as_parent()?);
    }
    let one = state
        .counts
        .add(LimitedObject::CompletionQueue)
        .or_errno()?;
    let queue = match channel {
        Some(channel) => {
            channel.state.check_same(&state)?;
            let channel = &channel.channel;
            state.roce.create_cq_with_channel(capacity, channel)
        }
        None => state.roce.create_cq(capacity),
    };
    let id = queue.id();
    let (comp_events, async_events) = (Arc::default(), Arc::default());
    let c_part = IbvCq {
        context,
        channel: attr.channel,
        cq_context: attr.cq_context,
        handle: 0,
        cqe: int(capacity),
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let cq = Handle::into_raw(Cq {
        c: CPart::new(poll::c_part(c_part)),
        queue,
        state: Arc::clone(&state),
        comp_events: Arc::clone(&comp_events),
        async_events: Arc::clone(&async_events),
        users: Users::default(),
        _channel: channel.map(|channel| channel.users.add()),
        _domain: domain,
        _counted: one,
        poll: poll::Poll::new(attr.flags != 0),
    });
    state.objects.completions.insert(id, cq, &comp_events);
    state.objects.cqs.insert(id, cq, &async_events);
    Ok(cq)
}

pub(crate) extern "C" fn resize_cq(cq: Handle<IbvCq>, cqe: c_int) -> c_int {
    guard::errno("ibv_resize_cq", || {
        let cq = cq.get()?;
        cq.queue.resize(capacity(cqe.into())?).or_errno()?;
        cq.c.set(|c| c.base.cqe = cqe);
        Ok(())
    })
}

/// `ibv_destroy_cq`. Waits until the queue's events are acknowledged.
pub(crate) extern "C" fn destroy_cq(cq: Handle<IbvCq>) -> c_int {
    guard::errno("ibv_destroy_cq", || {
        let found = cq.get()?;
        found.users.check_none()?;
        let (objects, id) = (&found.state.objects, found.queue.id());
        objects.completions.remove(&id, || found.queue.end_events());
        objects.cqs.remove(&id, || ());
        cq.take().map(drop)
    })
}

/// `ibv_poll_cq`: returns the number of completions, or a negative number if the queue has overrun.
pub(crate) extern "C" fn poll_cq(cq: Handle<IbvCq>, entries: c_int, wc: Out<IbvWc>) -> c_int {
    guard::value("ibv_poll_cq", -1, || {
        let cq = cq.get()?;
        let entries = usize::try_from(entries).map_err(|_| Errno::EINVAL)?;
        let mut found = 0;
        while found < entries {
            // Only the first poll drives the NIC. A second one would send the acknowledgement of
            // the received message before the program can respond to that message.
            let next = match found {
                0 => cq.queue.poll(),
                _ => cq.queue.take(),
            };
            match next {
                Ok(Some(completion)) => wc.put_at(found, cq.wc(&completion))?,
                Ok(None) => break,
                // Return the completions taken so far first.
                Err(_) if found > 0 => break,
                Err(_) => return Err(Errno::EOVERFLOW),
            }
            found += 1;
        }
        Ok(int(found))
    })
}

pub(crate) extern "C" fn req_notify_cq(cq: Handle<IbvCq>, solicited_only: c_int) -> c_int {
    guard::errno("ibv_req_notify_cq", || {
        cq.get()?
            .queue
            .request_notify_or_miss(match solicited_only {
                0 => Notify::Next,
                _ => Notify::Solicited,
            });
        Ok(())
    })
}

/// The value of `ibv_wc.sl` for a received datagram. RoCE packets carry no service level. ConnectX
/// reports the type of the network header in this field instead: 8 for UDP, plus 1 for IPv6 or 2
/// for IPv4. RoCEv2 Annex A17.4.5.1 requires a completion to report that type. UCX before 1.19 uses
/// it to find the header. As the service level of an address handle, these values have no meaning:
/// see `ah`.
fn packet_type(header: NetworkHeader) -> u8 {
    match header {
        NetworkHeader::Grh => 0,
        NetworkHeader::Ipv6 => 8 | 1,
        NetworkHeader::Ipv4 => 8 | 2,
    }
}

impl Cq {
    /// A completion of this queue in C's form, with the code of its cause if it is not a success.
    pub(crate) fn wc(&self, completion: &Completion) -> IbvWc {
        let mut wc = c_completion(completion);
        if wc.status != WC_SUCCESS {
            cold_path();
            wc.vendor_err = self.queue.why_code(completion).unwrap_or(0);
        }
        wc
    }
}

/// A completion in C's form. It has no cause.
pub(crate) fn c_completion(completion: &Completion) -> IbvWc {
    let Completion {
        wr_id,
        status,
        opcode,
        byte_len,
        qpn,
        imm,
        invalidated_rkey,
        source,
    } = completion;
    let (with, imm_data) = match (imm, invalidated_rkey) {
        (Some(imm), _) => (WC_WITH_IMM, imm.to_be()),
        (None, Some(rkey)) => (WC_WITH_INV, *rkey),
        (None, None) => (0, 0),
    };
    let grh = source.is_some_and(|source| source.grh);
    IbvWc {
        wr_id: *wr_id,
        status: c_status(*status),
        opcode: c_opcode(*opcode),
        vendor_err: 0,
        byte_len: *byte_len,
        imm_data,
        qp_num: qpn.get(),
        src_qp: source.map_or(0, |source| source.qpn.get()),
        wc_flags: with | if grh { WC_GRH } else { 0 },
        pkey_index: source.map_or(0, |source| source.pkey_index),
        slid: 0,
        sl: source.map_or(0, |source| packet_type(source.network)),
        dlid_path_bits: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::completion::WcOpcode;
    use roce_verbs::{Qpn, WcStatus};

    #[test]
    fn a_datagram_says_which_header_it_has_as_connectx_does() {
        let headers = [NetworkHeader::Grh, NetworkHeader::Ipv6, NetworkHeader::Ipv4];
        assert_eq!(headers.map(packet_type), [0, 0x9, 0xa]);
    }

    #[test]
    fn immediate_data_stays_in_the_order_of_the_network() {
        let completion = Completion {
            wr_id: 1,
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            byte_len: 3,
            qpn: Qpn::from_bits(0x1234),
            imm: Some(0x0102_0304),
            invalidated_rkey: None,
            source: None,
        };
        let wc = c_completion(&completion);
        assert_eq!(wc.imm_data.to_ne_bytes(), [1, 2, 3, 4]);
        assert_eq!((wc.wc_flags, wc.opcode), (WC_WITH_IMM, WC_RECV));
        let key = Completion {
            imm: None,
            invalidated_rkey: Some(0x0102_0304),
            ..completion
        };
        let wc = c_completion(&key);
        assert_eq!((wc.wc_flags, wc.imm_data), (WC_WITH_INV, 0x0102_0304));
    }
}
