//! Functions that have nothing to do here.

/// `verbs_register_driver_34`, which the libraries of hardware vendors call when they are loaded.
/// perftest loads those libraries on every machine. Their drivers find no device here.
pub(crate) extern "C" fn register_driver() {}

/// `ibv_fork_init`. The NIC is part of this process and accesses memory like any thread, so a fork
/// needs no preparation.
pub(crate) extern "C" fn fork_init() -> std::ffi::c_int {
    0
}

/// `ibv_is_fork_initialized`: no initialisation is needed.
pub(crate) extern "C" fn is_fork_initialized() -> std::ffi::c_int {
    crate::convert::int(crate::abi::FORK_UNNEEDED)
}
