//! Calls that are refused.

use super::table::{Mistake, call};

/// Of librdmacm.
pub(super) const CONNECTION_CALLS: &[Mistake] = &[
    Mistake {
        name: "connection accepted twice",
        client: &[],
        server: &[call(
            "rdma_accept",
            "EINVAL",
            "the ID is connected; this call is for one that has a peer's request (RDMA_CM_EVENT_CONNECT_REQUEST)",
        )],
    },
    Mistake {
        name: "listener at an address of no device",
        client: &[call(
            "rdma_bind_addr",
            "ENODEV",
            "no RoCE device has the address 10.99.0.1; `roce devices` lists those that there are",
        )],
        server: &[],
    },
    Mistake {
        name: "port in use",
        client: &[call(
            "rdma_bind_addr",
            "EADDRINUSE",
            "port 7006 of space Tcp can't be claimed at 10.5.0.1: process {server_pid} (mistakes) has it at 10.5.0.1",
        )],
        server: &[],
    },
    Mistake {
        name: "address of no family",
        client: &[call(
            "rdma_bind_addr",
            "EAFNOSUPPORT",
            "the address is of family 99, but must be of AF_INET or AF_INET6",
        )],
        server: &[],
    },
    Mistake {
        name: "connection before the route is resolved",
        client: &[call(
            "rdma_connect",
            "EINVAL",
            "the ID has its peer's address resolved (rdma_resolve_addr); this call is for one that has its route resolved (rdma_resolve_route)",
        )],
        server: &[],
    },
    Mistake {
        name: "route before the address is resolved",
        client: &[call(
            "rdma_resolve_route",
            "EINVAL",
            "the ID is new; this call is for one that has its peer's address resolved (rdma_resolve_addr)",
        )],
        server: &[],
    },
    Mistake {
        name: "accepted without a request",
        client: &[call(
            "rdma_accept",
            "EINVAL",
            "the ID has its route resolved (rdma_resolve_route); this call is for one that has a peer's request (RDMA_CM_EVENT_CONNECT_REQUEST)",
        )],
        server: &[],
    },
    Mistake {
        name: "destroyed ID accepted",
        client: &[call(
            "rdma_accept",
            "EINVAL",
            "there is no object at {id}: it was destroyed, or is the parent's in a forked child",
        )],
        server: &[],
    },
    Mistake {
        name: "listening with an ID that has a peer",
        client: &[call(
            "rdma_listen",
            "EINVAL",
            "the ID has its route resolved (rdma_resolve_route); this call is for one that is new, or is bound to a local address",
        )],
        server: &[],
    },
    Mistake {
        name: "QP before the ID has a device",
        client: &[call(
            "rdma_create_qp",
            "EINVAL",
            "the ID has no device yet: bind it to an address, or resolve the peer's",
        )],
        server: &[],
    },
    Mistake {
        name: "disconnected without a connection",
        client: &[call(
            "rdma_disconnect",
            "EINVAL",
            "the ID has its route resolved (rdma_resolve_route); this call is for one that is connected",
        )],
        server: &[],
    },
    Mistake {
        name: "too much private data",
        client: &[call(
            "rdma_connect",
            "EINVAL",
            "200 bytes of private data, at most 56 fit",
        )],
        server: &[],
    },
    Mistake {
        name: "connection with initiator_depth 200",
        client: &[call(
            "rdma_connect",
            "EINVAL",
            "responder_resources or initiator_depth is 200, but must be at most 128, or 255 for the most",
        )],
        server: &[],
    },
    Mistake {
        name: "connection without a QP",
        client: &[call(
            "rdma_connect",
            "EINVAL",
            "qp_num is 0x0, but must be the number of a QP: create one by rdma_create_qp, or set rdma_conn_param.qp_num",
        )],
        server: &[],
    },
    Mistake {
        name: "ID for IP over InfiniBand",
        client: &[call(
            "rdma_create_id",
            "EOPNOTSUPP",
            "RDMA_PS_IPOIB needs IP over InfiniBand, which RoCE does not have",
        )],
        server: &[],
    },
    Mistake {
        name: "ID of an unknown port space",
        client: &[call(
            "rdma_create_id",
            "EPROTONOSUPPORT",
            "the port space is 0x6, but must be RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IB",
        )],
        server: &[],
    },
    Mistake {
        name: "multicast group that is a host",
        client: &[call(
            "rdma_join_multicast",
            "EINVAL",
            "127.0.0.1 is no multicast address",
        )],
        server: &[],
    },
];

/// Of `ibv_modify_qp`.
pub(super) const TRANSITIONS: &[Mistake] = &[
    Mistake {
        name: "QP from RESET to RTS",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "a QP can't go from RESET to RTS",
        )],
        server: &[],
    },
    Mistake {
        name: "INIT without the port",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "RESET to INIT: attr_mask lacks IBV_QP_PORT, which this transition requires",
        )],
        server: &[],
    },
    Mistake {
        name: "INIT without access flags",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the transition from RESET to INIT needs access (IBV_QP_ACCESS_FLAGS)",
        )],
        server: &[],
    },
    Mistake {
        name: "INIT with port 2",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the port is 2, but the device has only port 1",
        )],
        server: &[],
    },
    Mistake {
        name: "INIT with pkey_index 1",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "pkey_index is 1, but the device has only one P_Key, at index 0",
        )],
        server: &[],
    },
    Mistake {
        name: "INIT with unknown access flags",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the access flags are 0x40000, of which only the bits 0x31f are rights",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR without a path",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the transition from INIT to RTR needs path (IBV_QP_AV)",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR without rq_psn",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the transition from INIT to RTR needs rq_psn (IBV_QP_RQ_PSN)",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR with a path MTU in bytes",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "path_mtu is 1024, but must be IBV_MTU_256 to IBV_MTU_4096, 1 to 5",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR with a QP number in the wrong byte order",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "dest_qp_num is {dest}, but must fit in 24 bits",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR with an empty entry of the GID table",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "GID index 77: the table has entries 0, 1",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR with GIDs of two families",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "path is from 127.0.0.1 to 2000::1, but must be two addresses of one family: choose the GID index of the peer's family",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR with max_dest_rd_atomic 200",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "max_dest_rd_atomic is 200, but must be at most 128",
        )],
        server: &[],
    },
    Mistake {
        name: "RTR with min_rnr_timer 32",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "min_rnr_timer is 32, but must be 0 to 31",
        )],
        server: &[],
    },
    Mistake {
        name: "RTS without sq_psn",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the transition from RTR to RTS needs sq_psn (IBV_QP_SQ_PSN)",
        )],
        server: &[],
    },
    Mistake {
        name: "RTS with timeout 32",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "timeout is 32, but must be at most 31",
        )],
        server: &[],
    },
    Mistake {
        name: "RTS with retry_cnt 8",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "retry_cnt is 8, but must be at most 7",
        )],
        server: &[],
    },
    Mistake {
        name: "RTS with rnr_retry 8",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "rnr_retry is 8, but must be at most 7",
        )],
        server: &[],
    },
    Mistake {
        name: "RTS with max_rd_atomic 255",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "max_rd_atomic is 255, but must be at most 128",
        )],
        server: &[],
    },
    Mistake {
        name: "RTS with a wrong cur_qp_state",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "cur_qp_state is RTS, but the QP is in RTR",
        )],
        server: &[],
    },
    Mistake {
        name: "QP to no state",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the state is 9, but must be IBV_QPS_RESET to IBV_QPS_ERR, 0 to 6",
        )],
        server: &[],
    },
    Mistake {
        name: "QP resized",
        client: &[call(
            "ibv_modify_qp",
            "EOPNOTSUPP",
            "attr_mask has IBV_QP_ALT_PATH or IBV_QP_CAP, which this device does not support",
        )],
        server: &[],
    },
    Mistake {
        name: "UD QP to INIT without a Q_Key",
        client: &[call(
            "ibv_modify_qp",
            "EINVAL",
            "the transition from RESET to INIT needs qkey (IBV_QP_QKEY)",
        )],
        server: &[],
    },
];

/// That post requests.
pub(super) const REQUESTS: &[Mistake] = &[
    Mistake {
        name: "SEND in INIT",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "the QP is in state INIT: sends need RTS, receives any state but RESET",
        )],
        server: &[],
    },
    Mistake {
        name: "receive in RESET",
        client: &[call(
            "ibv_post_recv",
            "EINVAL",
            "the QP is in state RESET: sends need RTS, receives any state but RESET",
        )],
        server: &[],
    },
    Mistake {
        name: "more elements than max_send_sge",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "the request has 3 scatter/gather elements, the queue allows 2",
        )],
        server: &[],
    },
    Mistake {
        name: "1000 elements",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "num_sge is 1000, and must be 0 to 32",
        )],
        server: &[],
    },
    Mistake {
        name: "more elements than max_recv_sge",
        client: &[call(
            "ibv_post_recv",
            "EINVAL",
            "the request has 3 scatter/gather elements, the queue allows 2",
        )],
        server: &[],
    },
    Mistake {
        name: "more bytes than max_inline_data",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "the request has 65 bytes of inline data, the queue allows 64: send them from registered memory, or raise max_inline",
        )],
        server: &[],
    },
    Mistake {
        name: "READ with inline data",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "RdmaRead can't be inline: only SEND and WRITE can",
        )],
        server: &[],
    },
    Mistake {
        name: "atomic of four bytes",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "an atomic operation needs a local buffer of 8 bytes, this one has 4",
        )],
        server: &[],
    },
    Mistake {
        name: "flag of raw packets",
        client: &[call(
            "ibv_post_send",
            "EOPNOTSUPP",
            "send_flags is 0x12, of which only the bits 0xf are supported",
        )],
        server: &[],
    },
    Mistake {
        name: "opcode of raw packets",
        client: &[call(
            "ibv_post_send",
            "EOPNOTSUPP",
            "opcode is 10, which RC, UC and XRC QPs do not support",
        )],
        server: &[],
    },
    Mistake {
        name: "send queue full",
        client: &[call(
            "ibv_post_send",
            "ENOMEM",
            "all 16 entries of the queue are in use: poll completions first",
        )],
        server: &[],
    },
    Mistake {
        name: "receive queue full",
        client: &[call(
            "ibv_post_recv",
            "ENOMEM",
            "all 16 entries of the queue are in use: poll completions first",
        )],
        server: &[],
    },
    Mistake {
        name: "READ by a UC QP",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "a UC QP does not support this request: UC has SEND and WRITE, UD has SEND to an address handle, and only RC and XRC initiators have the others",
        )],
        server: &[],
    },
    Mistake {
        name: "atomic by a UC QP",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "a UC QP does not support this request: UC has SEND and WRITE, UD has SEND to an address handle, and only RC and XRC initiators have the others",
        )],
        server: &[],
    },
    Mistake {
        name: "WRITE by a UD QP",
        client: &[call(
            "ibv_post_send",
            "EOPNOTSUPP",
            "opcode is 0, and a UD QP supports only IBV_WR_SEND and IBV_WR_SEND_WITH_IMM",
        )],
        server: &[],
    },
    Mistake {
        name: "datagram without an address handle",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "a pointer to an object is NULL",
        )],
        server: &[],
    },
    Mistake {
        name: "datagram to a QP number of 25 bits",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "remote_qpn is 0x1000000, and must fit in 24 bits",
        )],
        server: &[],
    },
];

/// About other objects.
pub(super) const OBJECTS: &[Mistake] = &[
    Mistake {
        name: "QP without a receive CQ",
        client: &[call(
            "ibv_create_qp",
            "EINVAL",
            "a pointer to an object is NULL",
        )],
        server: &[],
    },
    Mistake {
        name: "QP for raw packets",
        client: &[call(
            "ibv_create_qp",
            "EOPNOTSUPP",
            "qp_type is 8, and this device has only RC, UC, UD and XRC QPs",
        )],
        server: &[],
    },
    Mistake {
        name: "QP with a CQ of another context",
        client: &[call(
            "ibv_create_qp",
            "EINVAL",
            "the objects belong to different contexts: one ibv_open_device must have opened both",
        )],
        server: &[],
    },
    Mistake {
        name: "CQ too large",
        client: &[call(
            "ibv_create_cq",
            "EINVAL",
            "cqe is 1073741824, but must be 1 to 1048576",
        )],
        server: &[],
    },
    Mistake {
        name: "CQ of no entries",
        client: &[call(
            "ibv_create_cq",
            "EINVAL",
            "cqe is 0, but must be 1 to 1048576",
        )],
        server: &[],
    },
    Mistake {
        name: "CQ with completion vector 3",
        client: &[call(
            "ibv_create_cq",
            "EINVAL",
            "comp_vector is 3, but the device has only vector 0 (num_comp_vectors)",
        )],
        server: &[],
    },
    Mistake {
        name: "CQ resized beyond its maximum",
        client: &[call(
            "ibv_resize_cq",
            "EINVAL",
            "cqe is 1073741824, but must be 1 to 1048576",
        )],
        server: &[],
    },
    Mistake {
        name: "CQ destroyed before its QP",
        client: &[call(
            "ibv_destroy_cq",
            "EBUSY",
            "2 objects still use it: destroy those first",
        )],
        server: &[],
    },
    Mistake {
        name: "PD deallocated before its region",
        client: &[call(
            "ibv_dealloc_pd",
            "EBUSY",
            "another object still uses it: destroy that one first",
        )],
        server: &[],
    },
    Mistake {
        name: "region with REMOTE_WRITE and without LOCAL_WRITE",
        client: &[call(
            "ibv_reg_mr",
            "EINVAL",
            "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE: add it to the access rights",
        )],
        server: &[],
    },
    Mistake {
        name: "region with REMOTE_ATOMIC and without LOCAL_WRITE",
        client: &[call(
            "ibv_reg_mr",
            "EINVAL",
            "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE: add it to the access rights",
        )],
        server: &[],
    },
    Mistake {
        name: "region with unknown access flags",
        client: &[call(
            "ibv_reg_mr",
            "EINVAL",
            "the access flags are 0x40001, of which only the bits 0x31f are rights",
        )],
        server: &[],
    },
    Mistake {
        name: "region of no bytes",
        client: &[call(
            "ibv_reg_mr",
            "EINVAL",
            "the length is 0, and a region has at least one byte",
        )],
        server: &[],
    },
    Mistake {
        name: "region that is partly unmapped",
        client: &[call(
            "ibv_reg_mr",
            "EFAULT",
            "the 16384 bytes from {addr} on are not all mapped readable and writable, as IBV_ACCESS_LOCAL_WRITE needs",
        )],
        server: &[],
    },
    Mistake {
        name: "region of memory that can only be read",
        client: &[call(
            "ibv_reg_mr",
            "EFAULT",
            "the 4096 bytes from {addr} on are not all mapped readable and writable, as IBV_ACCESS_LOCAL_WRITE needs",
        )],
        server: &[],
    },
    Mistake {
        name: "region at NULL",
        client: &[call(
            "ibv_reg_mr",
            "EFAULT",
            "the 4096 bytes from 0x0 on are not all mapped readable",
        )],
        server: &[],
    },
    Mistake {
        name: "region deregistered before its window",
        client: &[call(
            "ibv_dereg_mr",
            "EBUSY",
            "1 memory windows are bound to the region: unbind, invalidate or free them first",
        )],
        server: &[],
    },
    Mistake {
        name: "window of no type",
        client: &[call(
            "ibv_alloc_mw",
            "EINVAL",
            "the type is 3, but must be IBV_MW_TYPE_1 or IBV_MW_TYPE_2",
        )],
        server: &[],
    },
    Mistake {
        name: "SRQ too large",
        client: &[call(
            "ibv_create_srq",
            "EINVAL",
            "a shared receive queue of 1073741824 entries: 1 to 65536 are possible",
        )],
        server: &[],
    },
    Mistake {
        name: "SRQ limit beyond its size",
        client: &[call(
            "ibv_modify_srq",
            "EINVAL",
            "a limit of 100 is above the 4 entries of the shared receive queue: at most 4 is possible",
        )],
        server: &[],
    },
    Mistake {
        name: "SRQ destroyed before its QP",
        client: &[call(
            "ibv_destroy_srq",
            "EBUSY",
            "another object still uses it: destroy that one first",
        )],
        server: &[],
    },
    Mistake {
        name: "receive posted to a QP with an SRQ",
        client: &[call(
            "ibv_post_recv",
            "EINVAL",
            "the QP takes its receives from shared receive queue {srqn}: post them there",
        )],
        server: &[],
    },
    Mistake {
        name: "address handle with an empty entry of the GID table",
        client: &[call(
            "ibv_create_ah",
            "EINVAL",
            "GID index 200: the table has entries 0, 1",
        )],
        server: &[],
    },
    Mistake {
        name: "address handle with port 0",
        client: &[call(
            "ibv_create_ah",
            "EINVAL",
            "the port is 0, but the device has only port 1",
        )],
        server: &[],
    },
    Mistake {
        name: "multicast group that is none",
        client: &[call(
            "ibv_attach_mcast",
            "EINVAL",
            "127.0.0.1 is not a multicast address: those are in 224.0.0.0/4 and ff00::/8",
        )],
        server: &[],
    },
    Mistake {
        name: "multicast group of an RC QP",
        client: &[call(
            "ibv_attach_mcast",
            "EINVAL",
            "a RC QP can't be in a multicast group: only UD can",
        )],
        server: &[],
    },
    Mistake {
        name: "multicast group left without joining",
        client: &[call(
            "ibv_detach_mcast",
            "EINVAL",
            "QP {client_qpn} is not attached to multicast group ff0e::1",
        )],
        server: &[],
    },
    Mistake {
        name: "GID beyond the table",
        client: &[call(
            "ibv_query_gid",
            "EINVAL",
            "the index is 1000, but the GID table has 256 entries",
        )],
        server: &[],
    },
    Mistake {
        name: "port 2 queried",
        client: &[call(
            "ibv_query_port",
            "EINVAL",
            "the port is 2, but the device has only port 1",
        )],
        server: &[],
    },
];
