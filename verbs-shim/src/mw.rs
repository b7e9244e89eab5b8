//! Memory windows.

use crate::convert::{access, send_flags};
use crate::prelude::*;
use roce_verbs::device::{CountedObject, LimitedObject};
use roce_verbs::memory::{MemoryWindow, MwType};
use roce_verbs::{SendOp, SendRequest};

#[repr(C)]
pub(crate) struct Mw {
    c: CPart<IbvMw>,
    window: MemoryWindow,
    _pd: Use,
    _counted: CountedObject,
}

first_part!(IbvMw => Mw.c);

/// The low 8 bits of an R_Key, which the program chooses when it binds the window.
fn low_bits(rkey: u32) -> u8 {
    let [.., low] = rkey.to_be_bytes();
    low
}

/// Flags that are not access rights of a window. Programs copy local rights and mapping flags from
/// the region; a window ignores them, as with mlx5 and rxe. `bind` handles `ACCESS_ZERO_BASED`
/// separately.
const NOT_OF_WINDOWS: u32 = ACCESS_ZERO_BASED
    | ACCESS_LOCAL_WRITE
    | ACCESS_MW_BIND
    | ACCESS_ON_DEMAND
    | ACCESS_HUGETLB
    | ACCESS_OPTIONAL_RANGE;

impl Mw {
    pub(crate) fn bind(&self, rkey: u32, info: &IbvMwBindInfo) -> Result<SendOp, Errno> {
        let zero_based = info.mw_access_flags & ACCESS_ZERO_BASED != 0;
        let access = access(info.mw_access_flags & !NOT_OF_WINDOWS)?;
        let view = info.mr.get()?.region.memory.with(|registration| {
            let offset = info.addr.wrapping_sub(registration.addr());
            registration.window(offset, info.length, access)
        });
        let view = view.or_errno()?.or_errno()?;
        let view = if zero_based { view.zero_based() } else { view };
        Ok(self.window.bind(low_bits(rkey), &view))
    }
}

pub(crate) extern "C" fn alloc_mw(pd: Handle<IbvPd>, kind: u32) -> *mut IbvMw {
    guard::pointer("ibv_alloc_mw", || {
        let domain = pd.get()?;
        let window_type = match kind {
            MW_TYPE_1 => MwType::Type1,
            MW_TYPE_2 => MwType::Type2,
            _ => {
                return Err(with_reason(Errno::EINVAL, || {
                    format!("the type is {kind}, but must be IBV_MW_TYPE_1 or IBV_MW_TYPE_2")
                }));
            }
        };
        let one = domain
            .state
            .counts
            .add(LimitedObject::MemoryWindow)
            .or_errno()?;
        let window = domain.pd.alloc_mw(window_type).or_errno()?;
        Ok(Handle::into_raw(Mw {
            c: CPart::new(IbvMw {
                context: domain.context(),
                pd,
                rkey: window.rkey(0),
                handle: 0,
                kind,
            }),
            window,
            _pd: domain.users.add(),
            _counted: one,
        }))
    })
}

/// `ibv_bind_mw`, of a window of type 1.
pub(crate) extern "C" fn bind_mw(
    qp: Handle<IbvQp>,
    mw: Handle<IbvMw>,
    bind: Out<IbvMwBind>,
) -> c_int {
    guard::errno("ibv_bind_mw", || {
        let (qp, mw, bind) = (&qp.get()?.qp, mw.get()?, bind.input().read()?);
        let key = mw.window.next_key().ok_or(Errno::EINVAL)?;
        let op = if bind.bind_info.length == 0 {
            mw.window.unbind(key)
        } else {
            mw.bind(key.into(), &bind.bind_info)?
        };
        let flags = send_flags(bind.send_flags)?;
        let request = SendRequest::new(bind.wr_id, op, ()).with_flags(flags);
        qp.post_send(&request).or_errno()?;
        mw.c.set(|c| c.rkey = mw.window.rkey(key));
        Ok(())
    })
}

pub(crate) extern "C" fn dealloc_mw(mw: Handle<IbvMw>) -> c_int {
    guard::errno("ibv_dealloc_mw", || mw.take().map(drop))
}
