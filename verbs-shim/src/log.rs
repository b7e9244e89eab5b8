//! The log that `ROCE_LOG` enables: a line on stderr for each call that fails, with the function,
//! the error, and the wrong value. C sees only a number.

use nix::errno::Errno;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The most lines about one function and one error in each [`PERIOD`]. A program that posts until
/// the queue is full fails a million times a second.
const LINES: u32 = 10;

const PERIOD: Duration = Duration::from_secs(1);

/// How long a failed call waits for the lock before it gives up its line.
const PATIENCE: Duration = Duration::from_millis(10);

static ENABLED: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("ROCE_LOG").is_some_and(|value| !value.is_empty()));

/// Recent lines, by function and error.
static SAID: Mutex<BTreeMap<(&'static str, i32), Lately>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Why the current call of this thread will fail, if known.
    static REASON: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Lines about one function and one error.
#[derive(Clone, Copy, Debug)]
struct Lately {
    since: Instant,
    lines: u32,
    /// The number of failures without a line.
    held_back: u64,
}

impl Lately {
    /// Counts a failure. Returns whether it gets a line, and the number of failures without one
    /// before it.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.since) >= PERIOD {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines >= LINES {
            self.held_back += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.held_back))
    }
}

/// Records the reason for the failure that follows. Costs nothing unless `ROCE_LOG` is set.
pub(crate) fn because(reason: impl FnOnce() -> String) {
    if *ENABLED {
        let reason = reason();
        // The storage is gone in a thread that is exiting.
        let _ = REASON.try_with(|kept| kept.replace(Some(reason)));
    }
}

/// Returns an error and records its reason.
pub(crate) fn refuse(errno: Errno, reason: impl FnOnce() -> String) -> Errno {
    because(reason);
    errno
}

/// Takes the reason, for a failure that a later call returns.
pub(crate) fn reason() -> Option<String> {
    // The storage is gone in a thread that is exiting.
    REASON.try_with(RefCell::take).ok().flatten()
}

/// The end of a call: logs why it failed, if it did. `path` is the path of the Rust function.
pub(crate) fn ended(path: &'static str, failure: Option<Errno>) {
    if !*ENABLED {
        return;
    }
    let reason = reason();
    let errno = match failure {
        // Not a failure: nothing is available yet, or a signal arrived.
        None | Some(Errno::EAGAIN | Errno::EINTR) => return,
        Some(errno) => errno,
    };
    let now = Instant::now();
    let held_back = {
        // A forked child may have a copy that stays locked for ever.
        let Some(mut said) = SAID.try_lock_for(PATIENCE) else {
            return;
        };
        let lately = said.entry((path, errno as i32)).or_insert(Lately {
            since: now,
            lines: 0,
            held_back: 0,
        });
        lately.count(now)
    };
    if let Some(held_back) = held_back {
        let line = line(path, errno, reason.as_deref(), held_back);
        // There is no place left to report an error.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn line(path: &str, errno: Errno, reason: Option<&str>, held_back: u64) -> String {
    let name = c_name(path);
    let mut line = format!(
        "roce: {name}: {errno:?}: {}",
        reason.unwrap_or(errno.desc())
    );
    if held_back > 0 {
        line.push_str(&format!(" ({held_back} more failures like it had no line)"));
    }
    line.push('\n');
    line
}

/// The C name of the function whose body is the closure at `path`. Functions have their C names
/// here, without the prefix.
fn c_name(path: &str) -> String {
    let function = path.trim_end_matches("::{{closure}}");
    let last = function.rsplit("::").next().unwrap_or(function);
    let name = last.split('<').next().unwrap_or(last);
    let prefix = match function {
        path if path.contains("::rdmacm::") => "rdma_",
        path if path.contains("::wr::") => "ibv_wr_",
        _ => "ibv_",
    };
    format!("{prefix}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_names_that_c_gives_them() {
        for (path, name) in [
            (
                "roce_verbs_shim::qp::post::post_send::{{closure}}",
                "ibv_post_send",
            ),
            (
                "x::rdmacm::resolve::bind_addr::{{closure}}",
                "rdma_bind_addr",
            ),
            (
                "x::qp::wr::complete::{{closure}}::{{closure}}",
                "ibv_wr_complete",
            ),
            ("x::cq::poll::read<u64>::{{closure}}", "ibv_read"),
            ("", "ibv_"),
        ] {
            assert_eq!(c_name(path), name);
        }
        fn name<F: FnOnce()>(_: F) -> &'static str {
            std::any::type_name::<F>()
        }
        let own = c_name(name(|| {}));
        assert_eq!(own, "ibv_functions_have_the_names_that_c_gives_them");
    }

    #[test]
    fn lines_are_few_and_the_rest_is_counted() {
        let start = Instant::now();
        let mut lately = Lately {
            since: start,
            lines: 0,
            held_back: 0,
        };
        let said = (0..1000).filter_map(|_| lately.count(start)).count();
        assert_eq!(said, LINES as usize);
        assert_eq!(lately.count(start + PERIOD), Some(1000 - u64::from(LINES)));
        assert_eq!(lately.count(start + PERIOD), Some(0));
    }

    #[test]
    fn a_line_has_the_function_the_error_and_the_reason() {
        let path = "x::qp::post::post_send::{{closure}}";
        assert_eq!(
            line(path, Errno::EINVAL, Some("num_sge is 99"), 0),
            "roce: ibv_post_send: EINVAL: num_sge is 99\n"
        );
        let line = line(path, Errno::EINVAL, None, 7);
        assert_eq!(
            line,
            "roce: ibv_post_send: EINVAL: Invalid argument (7 more failures like it had no line)\n"
        );
    }
}
