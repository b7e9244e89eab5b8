//! Address handles.

use crate::convert::{c_gid, gid};
use crate::prelude::*;
use crate::state::{Context, State, check_port};
use roce_verbs::datagram::{AddressHandle, AddressOptions, DatagramHeader};
use roce_verbs::device::{CountedObject, LimitedObject};

#[repr(C)]
pub(crate) struct Ah {
    _c: CPart<IbvAh>,
    pub(crate) handle: AddressHandle,
    pub(crate) state: Arc<State>,
    _pd: Use,
    _counted: CountedObject,
}

first_part!(IbvAh => Ah._c);

/// The address options of an attribute. The program sets the DSCP, the upper six bits of the
/// traffic class. The lower two are always ECT(0), so that switches can mark packets instead of
/// dropping them.
///
/// A service level above 7 counts as none. It is a copy of `ibv_wc.sl`, in which the completion of
/// a received datagram reports the packet type (see `packet_type` in `cq`).
pub(crate) fn address_options(attr: &IbvAhAttr) -> AddressOptions {
    AddressOptions {
        traffic_class: attr.grh.traffic_class & !3 | 2,
        service_level: attr.sl,
        hop_limit: attr.grh.hop_limit,
    }
}

/// # Errors
/// `EINVAL` unless the path has a GRH and uses port 1, the only one.
// rule: CA17-30-verbs
pub(crate) fn check_path(attr: &IbvAhAttr) -> Result<(), Errno> {
    check_port(attr.port_num.into())?;
    if attr.is_global == 0 {
        return Err(with_reason(Errno::EINVAL, || {
            format!(
                "the path has no GID of the peer: is_global is 0, and dlid is {}, but RoCE has no LIDs. \
                 Choose a GID index at both ends: the option -g of ibv_rc_pingpong and its like, -x of \
                 perftest, -cm 1 of qperf. `roce devices` lists the GIDs",
                attr.dlid
            )
        }));
    }
    Ok(())
}

pub(crate) extern "C" fn create_ah(pd: Handle<IbvPd>, attr: In<IbvAhAttr>) -> *mut IbvAh {
    guard::pointer("ibv_create_ah", || create(pd, &attr.read()?))
}

fn create(pd: Handle<IbvPd>, attr: &IbvAhAttr) -> Result<*mut IbvAh, Errno> {
    let domain = pd.get()?;
    check_path(attr)?;
    let one = domain
        .state
        .counts
        .add(LimitedObject::AddressHandle)
        .or_errno()?;
    let IbvGlobalRoute {
        sgid_index, dgid, ..
    } = attr.grh;
    let options = address_options(attr);
    let handle = domain.pd.create_ah(sgid_index, gid(dgid), &options);
    Ok(Handle::into_raw(Ah {
        _c: CPart::new(IbvAh {
            context: domain.context(),
            pd,
            handle: 0,
        }),
        handle: handle.or_errno()?,
        state: Arc::clone(&domain.state),
        _pd: domain.users.add(),
        _counted: one,
    }))
}

pub(crate) extern "C" fn destroy_ah(ah: Handle<IbvAh>) -> c_int {
    guard::errno("ibv_destroy_ah", || ah.take().map(drop))
}

/// The 40 bytes in front of a received datagram, for example a `struct ibv_grh`.
type NetworkHeader = [u8; DatagramHeader::LEN];

/// The address attributes with which to reply to a received datagram.
fn answer_to(
    context: &Context,
    port: u8,
    wc: &IbvWc,
    header: In<NetworkHeader>,
) -> Result<IbvAhAttr, Errno> {
    check_port(port.into())?;
    if wc.wc_flags & WC_GRH == 0 {
        return Err(Errno::EINVAL);
    }
    let received = DatagramHeader::parse(&header.read()?).ok_or(Errno::EINVAL)?;
    let from = context.state.roce.gid_index_to_answer(received.destination);
    Ok(ah_attr(IbvGlobalRoute {
        dgid: c_gid(received.source.into()),
        sgid_index: from.ok_or(Errno::ENOENT)?,
        hop_limit: 0xff,
        traffic_class: received.traffic_class,
        ..Zero::zeroed()
    }))
}

/// The attributes of an address handle. RoCE packets carry no service level.
pub(crate) fn ah_attr(grh: IbvGlobalRoute) -> IbvAhAttr {
    IbvAhAttr {
        grh,
        is_global: 1,
        port_num: 1,
        ..Zero::zeroed()
    }
}

pub(crate) extern "C" fn init_ah_from_wc(
    context: Handle<IbvContext>,
    port: u8,
    wc: In<IbvWc>,
    header: In<NetworkHeader>,
    attr: Out<IbvAhAttr>,
) -> c_int {
    guard::errno("ibv_init_ah_from_wc", || {
        attr.put(answer_to(context.get()?, port, &wc.read()?, header)?)
    })
}

pub(crate) extern "C" fn create_ah_from_wc(
    pd: Handle<IbvPd>,
    wc: In<IbvWc>,
    header: In<NetworkHeader>,
    port: u8,
) -> *mut IbvAh {
    guard::pointer("ibv_create_ah_from_wc", || {
        let context = pd.get()?.context();
        create(pd, &answer_to(context.get()?, port, &wc.read()?, header)?)
    })
}
