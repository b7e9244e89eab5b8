//! Limits of the process.

/// Raises the limit of open descriptors of this process as far as an ordinary user may. Whether it is
/// then at least `needed`; if not, the calling test is skipped.
///
/// # Panics
/// If it is not, with `ROCE_LAB=require`.
pub fn descriptors_or_skip(needed: u64) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a structure that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max.min(needed.max(limit.rlim_cur));
        // SAFETY: as above. The call changes nothing but this process's limit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
    if limit.rlim_cur >= needed {
        return true;
    }
    let why = format!("this process may open {} of {needed}", limit.rlim_cur);
    crate::skip("more descriptors (ulimit -Hn)", &why);
    false
}
