//! Runs on several threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `run` with each number from 0 to `count` - 1, on `jobs` threads; by default, as many as there are
/// processors.
pub(super) fn run_all(count: u64, jobs: Option<NonZero<usize>>, run: impl Fn(u64) + Sync) {
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = jobs.map_or_else(processors, NonZero::get);
    let jobs = jobs.min(usize::try_from(count).unwrap_or(usize::MAX));
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    run(number);
                }
            });
        }
    });
}
