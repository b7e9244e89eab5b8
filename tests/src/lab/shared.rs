//! One lab for all tests of a process.

use std::env;
use std::io::Write;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Lab, LabConfig};

/// The lab, once someone has asked for it.
static LAB: Mutex<Shared> = Mutex::new(Shared::NotAsked);

#[derive(Debug)]
enum Shared {
    NotAsked,
    Skipped(String),
    Running(Box<Lab>),
}

/// The lab of this process, for one test at a time: dereferences to [`Lab`].
///
/// When dropped, it checks that the guest's kernel is well, and panics if not.
#[derive(Debug)]
pub struct SharedLab {
    guard: MutexGuard<'static, Shared>,
}

impl Deref for SharedLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        match &*self.guard {
            Shared::Running(lab) => lab,
            Shared::NotAsked | Shared::Skipped(_) => unreachable!("made only of a running lab"),
        }
    }
}

impl Drop for SharedLab {
    fn drop(&mut self) {
        let well = self.check_kernel();
        if thread::panicking() {
            if let Err(error) = well {
                eprintln!("lab: {error}");
            }
            eprintln!("lab: the guest's console:\n{}", self.console());
        } else if let Err(error) = well {
            // The next test gets a new guest.
            *self.guard = Shared::NotAsked;
            panic!("lab: {error}");
        }
    }
}

pub(super) fn get_or_skip() -> Option<SharedLab> {
    // A test that failed may have left the lab in any state: reset deals with it.
    let mut guard = LAB.lock().unwrap_or_else(PoisonError::into_inner);
    if let Shared::Running(lab) = &*guard
        && let Err(error) = lab.reset()
    {
        say(&format!(
            "lab: booting a new guest, the old one does not answer: {error}"
        ));
        *guard = Shared::NotAsked;
    }
    if let Shared::NotAsked = *guard {
        *guard = match try_boot(&LabConfig::default()) {
            Ok(lab) => {
                shut_down_at_exit();
                Shared::Running(Box::new(lab))
            }
            Err(reason) => Shared::Skipped(reason),
        };
    }
    if let Shared::Skipped(reason) = &*guard {
        say_skipped(reason);
        return None;
    }
    Some(SharedLab { guard })
}

pub(super) fn boot_or_skip(config: &LabConfig) -> Option<Lab> {
    try_boot(config).map_err(|reason| say_skipped(&reason)).ok()
}

/// Boots a lab, or says why this machine is excused. Panics if it is not.
fn try_boot(config: &LabConfig) -> Result<Lab, String> {
    let required = match env::var("ROCE_LAB").as_deref() {
        Ok("off") => return Err("ROCE_LAB=off".to_owned()),
        Ok("require") => true,
        Ok("" | "auto") | Err(_) => false,
        Ok(other) => panic!("ROCE_LAB={other}: require, auto or off are understood"),
    };
    match Lab::boot(config) {
        Ok(lab) => Ok(lab),
        Err(error) if error.is_poor_machine() && !required => Err(error.to_string()),
        Err(error) => panic!("lab: {error}"),
    }
}

fn say_skipped(reason: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    say(&format!("SKIPPED: {test} needs the interop lab: {reason}"));
}

/// Writes a line to the real stderr, past the test harness, which would hide it.
fn say(line: &str) {
    // Where stderr is closed, nobody wants to know.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Has the lab dropped when the process exits: Rust drops no statics.
fn shut_down_at_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function is an `extern "C" fn` that lives as long as the
        // program, and does not unwind.
        unsafe { libc::atexit(shut_down) };
    });
}

extern "C" fn shut_down() {
    // A test that still runs keeps its lab: the kernel kills it with this process.
    if let Ok(mut lab) = LAB.try_lock() {
        *lab = Shared::NotAsked;
    }
}
