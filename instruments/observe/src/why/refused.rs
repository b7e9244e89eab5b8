//! C calls that the library refuses. C sees only a number: `ROCE_LOG` writes a line on stderr for each,
//! and `ROCE_WHY` gets the first ones, too.

use super::WhyOutput;
use core::fmt;
use nix::errno::Errno;
use parking_lot::Mutex;
use roce_trust::environment;
use serde::Serialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// The maximum number of lines on stderr for one function and one error in each [`PERIOD`]. A program
/// that retries a post while the queue is full can fail a million times a second.
const LINES: u32 = 10;

const PERIOD: Duration = Duration::from_secs(1);

/// How long a refused call waits for the lock before it drops its line.
const LOCK_TIMEOUT: Duration = Duration::from_millis(10);

/// The number of lines for one function and one error that `ROCE_WHY` gets.
const LINES_OF_REPORT: u32 = 3;

/// A function of the C API, and the error that it returned.
type Refusal = (&'static str, i32);

thread_local! {
    /// This thread's last refusal that the report had enough of, so that a program that retries in a
    /// loop does not take the lock each time.
    static KNOWN: Cell<Option<Refusal>> = const { Cell::new(None) };
}

/// A call that was refused.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RefusedCall<'a> {
    /// The process.
    pub process_id: u32,
    /// The function, in C.
    pub call: &'a str,
    /// The name of the error, such as `EINVAL`.
    pub errno: &'a str,
    /// Which value was wrong, and what would be right, as far as that is known.
    pub reason: &'a str,
}

impl<'a> RefusedCall<'a> {
    /// A call of this process.
    pub fn new(call: &'a str, errno: &'a str, reason: &'a str) -> Self {
        Self {
            process_id: std::process::id(),
            call,
            errno,
            reason,
        }
    }

    /// The line on stderr, after `suppressed` refusals without one.
    fn line(&self, suppressed: u64) -> String {
        let suppressed = match suppressed {
            0 => String::new(),
            _ => format!(" ({suppressed} similar failures were not logged)"),
        };
        format!("roce: {self}{suppressed}\n")
    }
}

impl fmt::Display for RefusedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            errno,
            reason,
            ..
        } = self;
        write!(f, "{call}: {errno}: {reason}")
    }
}

/// Writes refused calls where `ROCE_LOG` and `ROCE_WHY` want them, and limits their number.
#[derive(Debug)]
pub struct RefusedCalls {
    /// Whether `ROCE_LOG` is set.
    logs: bool,
    /// The output of `ROCE_WHY`, unless the log is in the same place.
    report: Option<WhyOutput>,
    recent: Mutex<BTreeMap<Refusal, RecentLines>>,
}

impl RefusedCalls {
    /// As the environment says.
    pub fn from_environment() -> Self {
        let logs = environment::variable("ROCE_LOG").is_some();
        let report = WhyOutput::from_environment();
        Self {
            logs,
            report: report.filter(|output| !logs || *output != WhyOutput::Stderr),
            recent: Mutex::default(),
        }
    }

    /// Whether refused calls are written anywhere.
    pub fn is_enabled(&self) -> bool {
        self.logs || self.report.is_some()
    }

    /// Writes that `call`, a C function, has returned `errno`, unless there are enough such lines.
    pub fn write(&self, call: &'static str, errno: Errno, reason: Option<&str>) {
        let which = (call, errno as i32);
        // The storage is gone in a thread that is exiting.
        if !self.logs && KNOWN.try_with(Cell::get) == Ok(Some(which)) {
            return;
        }
        let (suppressed, is_reported) = {
            // In a forked child, the lock may be a copy that stays locked forever.
            let Some(mut recent) = self.recent.try_lock_for(LOCK_TIMEOUT) else {
                return;
            };
            let now = Instant::now();
            let lines = recent.entry(which).or_insert_with(|| RecentLines::new(now));
            (lines.count(now), lines.count_for_report())
        };
        if !is_reported {
            let _ = KNOWN.try_with(|known| known.set(Some(which)));
        }
        let name = format!("{errno:?}");
        let refused = RefusedCall::new(call, &name, reason.unwrap_or(errno.desc()));
        if let Some(output) = &self.report
            && is_reported
        {
            output.write(&refused);
        }
        if let Some(suppressed) = suppressed
            && self.logs
        {
            // There is nowhere to report a failed write to stderr.
            let _ = std::io::stderr().write_all(refused.line(suppressed).as_bytes());
        }
    }
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
        let refused = RefusedCall::new("ibv_post_send", "EINVAL", "num_sge is 99");
        assert_eq!(
            refused.line(0),
            "roce: ibv_post_send: EINVAL: num_sge is 99\n"
        );
        assert_eq!(
            refused.line(7),
            "roce: ibv_post_send: EINVAL: num_sge is 99 (7 similar failures were not logged)\n"
        );
    }
}
