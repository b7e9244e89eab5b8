//! Structures that newer releases of rdma-core extended at the end. A program built with an older
//! header passes a shorter structure, past whose end nothing may be read.

use super::*;
use crate::pointer::{Grown, Zero};
use std::mem::offset_of;

/// Implements [`Zero`].
macro_rules! zero {
    ($($name:ident)*) => {$(
        // SAFETY: numbers and pointers, which may have any value: handles are pointers.
        unsafe impl Zero for $name {}
    )*};
}

zero! {
    IbvAhAttr
    IbvDeviceAttr
    IbvDeviceAttrEx
    IbvGlobalRoute
    IbvPathRecord
    IbvPortAttr
    IbvQpAttr
    IbvSendWr
    IbvWc
    RdmaAddrinfo
    RdmaCmEvent
    RdmaCmId
    RdmaConnParam
    RdmaUdParam
    SaPathRec
}

/// Implements [`Grown`] for structures whose mask determines their size: an added field exists if
/// its bit is set.
macro_rules! grown {
    ($($name:ident: $mask:ident, up to $first:ident, $($bit:ident => up to $end:ident,)* => whole with $all:expr;)*) => {$(
        zero! { $name }

        impl Grown for $name {
            const MASK: usize = offset_of!($name, $mask);

            fn len(mask: u32) -> usize {
                if mask & $all != 0 {
                    return size_of::<Self>();
                }
                $(if mask & $bit != 0 {
                    return offset_of!($name, $end);
                })*
                offset_of!($name, $first)
            }
        }
    )*};
}

grown! {
    IbvQpInitAttrEx: comp_mask, up to create_flags,
        QP_INIT_ATTR_CREATE_FLAGS => up to max_tso_header,
        => whole with QP_INIT_ATTR_SEND_OPS_FLAGS;
    IbvSrqInitAttrEx: comp_mask, up to srq_type,
        SRQ_INIT_ATTR_CQ => up to tm_cap,
        SRQ_INIT_ATTR_XRCD => up to cq,
        SRQ_INIT_ATTR_PD => up to xrcd,
        SRQ_INIT_ATTR_TYPE => up to pd,
        => whole with SRQ_INIT_ATTR_TM;
    IbvCqInitAttrEx: comp_mask, up to flags,
        CQ_INIT_ATTR_MASK_FLAGS => up to parent_domain,
        => whole with CQ_INIT_ATTR_MASK_PD;
    IbvMrInitAttr: comp_mask, up to iova,
        REG_MR_MASK_DMAH => up to buf,
        REG_MR_MASK_FD_OFFSET => up to dmah,
        REG_MR_MASK_FD => up to fd_offset,
        REG_MR_MASK_ADDR => up to fd,
        REG_MR_MASK_IOVA => up to addr,
        => whole with REG_MR_MASK_BUF;
    IbvParentDomainInitAttr: comp_mask, up to alloc,
        => whole with PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_how_much_there_is() {
        let old = IbvQpInitAttrEx::len(QP_INIT_ATTR_PD | QP_INIT_ATTR_XRCD);
        assert_eq!(old, offset_of!(IbvQpInitAttrEx, create_flags));
        let whole = IbvQpInitAttrEx::len(QP_INIT_ATTR_SEND_OPS_FLAGS);
        assert_eq!(whole, size_of::<IbvQpInitAttrEx>());
        let none = IbvSrqInitAttrEx::len(0);
        assert_eq!(none, offset_of!(IbvSrqInitAttrEx, srq_type));
        let both = IbvSrqInitAttrEx::len(SRQ_INIT_ATTR_TYPE | SRQ_INIT_ATTR_CQ);
        assert_eq!(both, offset_of!(IbvSrqInitAttrEx, tm_cap));
    }
}
