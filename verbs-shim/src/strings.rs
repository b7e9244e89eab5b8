//! The functions that convert numbers of enumerations to text. The texts are those of rdma-core, because
//! scripts look for them in the output of programs.

use crate::pointer::Text;
use std::ffi::{CStr, c_int};

/// Defines functions that return the text of a number: one of a list, whose first is that of `first`, or
/// `otherwise`.
macro_rules! texts {
    ($($(#[$doc:meta])* $function:ident(first $first:literal, otherwise $otherwise:literal): $($text:literal,)*;)*) => {$(
        $(#[$doc])*
        pub(crate) extern "C" fn $function(number: c_int) -> Text {
            const TEXTS: &[&CStr] = &[$($text),*];
            let index = usize::try_from(number.wrapping_sub($first)).ok();
            let found = index.and_then(|index| TEXTS.get(index));
            found.copied().unwrap_or($otherwise).as_ptr()
        }
    )*};
}

texts! {
    node_type_str(first 1, otherwise c"unknown"):
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
        ;

    port_state_str(first 0, otherwise c"unknown"):
        c"no state change (NOP)",
        c"down",
        c"init",
        c"armed",
        c"active",
        c"active defer",
        ;

    event_type_str(first 0, otherwise c"unknown"):
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
        ;

    cm_event_str(first 0, otherwise c"UNKNOWN EVENT"):
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
        ;

    wc_status_str(first 0, otherwise c"unknown"):
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
        ;

    /// `ibv_wr_opcode_str`, which is internal to rdma-core.
    wr_opcode_str(first 0, otherwise c"unknown"):
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
        ;
}

/// The name of an event of `rdma_cma.h`.
pub(crate) fn cm_event_name(event: u32) -> &'static str {
    // SAFETY: the function returns literals.
    let name = unsafe { CStr::from_ptr(cm_event_str(event.cast_signed())) };
    name.to_str().unwrap_or("an event")
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
