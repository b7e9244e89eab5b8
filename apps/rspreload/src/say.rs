//! Messages on stderr.

use crate::errno::preserve;
use crate::kinds::{self, Kind};
use crate::{real, settings};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Maximum number of distinct messages printed by [`once`].
const MAX_REMEMBERED: usize = 1000;

static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prints a line if `ROCE_SOCKETS=log` is set.
pub(crate) fn log(text: impl FnOnce() -> String) {
    if settings::get().is_logged {
        print(&text());
    }
}

/// Prints a line once per process, unless `ROCE_SOCKETS=quiet` is set.
pub(crate) fn once(text: &str) {
    if settings::get().is_quiet {
        return;
    }
    // In a forked child, a thread that the child lacks may hold the lock.
    let Ok(mut said) = SAID.try_lock() else {
        return;
    };
    if said.len() < MAX_REMEMBERED && said.insert(text.to_owned()) {
        drop(said);
        print(text);
    }
}

fn print(text: &str) {
    // Descriptor 2 is a socket: the line would go to its peer.
    if kinds::get(libc::STDERR_FILENO) != Kind::Other {
        return;
    }
    let line = format!("roce sockets: {text}\n");
    preserve(|| {
        // SAFETY: the line is valid for reads of its length. An error cannot be reported anywhere.
        unsafe { real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) }
    });
}
