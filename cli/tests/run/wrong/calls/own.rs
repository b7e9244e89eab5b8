//! What a process reports of its own memory and windows.

use super::table::{DENIED, Mistake, NEVER_ANSWERED, call, failure};

/// Memory of send requests, and completion queues.
pub(super) const MEMORY: &[Mistake] = &[
    Mistake {
        name: "lkey of 0",
        client: &[failure(
            0x111,
            "element 0 of the send request, 64 bytes at {addr} with key {lkey}: no region and no bound window has this key",
        )],
        server: &[],
    },
    Mistake {
        name: "lkey of a deregistered region",
        client: &[failure(
            0x111,
            "element 0 of the send request, 64 bytes at {addr} with key {lkey}: no region and no bound window has this key",
        )],
        server: &[],
    },
    Mistake {
        name: "lkey of another protection domain",
        client: &[failure(
            0x112,
            "element 0 of the send request, 64 bytes at {addr} with key {lkey}: the region belongs to another protection domain",
        )],
        server: &[],
    },
    Mistake {
        name: "READ into a region without LOCAL_WRITE",
        client: &[failure(
            0x113,
            "element 0 of the send request, 64 bytes at {addr} with key {lkey}: the region or window lacks IBV_ACCESS_LOCAL_WRITE; it has no rights but local reading",
        )],
        server: &[],
    },
    Mistake {
        name: "atomic into a region without LOCAL_WRITE",
        client: &[failure(
            0x113,
            "element 0 of the send request, 8 bytes at {addr} with key {lkey}: the region or window lacks IBV_ACCESS_LOCAL_WRITE; it has IBV_ACCESS_REMOTE_READ",
        )],
        server: &[],
    },
    Mistake {
        name: "SEND one byte longer than its region",
        client: &[failure(
            0x114,
            "element 0 of the send request, 4097 bytes at {addr} with key {lkey}: the region or window has 4096 bytes from {addr} on, and the access ends 1 byte past its end",
        )],
        server: &[],
    },
    Mistake {
        name: "SEND from other memory",
        client: &[failure(
            0x114,
            "element 0 of the send request, 64 bytes at {addr} with key {lkey}: the region or window has 4096 bytes from {region} on, and the access begins 4096 bytes before it",
        )],
        server: &[],
    },
    Mistake {
        name: "second element past the end",
        client: &[failure(
            0x114,
            "element 1 of the send request, 64 bytes at {addr} with key {lkey}: the region or window has 4096 bytes from {region} on, and the access ends 32 bytes past its end",
        )],
        server: &[],
    },
    Mistake {
        name: "own memory unmapped",
        client: &[failure(
            0x117,
            "the memory of the send request: nothing is mapped there, or it is protected",
        )],
        server: &[],
    },
    Mistake {
        name: "own memory of a file cut off",
        client: &[failure(
            0x117,
            "the memory of the send request: nothing is mapped there, or it is protected",
        )],
        server: &[],
    },
    Mistake {
        name: "completion queue too small",
        client: &[failure(
            0x510,
            "a completion did not fit in its CQ, which holds 4 and was not polled",
        )],
        server: &[],
    },
];

/// Memory windows.
pub(super) const WINDOWS: &[Mistake] = &[
    Mistake {
        name: "window not bound",
        client: &[DENIED],
        server: &[failure(
            0x411,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "WRITE past the end of a window",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window has 1024 bytes from {window} on, and the access ends 4 bytes past its end",
        )],
    },
    Mistake {
        name: "READ before a window",
        client: &[DENIED],
        server: &[failure(
            0x414,
            "the peer's RC RDMA READ Request, 64 bytes at {addr} with key {rkey}: the region or window has 1024 bytes from {window} on, and the access begins 16 bytes before it",
        )],
    },
    Mistake {
        name: "window of another QP",
        client: &[DENIED],
        server: &[failure(
            0x415,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the window was bound by another QP",
        )],
    },
    Mistake {
        name: "WRITE to a window without REMOTE_WRITE",
        client: &[DENIED],
        server: &[failure(
            0x413,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: the region or window lacks IBV_ACCESS_REMOTE_WRITE; it has IBV_ACCESS_REMOTE_READ",
        )],
    },
    Mistake {
        name: "window invalidated",
        client: &[DENIED],
        server: &[failure(
            0x411,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "window of type 1 bound again",
        client: &[DENIED],
        server: &[failure(
            0x411,
            "the peer's RC RDMA WRITE Only, 64 bytes at {addr} with key {rkey}: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "window of another protection domain",
        client: &[failure(
            0x133,
            "the window was not bound: QP, window and region are not of one protection domain",
        )],
        server: &[],
    },
    Mistake {
        name: "window of type 2 bound twice",
        client: &[failure(
            0x134,
            "the window was not bound: a window of type 2 that is bound must be invalidated first",
        )],
        server: &[],
    },
    Mistake {
        name: "window of type 2 bound to no bytes",
        client: &[failure(
            0x135,
            "the window was not bound: a window of type 2 can't be bound to 0 bytes",
        )],
        server: &[],
    },
    Mistake {
        name: "window of type 1 zero-based",
        client: &[failure(
            0x136,
            "the window was not bound: a window of type 1 can't be zero-based",
        )],
        server: &[],
    },
    Mistake {
        name: "window bound to a region without MW_BIND",
        client: &[failure(
            0x138,
            "the window was not bound: the region was registered without IBV_ACCESS_MW_BIND",
        )],
        server: &[],
    },
    Mistake {
        name: "window bound to a region without LOCAL_WRITE",
        client: &[failure(
            0x139,
            "the window was not bound: the rights to write and for atomics need a region with IBV_ACCESS_LOCAL_WRITE",
        )],
        server: &[],
    },
    Mistake {
        name: "window bound past the end of its region",
        client: &[call(
            "ibv_post_send",
            "EINVAL",
            "4096 bytes at offset 1024 do not lie in a buffer of 4096 bytes",
        )],
        server: &[],
    },
    Mistake {
        name: "invalidation of a window not bound",
        client: &[failure(
            0x141,
            "key {key} was not invalidated: no region and no bound window has this key",
        )],
        server: &[],
    },
    Mistake {
        name: "invalidation of a region",
        client: &[failure(
            0x143,
            "key {key} was not invalidated: the region or window was not given this right",
        )],
        server: &[],
    },
    Mistake {
        name: "invalidation of a window of another QP",
        client: &[failure(
            0x145,
            "key {key} was not invalidated: the window was bound by another QP",
        )],
        server: &[],
    },
    Mistake {
        name: "SEND that invalidates a window not bound",
        client: &[NEVER_ANSWERED],
        server: &[failure(
            0x481,
            "the peer's SEND invalidates key {key}, which it may not: no region and no bound window has this key",
        )],
    },
    Mistake {
        name: "SEND that invalidates a region",
        client: &[NEVER_ANSWERED],
        server: &[failure(
            0x483,
            "the peer's SEND invalidates key {key}, which it may not: the region or window was not given this right",
        )],
    },
    Mistake {
        name: "SEND that invalidates a window of another QP",
        client: &[NEVER_ANSWERED],
        server: &[failure(
            0x485,
            "the peer's SEND invalidates key {key}, which it may not: the window was bound by another QP",
        )],
    },
];
