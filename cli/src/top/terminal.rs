//! The terminal in raw mode. When this value is dropped, for whatever reason, the previous state is
//! restored.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal, Read, Stdin, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Switches to the alternate screen, without a cursor and without wrapping; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The event that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Tick,
    Resized,
    /// Scroll by this many lines.
    Scroll(isize),
    Quit,
}

pub(crate) struct Terminal {
    keys: Stdin,
    before: Termios,
    /// Receives the signals that would end the program, so that it ends cleanly.
    signals: SignalFd,
    mask: SigSet,
}

impl Terminal {
    pub(crate) fn open() -> io::Result<Self> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Err(io::Error::other(
                "stdin and stdout must be a terminal; --once and --json need none",
            ));
        }
        let mut wanted = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGWINCH,
        ] {
            wanted.add(signal);
        }
        let mask = wanted.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals =
            SignalFd::with_flags(&wanted, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let keys = stdin();
        let before = tcgetattr(&keys)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&keys, SetArg::TCSAFLUSH, &raw)?;
        // From here on, dropping the value restores the terminal.
        let terminal = Self {
            keys,
            before,
            signals,
            mask,
        };
        write(ENTER)?;
        Ok(terminal)
    }

    pub(crate) fn size(&self) -> (usize, usize) {
        let size = terminal_size::terminal_size_of(self.keys.as_fd());
        let (terminal_size::Width(columns), terminal_size::Height(rows)) =
            size.unwrap_or((terminal_size::Width(80), terminal_size::Height(24)));
        (usize::from(columns), usize::from(rows))
    }

    /// Shows a screen.
    pub(crate) fn show(&self, ansi: &str) -> io::Result<()> {
        write(ansi)
    }

    /// Waits for an event, at most until `until`.
    pub(crate) fn wait(&mut self, until: Instant) -> io::Result<Event> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Event::Tick);
            }
            let (keys, signals) = self.wait_once(left)?;
            if signals && let Some(signal) = self.signals.read_signal()? {
                let is_resize = signal.ssi_signo == Signal::SIGWINCH as u32;
                return Ok(if is_resize {
                    Event::Resized
                } else {
                    Event::Quit
                });
            }
            if keys {
                let mut pressed = [0; 64];
                let count = self.keys.lock().read(&mut pressed)?;
                if let Some(event) = meaning(&pressed[..count]) {
                    return Ok(event);
                }
            }
        }
    }

    /// Whether a key was pressed, and whether a signal arrived.
    fn wait_once(&self, left: Duration) -> io::Result<(bool, bool)> {
        let mut polled = [
            PollFd::new(self.keys.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(polled
            .each_ref()
            .map(|one| one.any().unwrap_or(false))
            .into())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is no place left to report an error.
        let _ = write(LEAVE);
        let _ = tcsetattr(&self.keys, SetArg::TCSAFLUSH, &self.before);
        let _ = self.mask.thread_set_mask();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The meaning of a key; no input is the end of the terminal.
fn meaning(pressed: &[u8]) -> Option<Event> {
    const PAGE: isize = 10;
    match pressed {
        // Escape alone, and Ctrl-C and Ctrl-D, as in other programs.
        [] | [b'q' | b'Q' | 0x1b | 3 | 4, ..] if pressed.len() < 2 => Some(Event::Quit),
        b"\x1b[A" | b"\x1bOA" | b"k" => Some(Event::Scroll(-1)),
        b"\x1b[B" | b"\x1bOB" | b"j" => Some(Event::Scroll(1)),
        b"\x1b[5~" => Some(Event::Scroll(-PAGE)),
        b"\x1b[6~" | b" " => Some(Event::Scroll(PAGE)),
        _ if pressed.contains(&b'q') || pressed.contains(&3) => Some(Event::Quit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_they_do_elsewhere() {
        for quits in [&b"q"[..], b"Q", b"\x1b", b"\x03", b"\x04", b"", b"jq"] {
            assert_eq!(meaning(quits), Some(Event::Quit), "{quits:?}");
        }
        assert_eq!(meaning(b"\x1b[A"), Some(Event::Scroll(-1)));
        assert_eq!(meaning(b"j"), Some(Event::Scroll(1)));
        assert_eq!(meaning(b"\x1b[6~"), Some(Event::Scroll(10)));
        assert_eq!(meaning(b"x"), None);
        assert_eq!(meaning(b"\x1b[C"), None);
    }
}
