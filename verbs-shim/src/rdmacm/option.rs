//! `rdma_set_option`.

use super::table::find;
use crate::prelude::*;

pub(crate) extern "C" fn set_option(
    id: *mut RdmaCmId,
    level: c_int,
    name: c_int,
    value: In<u8>,
    len: usize,
) -> c_int {
    guard::minus_one("rdma_set_option", || {
        let id = find(id)?;
        if level != crate::convert::int(OPTION_ID) {
            return Err(Errno::EOPNOTSUPP);
        }
        let bytes = |wanted: usize| {
            if len == wanted {
                value.slice(wanted)
            } else {
                Err(Errno::EINVAL)
            }
        };
        let byte = || Ok::<u8, Errno>(bytes(1)?.first().copied().unwrap_or_default());
        let flag = || Ok::<bool, Errno>(bytes(size_of::<c_int>())?.iter().any(|byte| *byte != 0));
        match name.cast_unsigned() {
            OPTION_ID_TOS => id.cm.set_traffic_class(byte()?),
            OPTION_ID_AFONLY => id.cm.set_v6_only(flag()?).or_errno()?,
            // Ports in use are never shared, with or without the option.
            OPTION_ID_REUSEADDR => drop(flag()?),
            OPTION_ID_ACK_TIMEOUT => id.cm.set_ack_timeout(byte()?).or_errno()?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        Ok(())
    })
}
