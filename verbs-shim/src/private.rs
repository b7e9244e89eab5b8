//! What rdma-core keeps for itself, and the libraries of hardware vendors are linked to:
//! perftest loads those, whether it uses them or not. Their drivers find no device here.

/// `verbs_register_driver_34`, which they call when they are loaded.
pub(crate) extern "C" fn register_driver() {}

/// `ibv_fork_init`. The NIC is this process: it accesses memory as every thread does, and
/// a fork takes none of it away.
pub(crate) extern "C" fn fork_init() -> std::ffi::c_int {
    0
}

/// `ibv_is_fork_initialized`: nothing has to be.
pub(crate) extern "C" fn is_fork_initialized() -> std::ffi::c_int {
    crate::convert::int(crate::abi::FORK_UNNEEDED)
}
