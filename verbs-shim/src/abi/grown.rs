//! Structures that newer releases of rdma-core extended at the end. A program built with an older
//! header passes a shorter structure, past whose end nothing may be read.

use super::*;
use crate::pointer::{Grown, Zero};
use nix::errno::Errno;
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

/// Implements [`Grown`]: for each structure, its first field that older headers lack, and the fields that
/// exist if a bit of the mask is set.
macro_rules! grown {
    ($($name:ident up to $first:ident { $($bit:ident => $field:ident,)* })*) => {$(
        zero! { $name }

        impl Grown for $name {
            fn read(from: In<Self>) -> Result<Self, Errno> {
                let mut to = from.read_prefix(offset_of!($name, $first))?;
                let mask = u64::from(to.comp_mask);
                $(if mask & u64::from($bit) != 0 {
                    to.$field = from.field(offset_of!($name, $field)).read()?;
                })*
                Ok(to)
            }
        }
    )*};
}

grown! {
    IbvQpInitAttrEx up to pd {
        QP_INIT_ATTR_PD => pd,
        QP_INIT_ATTR_XRCD => xrcd,
        QP_INIT_ATTR_CREATE_FLAGS => create_flags,
        QP_INIT_ATTR_SEND_OPS_FLAGS => send_ops_flags,
    }
    IbvSrqInitAttrEx up to srq_type {
        SRQ_INIT_ATTR_TYPE => srq_type,
        SRQ_INIT_ATTR_PD => pd,
        SRQ_INIT_ATTR_XRCD => xrcd,
        SRQ_INIT_ATTR_CQ => cq,
    }
    IbvCqInitAttrEx up to flags {
        CQ_INIT_ATTR_MASK_FLAGS => flags,
        CQ_INIT_ATTR_MASK_PD => parent_domain,
    }
    IbvMrInitAttr up to iova {
        REG_MR_MASK_IOVA => iova,
        REG_MR_MASK_ADDR => addr,
        REG_MR_MASK_FD => fd,
        REG_MR_MASK_FD_OFFSET => fd_offset,
        REG_MR_MASK_BUF => buf,
    }
    IbvParentDomainInitAttr up to alloc {
        PARENT_DOMAIN_INIT_ATTR_ALLOCATORS => alloc,
        PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT => pd_context,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program's structure ends before the fields that the mask does not name.
    #[test]
    fn fields_without_their_bit_are_not_read() {
        let mut attr = IbvSrqInitAttrEx {
            comp_mask: SRQ_INIT_ATTR_TYPE | SRQ_INIT_ATTR_XRCD,
            srq_type: SRQT_XRC,
            pd: Handle::from_ptr(std::ptr::without_provenance_mut(1)),
            xrcd: Handle::from_ptr(std::ptr::without_provenance_mut(2)),
            tm_cap: [3; 2],
            ..Zero::zeroed()
        };
        attr.attr.max_wr = 4;
        let read = In::<IbvSrqInitAttrEx>::at(&raw const attr as u64)
            .read_grown()
            .expect("not NULL");
        assert_eq!((read.srq_type, read.attr.max_wr), (SRQT_XRC, 4));
        assert_eq!(read.xrcd.as_ptr(), attr.xrcd.as_ptr());
        assert!(read.pd.as_ptr().is_null());
        assert_eq!(read.tm_cap, [0; 2]);
    }
}
