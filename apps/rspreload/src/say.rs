//! Messages on stderr.

use crate::errno::keep;
use crate::kinds::{self, Kind};
use crate::{real, settings};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The most messages that are remembered as printed.
const MAX_REMEMBERED: usize = 1000;

static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prints a line about what `ROCE_SOCKETS=log` asks for.
pub(crate) fn log(text: impl FnOnce() -> String) {
    if settings::get().is_logged {
        print(&text());
    }
}

/// Prints a line, once per process, unless `ROCE_SOCKETS=quiet`.
pub(crate) fn once(text: &str) {
    if settings::get().is_quiet {
        return;
    }
    // A forked child may find the lock held by a thread that it does not have.
    let Ok(mut said) = SAID.try_lock() else {
        return;
    };
    if said.len() < MAX_REMEMBERED && said.insert(text.to_owned()) {
        drop(said);
        print(text);
    }
}

fn print(text: &str) {
    // Someone else reads what is sent there.
    if kinds::of(libc::STDERR_FILENO) != Kind::Other {
        return;
    }
    let line = format!("roce sockets: {text}\n");
    keep(|| {
        // SAFETY: the line is valid for reads of its length. If it cannot be written, nobody can be told.
        unsafe { real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) }
    });
}
