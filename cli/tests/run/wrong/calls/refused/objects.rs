//! Calls about other objects that are refused.

use super::super::table::{Mistake, call};

pub(in super::super) const OBJECTS: &[Mistake] = &[
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
