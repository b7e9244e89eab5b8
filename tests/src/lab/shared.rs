//! The labs that all tests of a process share.

use std::env;
use std::io::Write;
use std::mem;
use std::num::NonZero;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Lab, LabConfig, LabError};

/// The most labs, however many processors there are: each takes a gigabyte of memory.
const MOST_LABS: usize = 4;

static LABS: Labs = Labs {
    state: Mutex::new(State {
        idle: Vec::new(),
        taken: 0,
        unfit: None,
    }),
    returned: Condvar::new(),
};

struct Labs {
    state: Mutex<State>,
    /// Notified when `taken` decreases.
    returned: Condvar,
}

struct State {
    /// Labs that are booted and that no test uses.
    idle: Vec<Lab>,
    /// The number of labs that tests use, or that are booting for them.
    taken: usize,
    /// Why this machine can not boot a lab, which makes tests skip.
    unfit: Option<String>,
}

impl Labs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more test may have a lab, and returns an idle lab if there is one.
    fn take(&'static self) -> (Turn, Option<Lab>) {
        let mut state = self.state();
        while state.taken >= most_at_once() {
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.taken += 1;
        (Turn, state.idle.pop())
    }
}

/// An emulated guest keeps one processor busy.
fn most_at_once() -> usize {
    thread::available_parallelism().map_or(1, |cpus| cpus.get().min(MOST_LABS))
}

/// Processors of each guest. With as many guests as processors, two processors in a guest would
/// often wait for each other while one is not scheduled: tests would take 1.5 times as long.
fn processors_of_each() -> u32 {
    let all = thread::available_parallelism().map_or(1, NonZero::get);
    if all > MOST_LABS { 2 } else { 1 }
}

/// The right to a lab, given back when dropped.
#[derive(Debug)]
struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        LABS.state().taken -= 1;
        LABS.returned.notify_one();
    }
}

/// A lab of this process, for one test until it drops this value. Dereferences to [`Lab`].
///
/// When dropped, it checks that the guest's kernel has not reported a failure, and panics
/// otherwise.
#[derive(Debug)]
pub struct SharedLab {
    /// `Some` until it is dropped.
    lab: Option<Lab>,
    // Dropped after the lab has been put back.
    _turn: Turn,
}

impl Deref for SharedLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        self.lab.as_ref().expect("it is there until dropped")
    }
}

impl Drop for SharedLab {
    fn drop(&mut self) {
        let Some(lab) = &self.lab else { return };
        let well = lab.check_kernel();
        if thread::panicking() {
            if let Err(error) = well {
                eprintln!("lab: {error}");
            }
            if !lab.link_is_alive() {
                eprintln!("lab: no packets pass to the guest and back");
            }
            eprintln!("lab: the guest's console:\n{}", lab.console());
        } else if let Err(error) = well {
            // The next test gets a new guest.
            self.lab = None;
            panic!("lab: {error}");
        }
        LABS.state().idle.extend(self.lab.take());
    }
}

pub(super) fn get_or_skip() -> Option<SharedLab> {
    let (turn, idle) = LABS.take();
    // A failed test may have left the lab in any state, so reset it.
    let ready = idle.filter(|lab| match lab.reset() {
        Ok(()) => true,
        Err(error) => {
            say(&format!(
                "lab: booting a new guest, the old one does not answer: {error}"
            ));
            false
        }
    });
    let lab = match ready {
        Some(lab) => lab,
        None => boot_unless_unfit()?,
    };
    Some(SharedLab {
        lab: Some(lab),
        _turn: turn,
    })
}

pub(super) fn try_with(test: impl Fn(&SharedLab)) {
    let Some(mut lab) = get_or_skip() else { return };
    let Err(panicked) = catch_unwind(AssertUnwindSafe(|| test(&lab))) else {
        return;
    };
    if lab.link_is_alive() {
        resume_unwind(panicked);
    }
    say(
        "lab: a test failed, and no packets pass to the guest and back; once more, with a new guest",
    );
    eprintln!("lab: the guest's console:\n{}", lab.console());
    // A guest whose network card has stopped is of no use.
    lab.lab = None;
    drop(lab);
    if let Some(lab) = get_or_skip() {
        test(&lab);
    }
}

/// Boots a lab. If this machine can't, reports that once, and does not try again.
fn boot_unless_unfit() -> Option<Lab> {
    let known = LABS.state().unfit.clone();
    let booted = match known {
        Some(reason) => Err(reason),
        None => try_boot(&LabConfig {
            cpus: processors_of_each(),
            ..LabConfig::default()
        }),
    };
    match booted {
        Ok(lab) => {
            shut_down_at_exit();
            Some(lab)
        }
        Err(reason) => {
            say_skipped(&reason);
            LABS.state().unfit = Some(reason);
            None
        }
    }
}

pub(super) fn boot_or_skip(config: &LabConfig) -> Option<Lab> {
    try_boot(config).map_err(|reason| say_skipped(&reason)).ok()
}

/// Boots a lab, or returns why this machine is excused. Panics if it is not.
fn try_boot(config: &LabConfig) -> Result<Lab, String> {
    excuse(|| Lab::boot(config))
}

/// Calls `make`, or returns why this machine is excused, according to `ROCE_LAB`. Panics if it is
/// not excused.
fn excuse<T>(make: impl FnOnce() -> Result<T, LabError>) -> Result<T, String> {
    let required = match env::var("ROCE_LAB").as_deref() {
        Ok("off") => return Err("ROCE_LAB=off".to_owned()),
        Ok("require") => true,
        Ok("" | "auto") | Err(_) => false,
        Ok(other) => panic!("ROCE_LAB={other}: require, auto or off are understood"),
    };
    match make() {
        Ok(made) => Ok(made),
        Err(error) if error.is_poor_machine() && !required => Err(error.to_string()),
        Err(error) => panic!("lab: {error}"),
    }
}

fn say_skipped(reason: &str) {
    testkit::skip("the interop lab (root, QEMU)", reason);
}

/// Writes a line to the real stderr, past the test harness, which would hide it.
pub(super) fn say(line: &str) {
    // If stderr is closed, there is no way to report it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Drops the labs when the process exits, because Rust drops no statics.
fn shut_down_at_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function is an `extern "C" fn` that lives as long as the
        // program, and does not unwind.
        unsafe { libc::atexit(shut_down) };
    });
}

extern "C" fn shut_down() {
    // A running test keeps its lab; the kernel kills the lab with this process.
    if let Ok(mut state) = LABS.state.try_lock() {
        drop(mem::take(&mut state.idle));
    }
}
