//! The processor's counter (TSC).

/// Whether [`ticks`] counts at one rate, in step on all processors. It does if the kernel uses it
/// as its clock source. The kernel may later choose another source. The counter then disagrees with
/// readings of the clock, and the ticker notices.
#[cfg(target_arch = "x86_64")]
pub(super) fn keeps_time() -> bool {
    const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|name| name.trim() == "tsc")
}

/// The counter's value. The processor may execute this before earlier instructions.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code)]
pub(super) fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, which touches no memory.
    // Where programs may not use it (`PR_SET_TSC`), they can't read the system's clock either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Never: on other architectures, the system's clock is as fast to read as a counter.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn keeps_time() -> bool {
    false
}

/// There is no counter.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn ticks() -> u64 {
    0
}
