//! The symbols that rdma-core reserves for itself and its drivers. Their version is a number that
//! changes between releases: 34 up to release 61 and in Debian 12 and 13, 65 in release 65. For a
//! symbol with both, 34 is the default version.

use crate::unsupported;
#[cfg(not(test))]
use std::arch::global_asm;

// The functions that drivers call, in both versions.
export_private! { BOTH:
    unsupported::errno:
        "execute_ioctl"
        "ibv_cmd_advise_mr"
        "ibv_cmd_alloc_dm"
        "ibv_cmd_alloc_mw"
        "ibv_cmd_alloc_pd"
        "ibv_cmd_attach_mcast"
        "ibv_cmd_close_xrcd"
        "ibv_cmd_create_ah"
        "ibv_cmd_create_counters"
        "ibv_cmd_create_cq"
        "ibv_cmd_create_cq_ex2"
        "ibv_cmd_create_cq_ex"
        "ibv_cmd_create_flow_action_esp"
        "ibv_cmd_create_qp"
        "ibv_cmd_create_qp_ex2"
        "ibv_cmd_create_qp_ex"
        "ibv_cmd_create_rwq_ind_table"
        "ibv_cmd_create_srq"
        "ibv_cmd_create_srq_ex"
        "ibv_cmd_create_wq"
        "ibv_cmd_dealloc_mw"
        "ibv_cmd_dealloc_pd"
        "ibv_cmd_dereg_mr"
        "ibv_cmd_destroy_ah"
        "ibv_cmd_destroy_counters"
        "ibv_cmd_destroy_cq"
        "ibv_cmd_destroy_flow"
        "ibv_cmd_destroy_flow_action"
        "ibv_cmd_destroy_qp"
        "ibv_cmd_destroy_rwq_ind_table"
        "ibv_cmd_destroy_srq"
        "ibv_cmd_destroy_wq"
        "ibv_cmd_detach_mcast"
        "ibv_cmd_free_dm"
        "ibv_cmd_get_context"
        "ibv_cmd_modify_cq"
        "ibv_cmd_modify_flow_action_esp"
        "ibv_cmd_modify_qp"
        "ibv_cmd_modify_qp_ex"
        "ibv_cmd_modify_srq"
        "ibv_cmd_modify_wq"
        "ibv_cmd_open_qp"
        "ibv_cmd_open_xrcd"
        "ibv_cmd_poll_cq"
        "ibv_cmd_post_recv"
        "ibv_cmd_post_send"
        "ibv_cmd_post_srq_recv"
        "ibv_cmd_query_context"
        "ibv_cmd_query_device_any"
        "ibv_cmd_query_mr"
        "ibv_cmd_query_port"
        "ibv_cmd_query_qp"
        "ibv_cmd_query_srq"
        "ibv_cmd_read_counters"
        "ibv_cmd_reg_dm_mr"
        "ibv_cmd_reg_dmabuf_mr"
        "ibv_cmd_reg_mr"
        "ibv_cmd_req_notify_cq"
        "ibv_cmd_rereg_mr"
        "ibv_cmd_resize_cq"
        ;
    unsupported::minus_one:
        "ibv_read_ibdev_sysfs_file"
        ;
    unsupported::null:
        "__ioctl_final_num_attrs"
        "__verbs_log"
        "_verbs_init_and_alloc_context"
        "ibv_cmd_create_flow"
        "verbs_init_cq"
        "verbs_open_device"
        "verbs_set_ops"
        "verbs_uninit_context"
        ;
}

// Those of one version.
export! { ONE:
    unsupported::errno:
        "ibv_cmd_query_device@@IBVERBS_PRIVATE_34"
        "ibv_cmd_alloc_dmah@@IBVERBS_PRIVATE_65"
        "ibv_cmd_create_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_destroy_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_free_dmah@@IBVERBS_PRIVATE_65"
        "ibv_cmd_inc_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_inc_err_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_qp_attach_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_query_comp_cntr_caps@@IBVERBS_PRIVATE_65"
        "ibv_cmd_query_port_speed@@IBVERBS_PRIVATE_65"
        "ibv_cmd_read_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_read_err_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_reg_mr_ex@@IBVERBS_PRIVATE_65"
        "ibv_cmd_set_comp_cntr@@IBVERBS_PRIVATE_65"
        "ibv_cmd_set_err_comp_cntr@@IBVERBS_PRIVATE_65"
        ;
    unsupported::minus_one:
        "ibv_cmd_export_dmabuf_fd@@IBVERBS_PRIVATE_65"
        ;
    unsupported::null:
        "ibv_dmabuf_heap_alloc@@IBVERBS_PRIVATE_65"
        "ibv_dmabuf_heap_cc_shared_init@@IBVERBS_PRIVATE_65"
        "ibv_dmabuf_heap_destroy@@IBVERBS_PRIVATE_65"
        "ibv_dmabuf_heap_free@@IBVERBS_PRIVATE_65"
        ;
}

// A flag that programs and drivers set, of one byte. It allows objects of a removed device to be
// destroyed, which this library always does.
export_data! { FLAG: 1 byte:
    "verbs_allow_disassociate_destroy@@IBVERBS_PRIVATE_34"
    "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_65"
}
