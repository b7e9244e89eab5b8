//! Memory of the device.

use crate::abi::{IbvAllocDmAttr, IbvDm, IbvMr};
use crate::context::Context;
use crate::convert::access;
use crate::errors::OrErrno;
use crate::pd::Pd;
use crate::pointer::{CPart, Handle, In, Object, Out};
use crate::usage::Users;
use crate::{abi, guard, mr};
use nix::errno::Errno;
use roce_verbs::DeviceMemory;
use std::ffi::c_int;

/// Memory of the device.
#[repr(C)]
pub(crate) struct Dm {
    _c: CPart<IbvDm>,
    memory: DeviceMemory,
    /// Its regions.
    users: Users,
}

// SAFETY: `_c` is the first field.
unsafe impl Object for Dm {
    type C = IbvDm;
}

fn size(number: u64) -> Result<usize, Errno> {
    usize::try_from(number).map_err(|_| Errno::EINVAL)
}

/// The memory is aligned to pages.
const MAX_LOG_ALIGN: u32 = 12;

/// `ibv_alloc_dm`.
pub(crate) extern "C" fn alloc_dm(
    context: Handle<Context>,
    attr: In<IbvAllocDmAttr>,
) -> *mut IbvDm {
    guard::pointer(|| {
        let state = &context.get()?.state;
        let attr = attr.get()?;
        if attr.comp_mask != 0 || attr.log_align_req > MAX_LOG_ALIGN || attr.length == 0 {
            return Err(Errno::EINVAL);
        }
        let memory = state.roce.alloc_device_memory(attr.length);
        Ok(Handle::give(Dm {
            _c: CPart::new(IbvDm {
                context,
                memcpy_to_dm,
                memcpy_from_dm,
                comp_mask: 0,
                handle: 0,
            }),
            memory: memory.map_err(|_| Errno::ENOMEM)?,
            users: Users::default(),
        }))
    })
}

/// `ibv_free_dm`.
pub(crate) extern "C" fn free_dm(dm: Handle<Dm>) -> c_int {
    guard::errno(|| {
        dm.get()?.users.check_none()?;
        dm.take().map(drop)
    })
}

extern "C" fn memcpy_to_dm(dm: Handle<Dm>, offset: u64, from: In<u8>, len: usize) -> c_int {
    guard::errno(|| {
        let memory = &dm.get()?.memory;
        memory.copy_to(size(offset)?, from.slice(len)?).or_errno()
    })
}

extern "C" fn memcpy_from_dm(to: Out<u8>, dm: Handle<Dm>, offset: u64, len: usize) -> c_int {
    guard::errno(|| {
        let memory = &dm.get()?.memory;
        memory.copy_from(size(offset)?, to.slice(len)?).or_errno()
    })
}

/// `ibv_reg_dm_mr`: peers call its first byte 0, which a program must ask for.
pub(crate) extern "C" fn reg_dm_mr(
    pd: Handle<Pd>,
    dm: Handle<Dm>,
    offset: u64,
    length: usize,
    flags: u32,
) -> *mut IbvMr {
    guard::pointer(|| {
        let (domain, dm) = (pd.get()?, dm.get()?);
        if flags & abi::ACCESS_ZERO_BASED == 0 {
            return Err(Errno::EINVAL);
        }
        let access = access(flags & !(abi::ACCESS_ZERO_BASED | abi::ACCESS_OPTIONAL_RANGE))?;
        let region = dm
            .memory
            .register(&domain.pd, size(offset)?, length, access);
        let user = Some(dm.users.add());
        mr::give(pd, std::ptr::null_mut(), length, region.or_errno()?, user)
    })
}
