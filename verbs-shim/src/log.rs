//! The log that `ROCE_LOG` enables: a line on stderr for each call that fails, with the function,
//! the error, and the wrong value. C sees only a number. `ROCE_WHY` gets the first of these lines, too.

use nix::errno::Errno;
use parking_lot::Mutex;
use roce_trust::environment;
use roce_verbs::why::{RefusedCall, WhyOutput};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The maximum number of lines for one function and one error in each [`PERIOD`]. A program that
/// retries a post while the queue is full can fail a million times a second.
const LINES: u32 = 10;

const PERIOD: Duration = Duration::from_secs(1);

/// How long a failed call waits for the lock before it drops its line.
const LOCK_TIMEOUT: Duration = Duration::from_millis(10);

/// The lines for one function and one error that `ROCE_WHY` gets.
const LINES_OF_REPORT: u32 = 3;

static LOGS: LazyLock<bool> = LazyLock::new(|| environment::variable("ROCE_LOG").is_some());

/// Where `ROCE_WHY` wants failed calls, unless the log has them in the same place.
static REPORT: LazyLock<Option<WhyOutput>> = LazyLock::new(|| {
    WhyOutput::from_environment().filter(|output| !*LOGS || *output != WhyOutput::Stderr)
});

static RECENT: Mutex<BTreeMap<(&'static str, i32), RecentLines>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Why the current call of this thread will fail, if known.
    static REASON: RefCell<Option<String>> = const { RefCell::new(None) };

    /// The function and error of this thread's last failure that the report had enough of. A program
    /// that retries a post while the queue is full fails a million times a second.
    static KNOWN: Cell<Option<(&'static str, i32)>> = const { Cell::new(None) };
}

/// Lines about one function and one error.
#[derive(Clone, Copy, Debug)]
struct RecentLines {
    since: Instant,
    lines: u32,
    /// The number of failures since the last line that were not logged.
    suppressed: u64,
    reported: u32,
}

impl RecentLines {
    fn new(since: Instant) -> Self {
        Self {
            since,
            lines: 0,
            suppressed: 0,
            reported: 0,
        }
    }

    /// Counts a failure for the report. Returns whether the report gets it.
    fn count_for_report(&mut self) -> bool {
        let is_one_of_the_first = self.reported < LINES_OF_REPORT;
        self.reported += u32::from(is_one_of_the_first);
        is_one_of_the_first
    }

    /// Counts a failure. If it is to be logged, returns the number of failures before it that were
    /// not.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.since) >= PERIOD {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines >= LINES {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Whether reasons are kept: `ROCE_LOG` or `ROCE_WHY` is set.
pub(crate) fn is_enabled() -> bool {
    *LOGS || REPORT.is_some()
}

/// Records why the current call of this thread is about to fail. Does nothing unless `ROCE_LOG` or
/// `ROCE_WHY` is set.
pub(crate) fn set_reason(reason: impl FnOnce() -> String) {
    if is_enabled() {
        let reason = reason();
        // The storage is gone in a thread that is exiting.
        let _ = REASON.try_with(|kept| kept.replace(Some(reason)));
    }
}

/// Records the reason of an error, see [`set_reason`], and returns the error.
pub(crate) fn with_reason(errno: Errno, reason: impl FnOnce() -> String) -> Errno {
    set_reason(reason);
    errno
}

/// Takes the recorded reason. A caller that reports the failure in a later call keeps it until
/// then.
pub(crate) fn take_reason() -> Option<String> {
    if !is_enabled() {
        return None;
    }
    // The storage is gone in a thread that is exiting.
    REASON.try_with(RefCell::take).ok().flatten()
}

/// Ends a call, and logs it if it failed. `call` is the C name of the function.
pub(crate) fn call_ended(call: &'static str, failure: Option<Errno>) {
    if !is_enabled() {
        return;
    }
    let reason = take_reason();
    let errno = match failure {
        // Not a failure: nothing is available yet, a connection is being established, a signal arrived,
        // or an entry of the GID table is empty, as programs find when they go through it.
        None | Some(Errno::EAGAIN | Errno::EINPROGRESS | Errno::EINTR | Errno::ENODATA) => return,
        Some(errno) => errno,
    };
    let which = (call, errno as i32);
    // The storage is gone in a thread that is exiting.
    if !*LOGS && KNOWN.try_with(Cell::get) == Ok(Some(which)) {
        return;
    }
    let now = Instant::now();
    let (suppressed, is_reported) = {
        // In a forked child, the lock may be a copy that stays locked forever.
        let Some(mut recent_lines) = RECENT.try_lock_for(LOCK_TIMEOUT) else {
            return;
        };
        let recent = recent_lines
            .entry(which)
            .or_insert_with(|| RecentLines::new(now));
        (recent.count(now), recent.count_for_report())
    };
    if !is_reported {
        let _ = KNOWN.try_with(|known| known.set(Some(which)));
    }
    let name = format!("{errno:?}");
    let failed = RefusedCall::new(call, &name, reason.as_deref().unwrap_or(errno.desc()));
    if let Some(output) = &*REPORT
        && is_reported
    {
        output.write(&failed);
    }
    if let Some(suppressed) = suppressed
        && *LOGS
    {
        // There is nowhere to report a failed write to stderr.
        let _ = std::io::stderr().write_all(line(&failed, suppressed).as_bytes());
    }
}

fn line(failed: &RefusedCall<'_>, suppressed: u64) -> String {
    let mut line = format!("roce: {failed}");
    if suppressed > 0 {
        line.push_str(&format!(" ({suppressed} similar failures were not logged)"));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_and_the_rest_is_counted() {
        let start = Instant::now();
        let mut recent = RecentLines::new(start);
        let logged = (0..1000).filter_map(|_| recent.count(start)).count();
        assert_eq!(logged, LINES as usize);
        assert_eq!(recent.count(start + PERIOD), Some(1000 - u64::from(LINES)));
        assert_eq!(recent.count(start + PERIOD), Some(0));
        let reported = (0..1000).filter(|_| recent.count_for_report()).count();
        assert_eq!(reported, LINES_OF_REPORT as usize);
    }

    #[test]
    fn a_line_has_the_function_the_error_and_the_reason() {
        let failed = RefusedCall::new("ibv_post_send", "EINVAL", "num_sge is 99");
        assert_eq!(
            line(&failed, 0),
            "roce: ibv_post_send: EINVAL: num_sge is 99\n"
        );
        let line = line(&failed, 7);
        assert_eq!(
            line,
            "roce: ibv_post_send: EINVAL: num_sge is 99 (7 similar failures were not logged)\n"
        );
    }
}
