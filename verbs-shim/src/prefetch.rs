//! `ibv_advise_mr`: fetches pages of on-demand regions before they are needed.

use crate::prelude::*;
use roce_verbs::memory::check_mapped;
use roce_verbs::{Access, Sge};

/// `ibv_advise_mr`. Checks the whole request, and then prefetches before it returns. The errors of
/// the prefetch itself are returned only with `IBV_ADVISE_MR_FLAG_FLUSH`.
pub(crate) extern "C" fn advise_mr(
    pd: Handle<IbvPd>,
    advice: u32,
    flags: u32,
    list: In<IbvSge>,
    count: u32,
) -> c_int {
    guard::errno("ibv_advise_mr", || {
        let domain = pd.get()?;
        // The pages become present for accesses with these rights. `None` adds those that are present to
        // the NIC's page table. This device has none, so there is nothing to do.
        let fetches_for = match advice {
            ADVISE_MR_ADVICE_PREFETCH => Some(Access::empty()),
            ADVISE_MR_ADVICE_PREFETCH_WRITE => Some(Access::LOCAL_WRITE),
            ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => None,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        if count == 0 || flags & !ADVISE_MR_FLAG_FLUSH != 0 {
            return Err(Errno::EINVAL);
        }
        let rights = fetches_for.unwrap_or(Access::empty());
        let elements = list.items(count as usize)?;
        let places: Result<Vec<_>, Errno> = elements
            .map(|IbvSge { addr, length, lkey }| {
                let element = Sge { addr, length, lkey };
                let place = domain.pd.on_demand_address(&element, rights).or_errno()?;
                // The region must be an on-demand one: only its pages can be fetched.
                let place = usize::try_from(place.ok_or(Errno::EINVAL)?);
                Ok((place.map_err(|_| Errno::EFAULT)?, length as usize))
            })
            .collect();
        let places = places?;
        if let Some(rights) = fetches_for {
            let mut fetched = places
                .into_iter()
                .filter(|(_, len)| *len > 0)
                .map(|(addr, len)| check_mapped(addr, len, rights).or_errno());
            let done = fetched.try_for_each(|done| done);
            if flags & ADVISE_MR_FLAG_FLUSH != 0 {
                return done;
            }
        }
        Ok(())
    })
}
