//! Contexts: open devices.

use crate::events::Registry;
use crate::limits::Counts;
use crate::prelude::*;
use crate::{cq, dm, domain, fork, import, mr, mw, prefetch, qp, query, srq, xrc};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use roce_verbs::device::AsyncEvents;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::null;

#[repr(C)]
pub(crate) struct Context {
    c: CPart<VerbsContext>,
    pub(crate) state: Arc<State>,
    /// Counts this context in [`State::contexts`].
    opened: Use,
    /// The descriptor with which `ibv_import_device` imports the context (`cmd_fd`).
    _command: OwnedFd,
}

// SAFETY: `c` is the first field, and `context` the last field of the C structure there.
unsafe impl Part for IbvContext {
    type Object = Context;
    const OFFSET: usize = std::mem::offset_of!(VerbsContext, context);
}

/// The state that a context shares with its objects.
pub(crate) struct State {
    pub(crate) roce: roce_verbs::Context,
    pub(crate) device: Handle<IbvDevice>,
    pub(crate) events: AsyncEvents,
    pub(crate) objects: Registry,
    /// The numbers of objects of the limited kinds.
    pub(crate) counts: Counts,
    pub(crate) xrc_files: xrc::Files,
    /// The contexts that share this state: the opened one, and its imports.
    contexts: Users,
}

impl State {
    /// # Errors
    /// `EINVAL` if an object of this context is used with one of another. The same number, such as
    /// a QPN or a key, names different objects in the two contexts.
    pub(crate) fn check_same(&self, other: &Self) -> Result<(), Errno> {
        if std::ptr::eq(self, other) {
            Ok(())
        } else {
            Err(with_reason(Errno::EINVAL, || {
                "the objects belong to different contexts: one ibv_open_device must have opened both"
                    .to_owned()
            }))
        }
    }
}

/// Makes a descriptor blocking, which is the default according to the man pages. The program may
/// change that later, so [`blocks`] reads the descriptor's flags each time.
pub(crate) fn make_blocking(fd: &impl AsFd) -> Result<(), Errno> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK)).map(drop)
}

/// Whether a descriptor is in blocking mode.
pub(crate) fn blocks(fd: &impl AsFd) -> Result<bool, Errno> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    Ok(!flags.contains(OFlag::O_NONBLOCK))
}

pub(crate) extern "C" fn open_device(device: Handle<IbvDevice>) -> *mut IbvContext {
    guard::pointer("ibv_open_device", || {
        fork::register_handler()?;
        roce_verbs::settings::report_environment();
        let name = &device.get()?.name;
        let found = roce_verbs::Device::named(name).or_errno()?;
        let roce = found.open().or_errno()?;
        let events = roce.async_events();
        make_blocking(&events)?;
        let command = import::new_descriptor()?;
        let state = Arc::new(State {
            roce,
            device,
            events,
            objects: Registry::default(),
            counts: Counts::default(),
            xrc_files: xrc::Files::default(),
            contexts: Users::default(),
        });
        import::register(&command, &state)?;
        Ok(Context::expose(state, command))
    })
}

/// `ibv_close_device`. Closing the last context that shares a state also closes the objects that
/// were not destroyed, as the kernel does.
pub(crate) extern "C" fn close_device(context: Handle<IbvContext>) -> c_int {
    guard::errno("ibv_close_device", || {
        let Context { state, opened, .. } = context.take()?;
        drop(opened);
        if state.contexts.check_none().is_ok() {
            import::unregister(&state);
            state.objects.close();
        }
        Ok(())
    })
}

impl Context {
    pub(crate) fn expose(state: Arc<State>, command: OwnedFd) -> *mut IbvContext {
        let descriptors = [command.as_fd(), state.events.as_fd()];
        let descriptors = descriptors.map(|fd| fd.as_raw_fd());
        Handle::into_raw(Self {
            c: CPart::new(verbs_context(state.device, descriptors)),
            opened: state.contexts.add(),
            _command: command,
            state,
        })
    }

    /// # Errors
    /// `EINVAL` for any port other than 1.
    pub(crate) fn check_port(port: u32) -> Result<(), Errno> {
        if port == 1 {
            Ok(())
        } else {
            Err(with_reason(Errno::EINVAL, || {
                format!("the port is {port}, but the device has only port 1")
            }))
        }
    }
}

fn verbs_context(device: Handle<IbvDevice>, [cmd_fd, async_fd]: [c_int; 2]) -> VerbsContext {
    VerbsContext {
        query_port: query::query_port,
        advise_mr: prefetch::advise_mr,
        alloc_null_mr: mr::alloc_null_mr,
        read_counters: [null(); 4],
        reg_dm_mr: dm::reg_dm_mr,
        alloc_dm: dm::alloc_dm,
        free_dm: dm::free_dm,
        modify_flow_action_esp: [null(); 3],
        modify_qp_rate_limit: qp::modify_qp_rate_limit,
        alloc_parent_domain: domain::alloc_parent_domain,
        dealloc_td: domain::dealloc_td,
        alloc_td: domain::alloc_td,
        modify_cq: cq::modify_cq,
        post_srq_ops: [null(); 6],
        query_rt_values: query::query_rt_values,
        create_cq_ex: cq::create_cq_ex,
        private: null(),
        query_device_ex: query::query_device_ex,
        ibv_destroy_flow: [null(); 5],
        create_qp_ex: qp::create_qp_ex,
        get_srq_num: srq::get_srq_num,
        create_srq_ex: srq::create_srq_ex,
        open_xrcd: xrc::open_xrcd,
        close_xrcd: xrc::close_xrcd,
        _placeholder3: 0,
        sz: size_of::<VerbsContext>(),
        context: IbvContext {
            device,
            ops: ops(),
            cmd_fd,
            async_fd,
            num_comp_vectors: 1,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            abi_compat: ABI_IS_EXTENDED,
        },
    }
}

fn ops() -> IbvContextOps {
    IbvContextOps {
        _compat_query_device: [null(); 7],
        alloc_mw: mw::alloc_mw,
        bind_mw: mw::bind_mw,
        dealloc_mw: mw::dealloc_mw,
        _compat_create_cq: null(),
        poll_cq: cq::poll_cq,
        req_notify_cq: cq::req_notify_cq,
        _compat_cq_event: [null(); 7],
        post_srq_recv: srq::post_srq_recv,
        _compat_create_qp: [null(); 4],
        post_send: qp::post_send,
        post_recv: qp::post_recv,
        _compat_create_ah: [null(); 5],
    }
}
