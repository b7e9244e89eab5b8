//! `ibv_modify_cq`: sets the moderation of completion events. The event for a completion is raised
//! after `cq_count` completions, or after `cq_period` microseconds, whichever comes first.

use crate::prelude::*;
use std::time::Duration;

pub(crate) extern "C" fn modify_cq(cq: Handle<IbvCq>, attr: In<IbvModifyCqAttr>) -> c_int {
    guard::errno("ibv_modify_cq", || {
        let (cq, attr) = (cq.get()?, attr.read()?);
        let mask = attr.attr_mask;
        check_bits("attr_mask", mask, CQ_ATTR_MODERATE, Errno::EOPNOTSUPP)?;
        if mask != 0 {
            let period = Duration::from_micros(attr.cq_period.into());
            cq.queue.moderate(attr.cq_count.into(), period);
        }
        Ok(())
    })
}
