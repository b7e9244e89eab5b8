//! A program on our library, in the lab's namespace.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use roce_tests::lab::{HOST_INTERFACE, Lab};
use roce_tests::programs::{end, listens_at};

use super::{PORT, TIMEOUT};

/// Interval between checks whether a program listens.
const INTERVAL: Duration = Duration::from_millis(2);

const SECOND: Duration = Duration::from_secs(1);

/// The program, ended when dropped.
pub(super) struct Ours {
    child: Child,
    /// Its output, once it has closed stdout and stderr.
    said: mpsc::Receiver<String>,
}

impl Ours {
    /// Starts it. Its packets go to the file `capture`.
    pub(super) fn start(lab: &Lab, library: &Path, arguments: &[String], capture: &Path) -> Self {
        let (program, arguments) = arguments.split_first().expect("a program");
        let mut child = lab
            .host_command(program)
            .args(["-d", &format!("roce_{HOST_INTERFACE}")])
            .args(arguments)
            .env("LD_LIBRARY_PATH", library)
            .env("ROCE_LOG", "1")
            .env("ROCE_PCAP", capture)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = child.stdout.take().expect("piped");
        let mut err = child.stderr.take().expect("piped");
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // A read error only shortens the output; the exit code is what counts. Neither program
            // writes more to stderr than a pipe holds.
            let _ = out.read_to_end(&mut bytes);
            let _ = err.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        Self { child, said }
    }

    /// Waits until it listens. If it ends before, it never will.
    pub(super) fn wait_until_it_listens(&mut self) {
        let end = Instant::now() + TIMEOUT;
        while self.child.try_wait().expect("a child").is_none() {
            if listens_at(&self.child, PORT) {
                return;
            }
            assert!(Instant::now() < end, "it does not listen at port {PORT}");
            thread::sleep(INTERVAL);
        }
    }

    /// Its output, as an error if it failed or has not ended in time.
    pub(super) fn finish(&mut self) -> Result<String, String> {
        // Wait in steps of a second, so that the time in which this process does not run counts at
        // most as one.
        let said = (0..TIMEOUT.as_secs()).find_map(|_| self.said.recv_timeout(SECOND).ok());
        let Some(said) = said else {
            return Err(format!("it has not ended in {TIMEOUT:?}"));
        };
        let status = self.child.wait().expect("a child");
        match status.success() {
            true => Ok(said),
            false => Err(format!("{said}\n{status}")),
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
