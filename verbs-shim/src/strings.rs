//! The functions that convert numbers of enumerations to text. The texts are those of rdma-core, because
//! scripts look for them in the output of programs.

use crate::pointer::Text;
use std::ffi::{CStr, c_int};

fn name(names: &[&'static CStr], number: c_int, first: c_int) -> Text {
    name_or(c"unknown", names, number, first)
}

fn name_or(otherwise: &'static CStr, names: &[&'static CStr], number: c_int, first: c_int) -> Text {
    let index = usize::try_from(number.wrapping_sub(first)).ok();
    let found = index.and_then(|index| names.get(index));
    found.copied().unwrap_or(otherwise).as_ptr()
}

pub(crate) extern "C" fn node_type_str(node_type: c_int) -> Text {
    let names = [
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    name(&names, node_type, 1)
}

pub(crate) extern "C" fn port_state_str(state: c_int) -> Text {
    let names = [
        c"no state change (NOP)",
        c"down",
        c"init",
        c"armed",
        c"active",
        c"active defer",
    ];
    name(&names, state, 0)
}

pub(crate) extern "C" fn event_type_str(event: c_int) -> Text {
    let names = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    name(&names, event, 0)
}

/// The names of the events of `rdma_cma.h`.
const CM_EVENTS: [&CStr; 16] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
];

/// The name of an event of `rdma_cma.h`.
pub(crate) fn cm_event_name(event: u32) -> &'static str {
    let name = CM_EVENTS.get(event as usize).copied();
    name.and_then(|name| name.to_str().ok())
        .unwrap_or("an event")
}

pub(crate) extern "C" fn cm_event_str(event: c_int) -> Text {
    name_or(c"UNKNOWN EVENT", &CM_EVENTS, event, 0)
}

pub(crate) extern "C" fn wc_status_str(status: c_int) -> Text {
    let names = [
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    name(&names, status, 0)
}

/// `ibv_wr_opcode_str`, which is internal to rdma-core.
pub(crate) extern "C" fn wr_opcode_str(opcode: c_int) -> Text {
    let names = [
        c"RDMA write",
        c"RDMA write with immediate",
        c"send",
        c"send with immediate",
        c"RDMA read",
        c"atomic compare and swap",
        c"atomic fetch and add",
        c"local invalidate",
        c"bind memory window",
        c"send with invalidate",
        c"TSO",
        c"driver 1",
        c"unknown",
        c"unknown",
        c"flush",
        c"atomic write",
    ];
    name(&names, opcode, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: Text) -> &'static str {
        // SAFETY: they are all literals.
        unsafe { CStr::from_ptr(text) }.to_str().expect("ASCII")
    }

    #[test]
    fn numbers_beyond_the_names_are_unknown() {
        assert_eq!(text(port_state_str(4)), "active");
        assert_eq!(text(node_type_str(1)), "InfiniBand channel adapter");
        assert_eq!(text(node_type_str(-1)), "unknown");
        assert_eq!(text(node_type_str(c_int::MIN)), "unknown");
        assert_eq!(text(wc_status_str(24)), "unknown");
        assert_eq!(text(event_type_str(18)), "GID table change");
        assert_eq!(text(wr_opcode_str(15)), "atomic write");
    }
}
