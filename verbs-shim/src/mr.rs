//! Memory regions.

use crate::convert::access;
use crate::limits::MAX_MRS;
use crate::pd::Pd;
use crate::prelude::*;
use crate::region::{Backing, Region, Registered};
use crate::state::State;
use roce_verbs::Access;
use roce_verbs::memory::{
    Memory, ProcessMemory, ProtectionDomain, Registration, check_mapped, durable_memory,
    mapped_memory, tie_memory,
};

/// One C object for a memory region. Several may share one [`Region`].
#[repr(C)]
pub(crate) struct Mr {
    c: CPart<IbvMr>,
    pub(crate) region: Arc<Region>,
    state: Arc<State>,
}

first_part!(IbvMr => Mr.c);

/// The memory and access flags that the program passes.
struct MemoryParams {
    addr: *mut c_void,
    length: usize,
    flags: u32,
}

impl MemoryParams {
    fn access(&self) -> Result<Access, Errno> {
        let about_mapping =
            ACCESS_ON_DEMAND | ACCESS_HUGETLB | ACCESS_ZERO_BASED | ACCESS_OPTIONAL_RANGE;
        access(self.flags & !about_mapping)
    }

    fn is_on_demand(&self) -> bool {
        self.flags & ACCESS_ON_DEMAND != 0
    }

    fn backing(&self, on_demand: bool) -> Backing {
        match on_demand {
            true => Backing::OnDemand,
            false => Backing::Program {
                addr: self.addr as usize,
                len: self.length,
            },
        }
    }

    fn memory(&self, access: Access, on_demand: bool) -> Result<Memory, Errno> {
        let memory = self.memory_of_any_kind(access, on_demand)?;
        match access.contains(Access::FLUSH_PERSISTENT) {
            true => durable_memory(memory).or_errno(),
            false => Ok(memory),
        }
    }

    fn memory_of_any_kind(&self, access: Access, on_demand: bool) -> Result<Memory, Errno> {
        let Self { addr, length, .. } = *self;
        if !on_demand {
            if length == 0 {
                return Err(with_reason(Errno::EINVAL, || {
                    "the length is 0, and a region has at least one byte".to_owned()
                }));
            }
            check_mapped(addr as usize, length, access).or_errno()?;
            // SAFETY: the program was told to keep the memory mapped as long as the region is
            // registered, and no Rust reference to it exists.
            let memory = unsafe { mapped_memory(addr.cast(), length as u64) };
            return memory.or_errno();
        }
        let accessor = ProcessMemory::of_this_process().or_errno()?;
        if addr.is_null() && length == usize::MAX {
            // SAFETY: as above.
            return Ok(unsafe { Memory::whole_address_space(accessor) });
        }
        // SAFETY: as above.
        Ok(unsafe { Memory::on_demand(addr as u64, length as u64, accessor) })
    }
}

fn register(pd: Handle<IbvPd>, params: &MemoryParams, iova: u64) -> Result<*mut IbvMr, Errno> {
    let domain = pd.get()?;
    let access = params.access()?;
    let iova = if params.flags & ACCESS_ZERO_BASED == 0 {
        iova
    } else {
        0
    };
    let on_demand = params.is_on_demand();
    let memory = params.memory(access, on_demand)?;
    let registered = domain.pd.register_memory(memory, Some(iova), access);
    let registered = registered.or_errno()?;
    let backing = params.backing(on_demand);
    expose(pd, params.addr, params.length, registered, backing)
}

/// Creates the C object of a registration.
pub(crate) fn expose(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    registration: Registration,
    backing: Backing,
) -> Result<*mut IbvMr, Errno> {
    let domain = pd.get()?;
    let keys = (registration.lkey(), registration.rkey());
    let belongs_to_program = matches!(backing, Backing::Program { .. });
    let registered = Registered {
        registration,
        backing,
        tie: None,
        pd: domain.users.add(),
        _counted: domain.state.counts.mrs.try_add(MAX_MRS)?,
    };
    let region = domain.state.objects.regions.insert(|handle| Region {
        registered: Mutex::new(Some(registered)),
        handle,
    });
    if belongs_to_program {
        let tied = tie_memory(Arc::<Region>::downgrade(&region), addr as usize, length);
        let tied = tied.or_errno().inspect_err(|_| {
            domain.state.objects.regions.remove(region.handle);
        })?;
        region.with(|registered| {
            registered.tie = tied;
            Ok(())
        })?;
    }
    Ok(new_pointer(pd, domain, (addr, length), keys, region))
}

/// Creates another C object that refers to a region.
fn new_pointer(
    pd: Handle<IbvPd>,
    domain: &Pd,
    (addr, length): (*mut c_void, usize),
    (lkey, rkey): (u32, u32),
    region: Arc<Region>,
) -> *mut IbvMr {
    Handle::into_raw(Mr {
        c: CPart::new(IbvMr {
            context: domain.context(),
            pd,
            addr,
            length,
            handle: region.handle,
            lkey,
            rkey,
        }),
        region,
        state: Arc::clone(&domain.state),
    })
}

/// `ibv_alloc_null_mr`: the region starts at address 0 and has no end.
pub(crate) extern "C" fn alloc_null_mr(pd: Handle<IbvPd>) -> *mut IbvMr {
    guard::pointer("ibv_alloc_null_mr", || {
        let domain = &pd.get()?.pd;
        let region = domain.register_memory(Memory::null(), None, Access::LOCAL_WRITE);
        let (region, addr) = (region.or_errno()?, std::ptr::null_mut());
        expose(pd, addr, usize::MAX, region, Backing::None)
    })
}

pub(crate) extern "C" fn reg_mr(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> *mut IbvMr {
    reg_mr_iova2(pd, addr, length, addr as u64, flags.cast_unsigned())
}

pub(crate) extern "C" fn reg_mr_iova(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_int,
) -> *mut IbvMr {
    reg_mr_iova2(pd, addr, length, iova, flags.cast_unsigned())
}

pub(crate) extern "C" fn reg_mr_iova2(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: u32,
) -> *mut IbvMr {
    guard::pointer("ibv_reg_mr", || {
        let params = MemoryParams {
            addr,
            length,
            flags,
        };
        register(pd, &params, iova)
    })
}

/// `IBV_REREG_MR_ERR_INPUT`: the input is invalid, and the region is unchanged.
const REREG_MR_ERR_INPUT: c_int = -1;

pub(crate) extern "C" fn rereg_mr(
    mr: Handle<IbvMr>,
    change: c_int,
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> c_int {
    guard::value("ibv_rereg_mr", REREG_MR_ERR_INPUT, || {
        let mr = mr.get()?;
        let change = change.cast_unsigned();
        let all = REREG_MR_CHANGE_TRANSLATION | REREG_MR_CHANGE_PD | REREG_MR_CHANGE_ACCESS;
        if change == 0 || change & !all != 0 {
            return Err(Errno::EINVAL);
        }
        let changes = |bit| change & bit != 0;
        let params = MemoryParams {
            addr,
            length,
            flags: flags.cast_unsigned(),
        };
        let access = changes(REREG_MR_CHANGE_ACCESS)
            .then(|| params.access())
            .transpose()?;
        let domain = changes(REREG_MR_CHANGE_PD).then(|| pd.get()).transpose()?;
        let moves = changes(REREG_MR_CHANGE_TRANSLATION);
        mr.region.with(|registered| {
            let change = Change {
                access,
                domain: domain.map(|domain| &domain.pd),
                to: moves.then_some(&params),
            };
            change.apply(&mr.region, registered)?;
            if let Some(domain) = domain {
                registered.pd = domain.users.add();
            }
            Ok(())
        })?;
        if domain.is_some() {
            mr.c.set(|c| c.pd = pd);
        }
        if moves {
            mr.c.set(|c| (c.addr, c.length) = (addr, length));
        }
        Ok(0)
    })
}

/// The attributes that a re-registration changes.
struct Change<'a> {
    access: Option<Access>,
    domain: Option<&'a ProtectionDomain>,
    to: Option<&'a MemoryParams>,
}

impl Change<'_> {
    /// Changes a region, after the checks of a registration with the new rights and the new memory.
    ///
    /// # Errors
    /// Those of the registration. The region is then unchanged.
    fn apply(&self, region: &Arc<Region>, registered: &mut Registered) -> Result<(), Errno> {
        let before = registered.registration.access();
        let rights = self.access.unwrap_or(before);
        let on_demand = match (self.to, self.access) {
            // Without new rights, the flags are not read.
            (Some(to), Some(_)) => to.is_on_demand(),
            _ => matches!(registered.backing, Backing::OnDemand),
        };
        let memory = match (self.to, self.access) {
            (Some(to), _) => Some((to.memory(rights, on_demand)?, None)),
            (None, Some(access)) => {
                // Rights can be taken away whatever has become of the memory.
                if (access - before).contains(Access::LOCAL_WRITE) {
                    registered.backing.allow_writes()?;
                }
                let persistent = access.contains(Access::FLUSH_PERSISTENT);
                let durable = persistent
                    .then(|| registered.backing.durable())
                    .transpose()?;
                durable.map(|memory| (memory, Some(registered.registration.addr())))
            }
            (None, None) => None,
        };
        let tie = match self.to {
            Some(to) if !on_demand => {
                let weak = Arc::<Region>::downgrade(region);
                tie_memory(weak, to.addr as usize, to.length).or_errno()?
            }
            _ => None,
        };
        let registration = &mut registered.registration;
        registration
            .reregister(self.domain, self.access, memory)
            .or_errno()?;
        if let Some(to) = self.to {
            registered.tie = tie;
            registered.backing = to.backing(on_demand);
        }
        Ok(())
    }
}

pub(crate) extern "C" fn dereg_mr(mr: Handle<IbvMr>) -> c_int {
    guard::errno("ibv_dereg_mr", || {
        let found = mr.get()?;
        found.region.deregister()?;
        found.state.objects.regions.remove(found.region.handle);
        mr.take().map(drop)
    })
}

/// `ibv_import_mr`: the result's `addr` is NULL, as the man page says.
pub(crate) extern "C" fn import_mr(pd: Handle<IbvPd>, handle: u32) -> *mut IbvMr {
    guard::pointer("ibv_import_mr", || {
        let domain = pd.get()?;
        let found = domain.state.objects.regions.find(handle);
        let region = found.ok_or(Errno::ENOENT)?;
        let (len, lkey, rkey) = region.try_with(|known| {
            let len = usize::try_from(known.len()).map_err(|_| Errno::EINVAL)?;
            Ok((len, known.lkey(), known.rkey()))
        })?;
        let place = (std::ptr::null_mut(), len);
        Ok(new_pointer(pd, domain, place, (lkey, rkey), region))
    })
}

/// `ibv_unimport_mr`: the region stays registered.
pub(crate) extern "C" fn unimport_mr(mr: Handle<IbvMr>) {
    guard::nothing("ibv_unimport_mr", || mr.take().map(drop));
}
