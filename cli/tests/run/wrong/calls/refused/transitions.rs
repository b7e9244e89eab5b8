//! Calls of `ibv_modify_qp` that are refused.

use super::super::table::{Mistake, call};

pub(in super::super) const TRANSITIONS: &[Mistake] = &[
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
