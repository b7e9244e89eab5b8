//! Device memory.

use crate::convert::access;
use crate::objects::SharedDm;
use crate::prelude::*;
use crate::state::State;
use crate::{abi, mr};
use roce_verbs::memory::ProgramRegion;

/// Device memory, which C may have several pointers to.
#[repr(C)]
pub(crate) struct Dm {
    _c: CPart<IbvDm>,
    shared: Arc<SharedDm>,
    state: Arc<State>,
}

/// The handle of memory that is not in the table, and can't be imported.
const NO_HANDLE: u32 = 0;

first_part!(IbvDm => Dm._c);

impl Dm {
    fn expose(
        context: Handle<IbvContext>,
        shared: Arc<SharedDm>,
        state: &Arc<State>,
    ) -> *mut IbvDm {
        Handle::into_raw(Self {
            _c: CPart::new(IbvDm {
                context,
                memcpy_to_dm,
                memcpy_from_dm,
                comp_mask: 0,
                handle: shared.handle,
            }),
            shared,
            state: Arc::clone(state),
        })
    }
}

fn size(number: u64) -> Result<usize, Errno> {
    usize::try_from(number).map_err(|_| Errno::EINVAL)
}

/// `ibv_alloc_dm`. It also works in a forked child, whose memory is its own and can't be imported.
pub(crate) extern "C" fn alloc_dm(
    context: Handle<IbvContext>,
    attr: In<IbvAllocDmAttr>,
) -> *mut IbvDm {
    guard::pointer("ibv_alloc_dm", || {
        let state = &context.get_of_any_process()?.state;
        let attr = attr.read()?;
        check_bits("comp_mask", attr.comp_mask, 0_u32, Errno::EINVAL)?;
        let memory = state
            .roce
            .alloc_device_memory(attr.length, attr.log_align_req);
        let memory = memory.or_errno()?;
        let share = |handle| SharedDm {
            memory,
            users: Users::default(),
            handle,
        };
        let shared = match context.get() {
            Ok(_) => state.objects.device_memory.insert(share),
            // In a forked child, the table's lock may be a copy that stays locked forever.
            Err(_) => Arc::new(share(NO_HANDLE)),
        };
        Ok(Dm::expose(context, shared, state))
    })
}

pub(crate) extern "C" fn free_dm(dm: Handle<IbvDm>) -> c_int {
    guard::errno("ibv_free_dm", || {
        let found = dm.get()?;
        found.shared.users.check_none()?;
        if found.shared.handle != NO_HANDLE {
            let known = &found.state.objects.device_memory;
            known.remove(found.shared.handle);
        }
        dm.take().map(drop)
    })
}

/// `ibv_import_dm`: memory of this context, or of the one it was imported from.
pub(crate) extern "C" fn import_dm(context: Handle<IbvContext>, handle: u32) -> *mut IbvDm {
    guard::pointer("ibv_import_dm", || {
        let state = &context.get()?.state;
        let found = state.objects.device_memory.find(handle);
        Ok(Dm::expose(context, found.ok_or(Errno::ENOENT)?, state))
    })
}

/// `ibv_unimport_dm`: the memory stays allocated.
pub(crate) extern "C" fn unimport_dm(dm: Handle<IbvDm>) {
    guard::nothing("ibv_unimport_dm", || dm.take().map(drop));
}

extern "C" fn memcpy_to_dm(dm: Handle<IbvDm>, offset: u64, from: In<u8>, len: usize) -> c_int {
    guard::errno("ibv_memcpy_to_dm", || {
        let memory = &dm.get()?.shared.memory;
        memory.copy_to(size(offset)?, from.slice(len)?).or_errno()
    })
}

extern "C" fn memcpy_from_dm(to: Out<u8>, dm: Handle<IbvDm>, offset: u64, len: usize) -> c_int {
    guard::errno("ibv_memcpy_from_dm", || {
        let memory = &dm.get()?.shared.memory;
        memory.copy_from(size(offset)?, to.slice(len)?).or_errno()
    })
}

/// `ibv_reg_dm_mr`. The region's addresses start at 0, so the program must pass
/// `IBV_ACCESS_ZERO_BASED`.
pub(crate) extern "C" fn reg_dm_mr(
    pd: Handle<IbvPd>,
    dm: Handle<IbvDm>,
    offset: u64,
    length: usize,
    flags: u32,
) -> *mut IbvMr {
    guard::pointer("ibv_reg_dm_mr", || {
        let (domain, dm) = (pd.get()?, dm.get()?);
        if flags & abi::ACCESS_ZERO_BASED == 0 {
            return Err(Errno::EINVAL);
        }
        let access = access(flags & !(abi::ACCESS_ZERO_BASED | abi::ACCESS_OPTIONAL_RANGE))?;
        let SharedDm { memory, users, .. } = &*dm.shared;
        let region = memory.register(&domain.pd, size(offset)?, length, access);
        let region = ProgramRegion::of_registration(region.or_errno()?);
        let place = (std::ptr::null_mut(), length);
        mr::expose(pd, place, region, Some(users.add()))
    })
}
