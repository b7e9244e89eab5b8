//! The processor's own counter.

/// Whether [`ticks`] counts at one rate, and alike on all processors: the kernel has looked into
/// that for its own clock. It goes on to look, and may change its mind; then what differs between
/// two answers of the clock shows.
#[cfg(target_arch = "x86_64")]
pub(super) fn keeps_time() -> bool {
    const KERNELS: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(KERNELS).is_ok_and(|name| name.trim() == "tsc")
}

/// What the counter shows. It may be read earlier than what comes before in the program.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code)]
pub(super) fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, which touches no memory.
    // Where programs may not use it (`PR_SET_TSC`), the system's clock can't be had either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Elsewhere the system's clock is as quick.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn keeps_time() -> bool {
    false
}

/// There is none.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn ticks() -> u64 {
    0
}
