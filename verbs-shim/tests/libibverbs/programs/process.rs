//! A program that runs during the test, and its output.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of a program that ends within seconds on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A process, killed when this value is dropped.
pub(crate) struct Process {
    child: Child,
    /// Its stdout and stderr.
    lines: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer.try_clone().expect("a descriptor"));
        command.stderr(writer);
        let child = command.spawn().expect("it is installed");
        // Dropping the command closes this end of the pipe, so reading ends with the process.
        drop(command);
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits until it listens at a TCP port of its namespace.
    pub(crate) fn wait_until_it_listens(&mut self, port: u16) {
        let wanted = format!(":{port:04X} ");
        let id = self.child.id();
        let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{id}/net/{table}"));
        // The fourth column is the state, of which 0A is LISTEN.
        let listens = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let local = words
                .get(1)
                .is_some_and(|a| format!("{a} ").ends_with(&wanted));
            local && words.get(3) == Some(&"0A")
        };
        self.wait_until(
            &format!("the server does not listen at port {port}"),
            || {
                let text: String = tables.iter().flat_map(fs::read_to_string).collect();
                text.lines().any(listens)
            },
        );
    }

    /// Waits until it, or another process of its namespace, accepts requests for a service of the
    /// connection manager.
    pub(crate) fn wait_until_it_serves(&mut self, service: u32) {
        self.wait_for_name(service, &format!("/service/{service:08x}/"));
    }

    /// Waits until it, or another process of its namespace, has claimed a service of the connection
    /// manager. Over AF_XDP, a process does not announce to others that it accepts requests.
    pub(crate) fn wait_until_it_has(&mut self, service: u32) {
        self.wait_for_name(service, &format!("/claim/{service:08x}"));
    }

    fn wait_for_name(&mut self, service: u32, wanted: &str) {
        let names = format!("/proc/{}/net/unix", self.child.id());
        self.wait_until(&format!("the server does not serve {service:#x}"), || {
            fs::read_to_string(&names).is_ok_and(|text| text.contains(wanted))
        });
    }

    /// Waits until `is_so` returns true. Panics if the process ends first, or with `otherwise`
    /// after [`TIMEOUT`].
    fn wait_until(&mut self, otherwise: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + TIMEOUT;
        while !is_so() {
            if let Some(status) = self.child.try_wait().expect("a child") {
                let text: Vec<String> = self.lines.iter().collect();
                panic!("the server ended: {status}: {}", text.join("\n"));
            }
            assert!(Instant::now() < end, "{otherwise}");
            thread::yield_now();
        }
    }

    /// Whether it is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Discards the lines that it has printed so far.
    pub(crate) fn discard_lines(&self) {
        self.lines.try_iter().for_each(drop);
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it prints a line that contains `words`, and discards the lines before it.
    pub(crate) fn wait_for_line(&self, words: &str) {
        let end = Instant::now() + TIMEOUT;
        let mut before = String::new();
        loop {
            match self.lines.recv_timeout(left(end)) {
                Ok(line) if line.contains(words) => return,
                Ok(line) => before += &(line + "\n"),
                Err(error) => panic!("no {words:?} ({error}) after: {before}"),
            }
        }
    }

    /// Waits until it succeeds, and returns its output.
    ///
    /// # Panics
    /// If it fails, or does not end within [`TIMEOUT`].
    pub(crate) fn finish(self, what: &str) -> String {
        let (status, text) = self.end(what);
        assert!(status == Some(0), "{what}: {status:?}: {text}");
        text
    }

    /// Waits until it ends. Returns its exit code, unless a signal ended it, and its output.
    pub(crate) fn end(mut self, what: &str) -> (Option<i32>, String) {
        let end = Instant::now() + TIMEOUT;
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(left(end)) {
                Ok(line) => text += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("{what} does not end: {text}"),
            }
        }
        let status = self.child.wait().expect("a child");
        (status.code(), text)
    }
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}
