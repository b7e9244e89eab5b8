//! The functions that rdma-core reserves for itself. The libraries of hardware vendors are linked
//! to them, and perftest loads those in any case. Their drivers find no device here.

/// `verbs_register_driver_34`, which vendor libraries call when they are loaded.
pub(crate) extern "C" fn register_driver() {}

/// `ibv_fork_init`. The NIC is part of this process: it accesses memory as every thread does, and a
/// fork does not change that.
pub(crate) extern "C" fn fork_init() -> std::ffi::c_int {
    0
}

/// `ibv_is_fork_initialized`: no initialisation is needed.
pub(crate) extern "C" fn is_fork_initialized() -> std::ffi::c_int {
    crate::convert::int(crate::abi::FORK_UNNEEDED)
}
