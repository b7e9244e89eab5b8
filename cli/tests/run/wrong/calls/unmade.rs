//! Connections that are not made.

use super::table::{Mistake, call, connection};

/// Requests for connections, and addresses.
pub(super) const CONNECTIONS: &[Mistake] = &[
    Mistake {
        name: "connection to a host that is not there",
        client: &[connection(
            "UNREACHABLE",
            -110,
            "port 7001 (RDMA_PS_TCP) of 10.5.0.7 has not answered the request",
        )],
        server: &[],
    },
    Mistake {
        name: "connection to a port where nobody listens",
        client: &[connection(
            "REJECTED",
            8,
            "no program listens at port 7001 (RDMA_PS_TCP) of 127.0.0.1",
        )],
        server: &[],
    },
    Mistake {
        name: "connection that the server refuses",
        client: &[connection(
            "REJECTED",
            28,
            "the program at port 7002 (RDMA_PS_TCP) of 127.0.0.1 refused the connection (rdma_reject) with the private data \"full\", or destroyed its ID",
        )],
        server: &[],
    },
    Mistake {
        name: "connection whose ID the server destroys",
        client: &[connection(
            "REJECTED",
            28,
            "the program at port 7003 (RDMA_PS_TCP) of 127.0.0.1 refused the connection (rdma_reject) without private data, or destroyed its ID",
        )],
        server: &[],
    },
    Mistake {
        name: "connection to a listener of another port space",
        client: &[connection(
            "REJECTED",
            8,
            "no program listens at port 7005 (RDMA_PS_TCP) of 127.0.0.1",
        )],
        server: &[],
    },
    Mistake {
        name: "datagram service that nobody offers",
        client: &[connection(
            "UNREACHABLE",
            1,
            "no program listens at port 7001 (RDMA_PS_UDP) of 127.0.0.1",
        )],
        server: &[],
    },
    Mistake {
        name: "datagram service that refuses",
        client: &[connection(
            "UNREACHABLE",
            2,
            "the program at port 7008 (RDMA_PS_UDP) of 127.0.0.1 refused to name its QP (rdma_reject)",
        )],
        server: &[],
    },
    Mistake {
        name: "connection whose QP the client has reset",
        client: &[
            call("ibv_modify_qp", "EINVAL", "a QP can't go from RESET to RTR"),
            connection(
                "CONNECT_ERROR",
                -22,
                "this end could not bring its QP to RTS, and refused the peer's reply: Invalid argument",
            ),
        ],
        server: &[connection(
            "REJECTED",
            3,
            "port {client_port} (RDMA_PS_TCP) of 127.0.0.1 could not use the connection that this end had accepted",
        )],
    },
    Mistake {
        name: "address without a route",
        client: &[connection(
            "ADDR_ERROR",
            -101,
            "the address was not resolved: the kernel has no route to 10.99.0.1: Network is unreachable",
        )],
        server: &[],
    },
    Mistake {
        name: "source address of no device",
        client: &[connection(
            "ADDR_ERROR",
            -19,
            "the address was not resolved: no RoCE device has the address 10.99.0.1; `roce devices` lists those that there are",
        )],
        server: &[],
    },
];
