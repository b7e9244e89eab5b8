//! `rdma_set_option`.

use super::id::State;
use super::table::find;
use crate::prelude::*;
use std::sync::atomic::Ordering;

const MAX_TIMEOUT: u8 = 31;

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
        let mut inner = id.inner.lock();
        match name.cast_unsigned() {
            OPTION_ID_TOS => inner.options.traffic_class = byte()?,
            OPTION_ID_AFONLY => {
                inner.check(&[State::Idle])?;
                id.af_only.store(flag()?, Ordering::Relaxed);
            }
            // Ports in use are never shared, with or without the option.
            OPTION_ID_REUSEADDR => drop(flag()?),
            OPTION_ID_ACK_TIMEOUT => {
                let code = Some(byte()?).filter(|code| *code <= MAX_TIMEOUT);
                inner.options.ack_timeout = Some(code.ok_or(Errno::EINVAL)?);
            }
            _ => return Err(Errno::EOPNOTSUPP),
        }
        Ok(())
    })
}
