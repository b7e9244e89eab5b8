//! The names of calls, errors and statuses.

use nix::errno::Errno;
use roce_stack::WcStatus;

/// The C API calls that can fail, and into which errors can be injected. Calls of libibverbs are listed
/// without their `ibv_` prefix.
pub const CALLS: &[&str] = &[
    "alloc_dm",
    "alloc_mw",
    "alloc_null_mr",
    "alloc_parent_domain",
    "alloc_pd",
    "alloc_td",
    "attach_mcast",
    "bind_mw",
    "create_ah",
    "create_comp_channel",
    "create_cq",
    "create_cq_ex",
    "create_qp",
    "create_qp_ex",
    "create_srq",
    "create_srq_ex",
    "dealloc_mw",
    "dealloc_pd",
    "dereg_mr",
    "destroy_ah",
    "destroy_cq",
    "destroy_qp",
    "destroy_srq",
    "detach_mcast",
    "modify_cq",
    "modify_qp",
    "modify_srq",
    "open_device",
    "open_xrcd",
    "poll_cq",
    "post_recv",
    "post_send",
    "post_srq_recv",
    "query_device",
    "query_device_ex",
    "query_gid",
    "query_port",
    "query_qp",
    "query_srq",
    "rdma_accept",
    "rdma_bind_addr",
    "rdma_connect",
    "rdma_create_event_channel",
    "rdma_create_id",
    "rdma_create_qp",
    "rdma_disconnect",
    "rdma_get_cm_event",
    "rdma_listen",
    "rdma_resolve_addr",
    "rdma_resolve_route",
    "reg_dmabuf_mr",
    "reg_mr",
    "req_notify_cq",
    "rereg_mr",
    "resize_cq",
];

/// The fault that kills the process.
pub(crate) const DIE: &str = "die";

/// Finds an error by its name, such as ENOMEM.
pub(crate) fn find_errno(name: &str) -> Option<Errno> {
    (1..=i32::from(u8::MAX))
        .map(Errno::from_raw)
        .find(|errno| *errno != Errno::UnknownErrno && format!("{errno:?}") == name)
}

/// The C name of a status, without `IBV_WC_`.
pub(crate) fn status_name(status: WcStatus) -> &'static str {
    let name = status.c_name();
    name.strip_prefix("IBV_WC_").unwrap_or(name)
}

/// Finds an error status by its name, with or without `IBV_WC_`.
pub(crate) fn find_status(name: &str) -> Option<WcStatus> {
    let name = name.strip_prefix("IBV_WC_").unwrap_or(name);
    let failures = WcStatus::ALL.iter().copied();
    failures
        .filter(|status| *status != WcStatus::Success)
        .find(|status| status_name(*status) == name)
}
