//! What the server reports of a client that uses its memory, or its QP, wrongly.

use super::table::{DENIED, Mistake, NOT_DONE, REFUSED, failure};

/// Remote memory.
pub(super) const MEMORY: &[Mistake] = &[
    Mistake {
        name: "rkey in the wrong byte order",
        client: &[DENIED],
        server: &[failure(
            0x411,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "rkey of 0",
        client: &[DENIED],
        server: &[failure(
            0x411,
            "the peer's RC RDMA READ Request, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "rkey of a deregistered region",
        client: &[DENIED],
        server: &[failure(
            0x411,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "rkey from before the region was registered again",
        client: &[DENIED],
        server: &[failure(
            0x411,
            "the peer's RC RDMA READ Request, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "rkey of another protection domain",
        client: &[DENIED],
        server: &[failure(
            0x412,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region belongs to another protection domain",
        )],
    },
    Mistake {
        name: "WRITE to a region without REMOTE_WRITE",
        client: &[DENIED],
        server: &[failure(
            0x413,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window lacks IBV_ACCESS_REMOTE_WRITE; it has IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ",
        )],
    },
    Mistake {
        name: "READ of a region without REMOTE_READ",
        client: &[DENIED],
        server: &[failure(
            0x413,
            "the peer's RC RDMA READ Request, 64 bytes at {addr} with key {rkey}: the region or window lacks IBV_ACCESS_REMOTE_READ; it has IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE",
        )],
    },
    Mistake {
        name: "atomic on a region without REMOTE_ATOMIC",
        client: &[DENIED],
        server: &[failure(
            0x413,
            "the peer's RC FetchAdd, 8 bytes at {addr} with key {rkey}: the region or window lacks IBV_ACCESS_REMOTE_ATOMIC; it has IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ",
        )],
    },
    Mistake {
        name: "WRITE to a region for local use",
        client: &[DENIED],
        server: &[failure(
            0x413,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window lacks IBV_ACCESS_REMOTE_WRITE; it has IBV_ACCESS_LOCAL_WRITE",
        )],
    },
    Mistake {
        name: "WRITE one byte past the end",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access ends 1 byte past its end",
        )],
    },
    Mistake {
        name: "READ past the end",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA READ Request, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access ends 48 bytes past its end",
        )],
    },
    Mistake {
        name: "WRITE that begins at the end",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access begins at its end",
        )],
    },
    Mistake {
        name: "WRITE far past the end",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access begins 8192 bytes past its end",
        )],
    },
    Mistake {
        name: "atomic past the end",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC CmpSwap, 8 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access begins at its end",
        )],
    },
    Mistake {
        name: "READ before the region",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA READ Request, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access begins 8 bytes before it",
        )],
    },
    Mistake {
        name: "address cut off to 32 bits",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from {region} on, and the access begins {before} bytes before it",
        )],
    },
    Mistake {
        name: "address of 0",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA WRITE Only, 64 bytes at 0x0 with key {rkey}: the region or window has 4096 bytes from {region} on, and the access begins {before} bytes before it",
        )],
    },
    Mistake {
        name: "address instead of an offset",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window has 4096 bytes from 0x0 on, and the access begins {past} bytes past its end",
        )],
    },
    Mistake {
        name: "remote memory unmapped",
        client: &[DENIED],
        server: &[failure(
            0x417,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: nothing is mapped there, or it is protected",
        )],
    },
    Mistake {
        name: "remote memory write-protected",
        client: &[DENIED],
        server: &[failure(
            0x417,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: nothing is mapped there, or it is protected",
        )],
    },
    Mistake {
        name: "remote memory of a file cut off",
        client: &[DENIED],
        server: &[failure(
            0x417,
            "the peer's RC RDMA READ Request, 64 bytes at {addr} with key {rkey}: nothing is mapped there, or it is protected",
        )],
    },
];

/// Messages and requests that the server's QP can't take.
pub(super) const REQUESTS: &[Mistake] = &[
    Mistake {
        name: "receive one byte too short",
        client: &[REFUSED],
        server: &[failure(
            0x430,
            "the peer's message has at least 64 bytes, but the receive request has 63 bytes",
        )],
    },
    Mistake {
        name: "receive of one byte",
        client: &[REFUSED],
        server: &[failure(
            0x430,
            "the peer's message has at least 64 bytes, but the receive request has 1 byte",
        )],
    },
    Mistake {
        name: "receive of an SRQ too short",
        client: &[REFUSED],
        server: &[failure(
            0x430,
            "the peer's message has at least 64 bytes, but the receive request has 32 bytes",
        )],
    },
    Mistake {
        name: "receive with an lkey of 0",
        client: &[NOT_DONE],
        server: &[failure(
            0x121,
            "element 0 of the receive request, 64 bytes at {addr} with key {lkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "receive into another protection domain",
        client: &[NOT_DONE],
        server: &[failure(
            0x122,
            "element 0 of the receive request, 64 bytes at {addr} with key {lkey}: the region belongs to another protection domain",
        )],
    },
    Mistake {
        name: "receive into a region without LOCAL_WRITE",
        client: &[NOT_DONE],
        server: &[failure(
            0x123,
            "element 0 of the receive request, 64 bytes at {addr} with key {lkey}: the region or window lacks IBV_ACCESS_LOCAL_WRITE; it has IBV_ACCESS_REMOTE_READ",
        )],
    },
    Mistake {
        name: "receive past the end of its region",
        client: &[NOT_DONE],
        server: &[failure(
            0x124,
            "element 0 of the receive request, 64 bytes at {addr} with key {lkey}: the region or window has 4096 bytes from {region} on, and the access ends 48 bytes past its end",
        )],
    },
    Mistake {
        name: "receive into unmapped memory",
        client: &[NOT_DONE],
        server: &[failure(
            0x127,
            "the memory of the receive request: nothing is mapped there, or it is protected",
        )],
    },
    Mistake {
        name: "QP without REMOTE_WRITE",
        client: &[REFUSED],
        server: &[failure(
            0x420,
            "the peer's RC RDMA WRITE Only needs IBV_ACCESS_REMOTE_WRITE, which this QP does not have",
        )],
    },
    Mistake {
        name: "QP without REMOTE_READ",
        client: &[REFUSED],
        server: &[failure(
            0x420,
            "the peer's RC RDMA READ Request needs IBV_ACCESS_REMOTE_READ, which this QP does not have",
        )],
    },
    Mistake {
        name: "QP without REMOTE_ATOMIC",
        client: &[REFUSED],
        server: &[failure(
            0x420,
            "the peer's RC FetchAdd needs IBV_ACCESS_REMOTE_ATOMIC, which this QP does not have",
        )],
    },
    Mistake {
        name: "atomic at an unaligned address",
        client: &[REFUSED],
        server: &[failure(
            0x470,
            "the address of the peer's RC CmpSwap, {addr}, is not a multiple of 8",
        )],
    },
    Mistake {
        name: "more READs than max_dest_rd_atomic",
        client: &[failure(
            0x310,
            "the peer refused the packet with PSN {refused_psn} as an invalid request. Only the peer knows the reason",
        )],
        server: &[failure(
            0x460,
            "the peer has more READs and atomics outstanding than this QP allows (max_dest_rd_atomic 1)",
        )],
    },
    Mistake {
        name: "path MTU of the server too small",
        client: &[REFUSED],
        server: &[failure(
            0x450,
            "the peer's RC RDMA WRITE First has 1024 bytes, more than this QP's path MTU of 256",
        )],
    },
    Mistake {
        name: "path MTU of the client too small",
        client: &[failure(
            0x340,
            "the peer answered with RC RDMA READ Response First of 1024 bytes, which does not fit the request",
        )],
        server: &[],
    },
    Mistake {
        name: "no receive, rnr_retry 0",
        client: &[failure(
            0x230,
            "the peer had no receive posted for the packet with PSN {client_psn}, and rnr_retry 0 allows no other attempt",
        )],
        server: &[],
    },
    Mistake {
        name: "no receive, rnr_retry 3",
        client: &[failure(
            0x230,
            "the peer had no receive posted for the packet with PSN {client_psn}, and all 3 RNR retries are used up (rnr_retry 3); it asked for 10µs between them (its min_rnr_timer)",
        )],
        server: &[],
    },
    Mistake {
        name: "no receive for WRITE with immediate",
        client: &[failure(
            0x230,
            "the peer had no receive posted for the packet with PSN {client_psn}, and all 1 RNR retries are used up (rnr_retry 1); it asked for 10µs between them (its min_rnr_timer)",
        )],
        server: &[],
    },
    Mistake {
        name: "SRQ empty",
        client: &[failure(
            0x230,
            "the peer had no receive posted for the packet with PSN {client_psn}, and rnr_retry 0 allows no other attempt",
        )],
        server: &[],
    },
];
