//! Peers that do not answer, and packets that QPs drop.

use super::table::{Mistake, NEVER_ANSWERED, call, dropped, failure};

/// Peers of RC QPs.
pub(super) const PEERS: &[Mistake] = &[
    Mistake {
        name: "peer's QP in RESET",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "wrong_state",
            "RC RDMA WRITE Only packets come from 127.0.0.1, but the QP is in state RESET, in which it takes none",
        )],
    },
    Mistake {
        name: "peer's QP in INIT",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "wrong_state",
            "RC RDMA WRITE Only packets come from 127.0.0.1, but the QP is in state INIT, in which it takes none",
        )],
    },
    Mistake {
        name: "peer's QP in ERR",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "wrong_state",
            "RC RDMA WRITE Only packets come from 127.0.0.1, but the QP is in state ERR, in which it takes none",
        )],
    },
    Mistake {
        name: "peer's QP destroyed",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "unknown_qp",
            "RC RDMA WRITE Only packets from 127.0.0.1 are for QP number {server_qpn}, which no QP of this process has",
        )],
    },
    Mistake {
        name: "peer's QP destroyed later",
        client: &[failure(
            0x212,
            "no answer to the packet with PSN {second_psn}, and all 3 retries are used up (retry_cnt 3, local ACK timeout 67.108864ms). The peer has answered this QP before",
        )],
        server: &[dropped(
            "unknown_qp",
            "RC RDMA WRITE Only packets from 127.0.0.1 are for QP number {server_qpn}, which no QP of this process has",
        )],
    },
    Mistake {
        name: "peer killed",
        client: &[failure(
            0x212,
            "no answer to the packet with PSN {second_psn}, and all 3 retries are used up (retry_cnt 3, local ACK timeout 67.108864ms). The peer has answered this QP before",
        )],
        server: &[],
    },
    Mistake {
        name: "wrong QP number",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "unknown_qp",
            "RC RDMA WRITE Only packets from 127.0.0.1 are for QP number {wrong_qpn}, which no QP of this process has",
        )],
    },
    Mistake {
        name: "address of nobody",
        client: &[NEVER_ANSWERED],
        server: &[],
    },
    Mistake {
        name: "peer's QP connected to another host",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "wrong_peer",
            "RC RDMA WRITE Only packets come from 127.0.0.1 to 127.0.0.1, but the QP, at 127.0.0.1, is connected to 127.0.0.99",
        )],
    },
    Mistake {
        name: "peer's QP connected to another QP",
        client: &[
            dropped(
                "unknown_qp",
                "RC Acknowledge packets from 127.0.0.1 are for QP number {wrong_qpn}, which no QP of this process has",
            ),
            NEVER_ANSWERED,
        ],
        server: &[],
    },
    Mistake {
        name: "rq_psn far before the peer's sq_psn",
        client: &[failure(
            0x212,
            "no answer to the packet with PSN {client_psn}, and all 3 retries are used up (retry_cnt 3, local ACK timeout 67.108864ms). The peer has answered this QP before",
        )],
        server: &[dropped(
            "out_of_sequence",
            "RC RDMA WRITE Only packets come from 127.0.0.1 with PSN {client_psn}, but the QP expects its peer to begin with PSN {rq_psn} (rq_psn)",
        )],
    },
    Mistake {
        name: "rq_psn behind the peer's sq_psn",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "out_of_sequence",
            "RC RDMA WRITE Only packets come from 127.0.0.1 with PSN {client_psn}, but the QP expects its peer to begin with PSN {rq_psn} (rq_psn)",
        )],
    },
];

/// Packets of UC and UD.
pub(super) const PACKETS: &[Mistake] = &[
    Mistake {
        name: "datagram with another Q_Key",
        client: &[],
        server: &[dropped(
            "wrong_qkey",
            "a datagram of QP {client_qpn} at 127.0.0.1 has the Q_Key {sent}, but this QP has {own}",
        )],
    },
    Mistake {
        name: "datagram without a receive",
        client: &[],
        server: &[dropped(
            "no_receive",
            "the UD SEND Only from 127.0.0.1 found no receive posted, and its message is lost",
        )],
    },
    Mistake {
        name: "datagram whose receive has no room for the GRH",
        client: &[],
        server: &[dropped(
            "receive_too_small",
            "the message from 127.0.0.1 has at least 104 bytes, 40 of them for its GRH, but the receive request has 64 bytes",
        )],
    },
    Mistake {
        name: "datagram to a QP number of nobody",
        client: &[],
        server: &[dropped(
            "unknown_qp",
            "UD SEND Only packets from 127.0.0.1 are for QP number {wrong_qpn}, which no QP of this process has",
        )],
    },
    Mistake {
        name: "datagram to an RC QP",
        client: &[],
        server: &[dropped(
            "wrong_transport",
            "UD SEND Only packets come from 127.0.0.1, but the service of this QP is RC",
        )],
    },
    Mistake {
        name: "datagram longer than the MTU",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "the datagram has 4097 bytes, but must fit in one packet: at most 4096",
        )],
        server: &[],
    },
    Mistake {
        name: "WRITE by UC with an unknown rkey",
        client: &[],
        server: &[dropped(
            "access_denied",
            "the peer's UC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "WRITE by UC past the end",
        client: &[],
        server: &[dropped(
            "access_denied",
            "the peer's UC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access ends 4 bytes past its end",
        )],
    },
    Mistake {
        name: "WRITE by UC to a region without REMOTE_WRITE",
        client: &[],
        server: &[dropped(
            "access_denied",
            "the peer's UC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window lacks IBV_ACCESS_REMOTE_WRITE; it has IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ",
        )],
    },
    Mistake {
        name: "WRITE by UC to a QP without REMOTE_WRITE",
        client: &[],
        server: &[dropped(
            "access_denied",
            "the peer's UC RDMA WRITE Only needs IBV_ACCESS_REMOTE_WRITE, which this QP does not have",
        )],
    },
    Mistake {
        name: "WRITE by UC with another path MTU",
        client: &[],
        server: &[dropped(
            "bad_length",
            "the UC RDMA WRITE First from 127.0.0.1 has 1024 bytes, more than this QP's path MTU of 512",
        )],
    },
    Mistake {
        name: "SEND by UC without a receive",
        client: &[],
        server: &[dropped(
            "no_receive",
            "the UC SEND Only from 127.0.0.1 found no receive posted, and its message is lost",
        )],
    },
    Mistake {
        name: "SEND by UC longer than its receive",
        client: &[],
        server: &[dropped(
            "receive_too_small",
            "the message from 127.0.0.1 has at least 64 bytes, but the receive request has 63 bytes",
        )],
    },
    Mistake {
        name: "WRITE by UC to an RC QP",
        client: &[],
        server: &[dropped(
            "wrong_transport",
            "UC RDMA WRITE Only packets come from 127.0.0.1, but the service of this QP is RC",
        )],
    },
    Mistake {
        name: "WRITE by RC to a UC QP",
        client: &[NEVER_ANSWERED],
        server: &[dropped(
            "wrong_transport",
            "RC RDMA WRITE Only packets come from 127.0.0.1, but the service of this QP is UC",
        )],
    },
];
