//! Calls of librdmacm that are refused.

use super::super::table::{Mistake, call};

pub(in super::super) const CONNECTION_CALLS: &[Mistake] = &[
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
