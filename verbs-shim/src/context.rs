//! Opens and closes devices, and the table of their functions.

use crate::objects::Registry;
use crate::prelude::*;
use crate::state::{Context, State};
use crate::wait::make_blocking;
use crate::{cq, dm, domain, import, mr, mw, prefetch, qp, query, srq, xrc};
use roce_trust::fork;
use roce_verbs::device::ObjectCounts;
use roce_verbs::qp::XrcFiles;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::null;

pub(crate) extern "C" fn open_device(device: Handle<IbvDevice>) -> *mut IbvContext {
    guard::pointer("ibv_open_device", || {
        fork::register_handler().or_errno()?;
        roce_verbs::settings::report_environment();
        let name = &device.get()?.name;
        let found = roce_verbs::Device::named(name).or_errno()?;
        let roce = found.open().or_errno()?;
        let events = roce.async_events();
        make_blocking(&events)?;
        let command = import::new_descriptor()?;
        let state = Arc::new(State {
            xrc_files: XrcFiles::new(&roce),
            roce,
            device,
            events,
            objects: Registry::default(),
            counts: ObjectCounts::default(),
            contexts: Users::default(),
        });
        import::register(&command, &state)?;
        Ok(expose(state, command))
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

/// `ibv_import_device`: takes ownership of a duplicate of the descriptor of an open context of this
/// process, and closes it with the context.
pub(crate) extern "C" fn import_device(cmd_fd: c_int) -> *mut IbvContext {
    guard::pointer("ibv_import_device", || {
        let (state, command) = import::take(cmd_fd)?;
        Ok(expose(state, command))
    })
}

/// Creates a C object for an open device.
fn expose(state: Arc<State>, command: OwnedFd) -> *mut IbvContext {
    let descriptors = [command.as_fd(), state.events.as_fd()];
    let descriptors = descriptors.map(|fd| fd.as_raw_fd());
    Handle::into_raw(Context {
        c: CPart::new(verbs_context(state.device, descriptors)),
        opened: state.contexts.add(),
        _command: command,
        state,
    })
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
