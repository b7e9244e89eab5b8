//! Calls that post requests, and are refused.

use super::super::table::{Mistake, call};

pub(in super::super) const REQUESTS: &[Mistake] = &[
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
            "opcode is 10, which no RC, UC, UD or XRC QP supports",
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
            "a UC QP does not support this RdmaRead: it has SEND and WRITE, with and without immediate data, to its own peer; and local invalidation and binding of windows",
        )],
        server: &[],
    },
    Mistake {
        name: "atomic by a UC QP",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "a UC QP does not support this CompareSwap: it has SEND and WRITE, with and without immediate data, to its own peer; and local invalidation and binding of windows",
        )],
        server: &[],
    },
    Mistake {
        name: "WRITE by a UD QP",
        client: &[call(
            "ibv_post_send",
            "EOPNOTSUPP",
            "a UD QP does not support this RdmaWrite: it has SEND, with and without immediate data, to an address handle",
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
