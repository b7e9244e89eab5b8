//! `ibv_modify_qp_rate_limit`.

use super::Qp;
use crate::prelude::*;
use roce_verbs::qp::RateLimit;

pub(crate) extern "C" fn modify_qp_rate_limit(
    qp: Handle<IbvQp>,
    attr: In<IbvQpRateLimitAttr>,
) -> c_int {
    guard::errno("ibv_modify_qp_rate_limit", || {
        qp.get()?.limit_rate(&attr.read()?)
    })
}

impl Qp {
    fn limit_rate(&self, attr: &IbvQpRateLimitAttr) -> Result<(), Errno> {
        // Each packet is counted with its actual size, so the typical packet size does not affect
        // the rate. It is only used to refuse a burst that is smaller than one packet.
        let packet = match u32::from(attr.typical_pkt_sz) {
            0 => u32::try_from(self.qp.query().1.path_mtu.bytes()).unwrap_or(u32::MAX),
            bytes => bytes,
        };
        let no_rate = attr.rate_limit == 0 && attr.typical_pkt_sz != 0;
        let short = attr.max_burst_sz != 0 && attr.max_burst_sz < packet;
        check_bits("comp_mask", attr.comp_mask, 0_u32, Errno::EINVAL)?;
        if no_rate || short {
            return Err(Errno::EINVAL);
        }
        let limit = RateLimit {
            kilobits_per_second: attr.rate_limit,
            max_burst_bytes: attr.max_burst_sz,
        };
        self.qp.set_rate_limit(limit).or_errno()
    }
}
