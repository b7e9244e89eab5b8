//! The exported symbols: the function, or the size of the variable, and the version of each.

use crate::rdmacm::{
    accept, addrinfo, attributes, connect, endpoint, event, lifetime, multicast as cm_multicast,
    option, qp as cm_qp, resolve, srq as cm_srq,
};
use crate::rsocket::{
    endpoints as rsocket_endpoints, options as rsocket_options, select as rsocket_select,
    transfer as rsocket_transfer,
};
use crate::{
    ah, buffer, channel, context, cq, device, dm, dmabuf, events, mr, mr_ex, multicast, no_op, pd,
    qp, query, rates, srq, strings, sysfs, unsupported,
};
#[cfg(not(test))]
use std::arch::global_asm;

#[cfg(all(target_arch = "x86_64", not(test)))]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}

#[cfg(all(target_arch = "aarch64", not(test)))]
macro_rules! jump {
    () => {
        "b {function}"
    };
}

/// Rust does not support symbol versions, so each symbol is an assembler label in the form that
/// linkers recognise: `name@@VERSION` for the default version, `name@VERSION` for another one.
#[cfg(not(test))]
macro_rules! export_one {
    ($symbol:expr, $function:path) => {
        global_asm!(
            concat!(".globl \"", $symbol, "\""),
            concat!(".type \"", $symbol, "\", @function"),
            concat!("\"", $symbol, "\":"),
            jump!(),
            concat!(".size \"", $symbol, "\", . - \"", $symbol, "\""),
            function = sym $function,
        );
    };
}

#[cfg(not(test))]
macro_rules! export {
    ($list:ident: $($function:path: $($symbol:literal)*;)*) => {$($(
        export_one!($symbol, $function);
    )*)*};
}

/// Exports functions under both versions of the symbols that are private to rdma-core.
#[cfg(not(test))]
macro_rules! export_private {
    ($list:ident: $($function:path: $($name:literal)*;)*) => {$($(
        export_one!(concat!($name, "@@IBVERBS_PRIVATE_34"), $function);
        export_one!(concat!($name, "@IBVERBS_PRIVATE_65"), $function);
    )*)*};
}

/// The unit tests are linked without symbol versions, so this defines only a list of the symbols.
#[cfg(test)]
macro_rules! export {
    ($list:ident: $($function:path: $($symbol:literal)*;)*) => {
        pub(super) const $list: &[(&[&str], *const ())] = &[
            $((&[$($symbol),*], $function as *const ()),)*
        ];
    };
}

/// As `export` in unit tests.
#[cfg(test)]
macro_rules! export_private {
    ($list:ident: $($function:path: $($name:literal)*;)*) => {
        pub(super) const $list: &[(&[&str], *const ())] = &[$((
            &[$(
                concat!($name, "@@IBVERBS_PRIVATE_34"),
                concat!($name, "@IBVERBS_PRIVATE_65"),
            )*],
            $function as *const (),
        ),)*];
    };
}

/// Exports a variable that other code writes, under each of these symbols.
#[cfg(not(test))]
macro_rules! export_data {
    ($list:ident: $bytes:literal byte: $($symbol:literal)*) => {
        global_asm!(
            concat!(".pushsection \".bss.", stringify!($list), "\", \"aw\", @nobits"),
            $(
                concat!(".globl \"", $symbol, "\""),
                concat!(".type \"", $symbol, "\", @object"),
                concat!(".size \"", $symbol, "\", ", $bytes),
                concat!("\"", $symbol, "\":"),
            )*
            concat!(".zero ", $bytes),
            ".popsection",
        );
    };
}

/// As `export` in unit tests.
#[cfg(test)]
macro_rules! export_data {
    ($list:ident: $bytes:literal byte: $($symbol:literal)*) => {
        pub(super) const $list: &[&str] = &[$($symbol),*];
    };
}

mod drivers;

// The functions that programs call.
export! { CURRENT:
    ah::create_ah: "ibv_create_ah@@IBVERBS_1.1";
    ah::create_ah_from_wc: "ibv_create_ah_from_wc@@IBVERBS_1.1";
    ah::destroy_ah: "ibv_destroy_ah@@IBVERBS_1.1";
    ah::init_ah_from_wc: "ibv_init_ah_from_wc@@IBVERBS_1.1";
    buffer::alloc_buf: "ibv_alloc_buf@@IBVERBS_1.17";
    buffer::export_buf_dmabuf_fd: "ibv_export_buf_dmabuf_fd@@IBVERBS_1.18";
    buffer::free_buf: "ibv_free_buf@@IBVERBS_1.17";
    buffer::reg_buf_mr: "ibv_reg_buf_mr@@IBVERBS_1.17";
    channel::ack_cq_events: "ibv_ack_cq_events@@IBVERBS_1.1";
    channel::create_comp_channel: "ibv_create_comp_channel@@IBVERBS_1.0";
    channel::destroy_comp_channel: "ibv_destroy_comp_channel@@IBVERBS_1.0";
    channel::get_cq_event: "ibv_get_cq_event@@IBVERBS_1.1";
    context::close_device: "ibv_close_device@@IBVERBS_1.1";
    context::open_device: "ibv_open_device@@IBVERBS_1.1";
    cq::create_cq: "ibv_create_cq@@IBVERBS_1.1";
    cq::destroy_cq: "ibv_destroy_cq@@IBVERBS_1.1";
    cq::resize_cq: "ibv_resize_cq@@IBVERBS_1.1";
    device::free_device_list: "ibv_free_device_list@@IBVERBS_1.1";
    device::get_device_guid: "ibv_get_device_guid@@IBVERBS_1.1";
    device::get_device_index: "ibv_get_device_index@@IBVERBS_1.9";
    device::get_device_list: "ibv_get_device_list@@IBVERBS_1.1";
    device::get_device_name: "ibv_get_device_name@@IBVERBS_1.1";
    dm::import_dm: "ibv_import_dm@@IBVERBS_1.13";
    dm::unimport_dm: "ibv_unimport_dm@@IBVERBS_1.13";
    dmabuf::reg_dmabuf_mr: "ibv_reg_dmabuf_mr@@IBVERBS_1.12";
    events::ack_async_event: "ibv_ack_async_event@@IBVERBS_1.1";
    events::get_async_event: "ibv_get_async_event@@IBVERBS_1.1";
    context::import_device: "ibv_import_device@@IBVERBS_1.10";
    mr::dereg_mr: "ibv_dereg_mr@@IBVERBS_1.1";
    mr::import_mr: "ibv_import_mr@@IBVERBS_1.10";
    mr::reg_mr: "ibv_reg_mr@@IBVERBS_1.1";
    mr::reg_mr_iova: "ibv_reg_mr_iova@@IBVERBS_1.7";
    mr::reg_mr_iova2: "ibv_reg_mr_iova2@@IBVERBS_1.8";
    mr::rereg_mr: "ibv_rereg_mr@@IBVERBS_1.1";
    mr::unimport_mr: "ibv_unimport_mr@@IBVERBS_1.10";
    mr_ex::reg_mr_ex: "ibv_reg_mr_ex@@IBVERBS_1.15";
    multicast::attach_mcast: "ibv_attach_mcast@@IBVERBS_1.1";
    multicast::detach_mcast: "ibv_detach_mcast@@IBVERBS_1.1";
    pd::alloc_pd: "ibv_alloc_pd@@IBVERBS_1.1";
    pd::dealloc_pd: "ibv_dealloc_pd@@IBVERBS_1.1";
    pd::import_pd: "ibv_import_pd@@IBVERBS_1.10";
    pd::unimport_pd: "ibv_unimport_pd@@IBVERBS_1.10";
    no_op::fork_init:
        "ibv_dofork_range@@IBVERBS_1.1"
        "ibv_dontfork_range@@IBVERBS_1.1"
        "ibv_fork_init@@IBVERBS_1.1"
        ;
    no_op::is_fork_initialized: "ibv_is_fork_initialized@@IBVERBS_1.13";
    no_op::register_driver:
        "verbs_register_driver_34@@IBVERBS_PRIVATE_34"
        "verbs_register_driver_65@@IBVERBS_PRIVATE_65"
        ;
    qp::create_qp: "ibv_create_qp@@IBVERBS_1.1";
    qp::destroy_qp: "ibv_destroy_qp@@IBVERBS_1.1";
    qp::modify_qp: "ibv_modify_qp@@IBVERBS_1.1";
    qp::qp_to_qp_ex: "ibv_qp_to_qp_ex@@IBVERBS_1.6";
    qp::query_qp: "ibv_query_qp@@IBVERBS_1.1";
    qp::query_qp_data_in_order: "ibv_query_qp_data_in_order@@IBVERBS_1.14";
    query::get_pkey_index: "ibv_get_pkey_index@@IBVERBS_1.5";
    query::query_device: "ibv_query_device@@IBVERBS_1.1";
    query::query_gid: "ibv_query_gid@@IBVERBS_1.1";
    query::query_gid_ex: "_ibv_query_gid_ex@@IBVERBS_1.11";
    query::query_gid_table: "_ibv_query_gid_table@@IBVERBS_1.11";
    query::query_gid_type:
        "ibv_query_gid_type@@IBVERBS_PRIVATE_34"
        "ibv_query_gid_type@IBVERBS_PRIVATE_65"
        ;
    query::query_pkey: "ibv_query_pkey@@IBVERBS_1.1";
    query::query_port_speed: "ibv_query_port_speed@@IBVERBS_1.16";
    query::query_port_short: "ibv_query_port@@IBVERBS_1.1";
    rates::mbps_to_rate: "mbps_to_ibv_rate@@IBVERBS_1.1";
    rates::mult_to_rate: "mult_to_ibv_rate@@IBVERBS_1.0";
    rates::rate_to_mbps: "ibv_rate_to_mbps@@IBVERBS_1.1";
    rates::rate_to_mult: "ibv_rate_to_mult@@IBVERBS_1.0";
    srq::create_srq: "ibv_create_srq@@IBVERBS_1.1";
    srq::destroy_srq: "ibv_destroy_srq@@IBVERBS_1.1";
    srq::modify_srq: "ibv_modify_srq@@IBVERBS_1.1";
    srq::query_srq: "ibv_query_srq@@IBVERBS_1.1";
    strings::event_type_str: "ibv_event_type_str@@IBVERBS_1.1";
    strings::node_type_str: "ibv_node_type_str@@IBVERBS_1.1";
    strings::port_state_str: "ibv_port_state_str@@IBVERBS_1.1";
    strings::wc_status_str: "ibv_wc_status_str@@IBVERBS_1.1";
    strings::wr_opcode_str:
        "ibv_wr_opcode_str@@IBVERBS_PRIVATE_34"
        "ibv_wr_opcode_str@IBVERBS_PRIVATE_65"
        ;
    sysfs::get_sysfs_path: "ibv_get_sysfs_path@@IBVERBS_1.0";
    sysfs::read_sysfs_file: "ibv_read_sysfs_file@@IBVERBS_1.0";
}

// The functions of the connection manager that programs call.
export! { CM:
    accept::accept: "rdma_accept@@RDMACM_1.0";
    event::ack_cm_event: "rdma_ack_cm_event@@RDMACM_1.0";
    resolve::bind_addr: "rdma_bind_addr@@RDMACM_1.0";
    connect::connect: "rdma_connect@@RDMACM_1.0";
    endpoint::create_ep: "rdma_create_ep@@RDMACM_1.0";
    lifetime::create_event_channel: "rdma_create_event_channel@@RDMACM_1.0";
    lifetime::create_id: "rdma_create_id@@RDMACM_1.0";
    cm_qp::create_qp: "rdma_create_qp@@RDMACM_1.0";
    cm_qp::create_qp_ex: "rdma_create_qp_ex@@RDMACM_1.0";
    cm_srq::create_srq: "rdma_create_srq@@RDMACM_1.0";
    cm_srq::create_srq_ex: "rdma_create_srq_ex@@RDMACM_1.0";
    endpoint::destroy_ep: "rdma_destroy_ep@@RDMACM_1.0";
    lifetime::destroy_event_channel: "rdma_destroy_event_channel@@RDMACM_1.0";
    lifetime::destroy_id: "rdma_destroy_id@@RDMACM_1.0";
    cm_qp::destroy_qp: "rdma_destroy_qp@@RDMACM_1.0";
    cm_srq::destroy_srq: "rdma_destroy_srq@@RDMACM_1.0";
    accept::disconnect: "rdma_disconnect@@RDMACM_1.0";
    connect::establish: "rdma_establish@@RDMACM_1.2";
    strings::cm_event_str: "rdma_event_str@@RDMACM_1.0";
    resolve::free_devices: "rdma_free_devices@@RDMACM_1.0";
    addrinfo::freeaddrinfo: "rdma_freeaddrinfo@@RDMACM_1.0";
    event::get_cm_event: "rdma_get_cm_event@@RDMACM_1.0";
    resolve::get_devices: "rdma_get_devices@@RDMACM_1.0";
    lifetime::get_dst_port: "rdma_get_dst_port@@RDMACM_1.0";
    endpoint::get_request: "rdma_get_request@@RDMACM_1.0";
    lifetime::get_src_port: "rdma_get_src_port@@RDMACM_1.0";
    addrinfo::getaddrinfo: "rdma_getaddrinfo@@RDMACM_1.0";
    attributes::init_qp_attr: "rdma_init_qp_attr@@RDMACM_1.2";
    cm_multicast::join_multicast: "rdma_join_multicast@@RDMACM_1.0";
    cm_multicast::join_multicast_ex: "rdma_join_multicast_ex@@RDMACM_1.1";
    cm_multicast::leave_multicast: "rdma_leave_multicast@@RDMACM_1.0";
    accept::listen: "rdma_listen@@RDMACM_1.0";
    lifetime::migrate_id: "rdma_migrate_id@@RDMACM_1.0";
    accept::notify: "rdma_notify@@RDMACM_1.0";
    accept::reject: "rdma_reject@@RDMACM_1.0";
    resolve::resolve_addr: "rdma_resolve_addr@@RDMACM_1.0";
    resolve::resolve_route: "rdma_resolve_route@@RDMACM_1.0";
    option::set_option: "rdma_set_option@@RDMACM_1.0";
}

// Sockets over RDMA.
export! { RSOCKETS:
    rsocket_endpoints::accept: "raccept@@RDMACM_1.0";
    rsocket_endpoints::bind: "rbind@@RDMACM_1.0";
    rsocket_endpoints::close: "rclose@@RDMACM_1.0";
    rsocket_endpoints::connect: "rconnect@@RDMACM_1.0";
    rsocket_options::fcntl: "rfcntl@@RDMACM_1.0";
    rsocket_endpoints::peer_name: "rgetpeername@@RDMACM_1.0";
    rsocket_endpoints::local_name: "rgetsockname@@RDMACM_1.0";
    rsocket_options::get: "rgetsockopt@@RDMACM_1.0";
    rsocket_transfer::iomap: "riomap@@RDMACM_1.0";
    rsocket_transfer::iounmap: "riounmap@@RDMACM_1.0";
    rsocket_transfer::iowrite: "riowrite@@RDMACM_1.0";
    rsocket_endpoints::listen: "rlisten@@RDMACM_1.0";
    rsocket_select::poll: "rpoll@@RDMACM_1.0";
    rsocket_transfer::read: "rread@@RDMACM_1.0";
    rsocket_transfer::readv: "rreadv@@RDMACM_1.0";
    rsocket_transfer::recv: "rrecv@@RDMACM_1.0";
    rsocket_transfer::recvfrom: "rrecvfrom@@RDMACM_1.0";
    rsocket_transfer::recvmsg: "rrecvmsg@@RDMACM_1.0";
    rsocket_select::select: "rselect@@RDMACM_1.0";
    rsocket_transfer::send: "rsend@@RDMACM_1.0";
    rsocket_transfer::sendmsg: "rsendmsg@@RDMACM_1.0";
    rsocket_transfer::sendto: "rsendto@@RDMACM_1.0";
    rsocket_options::set: "rsetsockopt@@RDMACM_1.0";
    rsocket_endpoints::shutdown: "rshutdown@@RDMACM_1.0";
    rsocket_endpoints::socket: "rsocket@@RDMACM_1.0";
    rsocket_transfer::write: "rwrite@@RDMACM_1.0";
    rsocket_transfer::writev: "rwritev@@RDMACM_1.0";
}

// Unsupported functions of the connection manager.
export! { CM_UNSUPPORTED:
    unsupported::minus_one_wide:
        "rdma_get_remote_ece@@RDMACM_1.3"
        "rdma_query_addrinfo@@RDMACM_1.4"
        "rdma_reject_ece@@RDMACM_1.3"
        "rdma_resolve_addrinfo@@RDMACM_1.4"
        "rdma_set_local_ece@@RDMACM_1.3"
        "rdma_write_cm_event@@RDMACM_1.4"
        "repoll_create1@@RDMACM_1.5"
        "repoll_create@@RDMACM_1.5"
        "repoll_ctl@@RDMACM_1.5"
        "repoll_wait@@RDMACM_1.5"
        ;
}

// Unsupported functions.
export! { UNSUPPORTED:
    unsupported::errno:
        "_ibv_query_comp_cntr_caps@@IBVERBS_1.18"
        "ibv_destroy_comp_cntr@@IBVERBS_1.18"
        "ibv_inc_comp_cntr@@IBVERBS_1.18"
        "ibv_inc_err_comp_cntr@@IBVERBS_1.18"
        "ibv_qp_attach_comp_cntr@@IBVERBS_1.18"
        "ibv_read_comp_cntr@@IBVERBS_1.18"
        "ibv_read_err_comp_cntr@@IBVERBS_1.18"
        "ibv_set_comp_cntr@@IBVERBS_1.18"
        "ibv_set_err_comp_cntr@@IBVERBS_1.18"
        "ibv_dealloc_dmah@@IBVERBS_1.15"
        "ibv_query_ece@@IBVERBS_1.10"
        "ibv_register_driver@@IBVERBS_1.1"
        "ibv_resolve_eth_l2_from_gid@@IBVERBS_1.1"
        "ibv_set_ece@@IBVERBS_1.10"
        ;
    unsupported::minus_one: "ibv_dm_export_dmabuf_fd@@IBVERBS_1.16";
    unsupported::null:
        "ibv_alloc_dmah@@IBVERBS_1.15"
        "ibv_create_comp_cntr@@IBVERBS_1.18"
        "ibv_copy_ah_attr_from_kern@@IBVERBS_1.1"
        "ibv_copy_path_rec_from_kern@@IBVERBS_1.0"
        "ibv_copy_path_rec_to_kern@@IBVERBS_1.0"
        "ibv_copy_qp_attr_from_kern@@IBVERBS_1.0"
        ;
}

// Versions from 2006, for objects with another layout. No program has been linked to these for many
// years.
export! { OLD:
    unsupported::errno:
        "ibv_attach_mcast@IBVERBS_1.0"
        "ibv_close_device@IBVERBS_1.0"
        "ibv_dealloc_pd@IBVERBS_1.0"
        "ibv_dereg_mr@IBVERBS_1.0"
        "ibv_destroy_ah@IBVERBS_1.0"
        "ibv_destroy_cq@IBVERBS_1.0"
        "ibv_destroy_qp@IBVERBS_1.0"
        "ibv_destroy_srq@IBVERBS_1.0"
        "ibv_detach_mcast@IBVERBS_1.0"
        "ibv_modify_qp@IBVERBS_1.0"
        "ibv_modify_srq@IBVERBS_1.0"
        "ibv_query_device@IBVERBS_1.0"
        "ibv_query_port@IBVERBS_1.0"
        "ibv_query_qp@IBVERBS_1.0"
        "ibv_query_srq@IBVERBS_1.0"
        "ibv_resize_cq@IBVERBS_1.0"
        ;
    unsupported::minus_one:
        "ibv_get_async_event@IBVERBS_1.0"
        "ibv_get_cq_event@IBVERBS_1.0"
        "ibv_query_gid@IBVERBS_1.0"
        "ibv_query_pkey@IBVERBS_1.0"
        ;
    unsupported::null:
        "ibv_ack_async_event@IBVERBS_1.0"
        "ibv_ack_cq_events@IBVERBS_1.0"
        "ibv_alloc_pd@IBVERBS_1.0"
        "ibv_create_ah@IBVERBS_1.0"
        "ibv_create_cq@IBVERBS_1.0"
        "ibv_create_qp@IBVERBS_1.0"
        "ibv_create_srq@IBVERBS_1.0"
        "ibv_free_device_list@IBVERBS_1.0"
        "ibv_get_device_guid@IBVERBS_1.0"
        "ibv_get_device_list@IBVERBS_1.0"
        "ibv_get_device_name@IBVERBS_1.0"
        "ibv_open_device@IBVERBS_1.0"
        "ibv_reg_mr@IBVERBS_1.0"
        ;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_symbol_is_one_function_or_variable() {
        let wanted = include_str!("../../symbols.txt");
        let wanted = wanted.lines().filter(|line| !line.starts_with('#'));
        let wanted = wanted.filter_map(|line| line.split(' ').next());
        let lists = [
            CURRENT,
            CM,
            RSOCKETS,
            CM_UNSUPPORTED,
            UNSUPPORTED,
            OLD,
            drivers::BOTH,
            drivers::ONE,
        ]
        .into_iter()
        .flatten();
        let mut defined: Vec<&str> = drivers::FLAG.to_vec();
        for (symbols, function) in lists {
            assert!(!function.is_null(), "{symbols:?}");
            defined.extend(*symbols);
        }
        defined.sort_unstable();
        let mut wanted: Vec<&str> = wanted.collect();
        wanted.sort_unstable();
        assert_eq!(defined, wanted);
    }
}
