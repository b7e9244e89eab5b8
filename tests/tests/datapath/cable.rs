//! Captures the packets at one end of the cable with tcpdump.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use roce_tests::veth::End;

use super::perf::Server;

/// Writes the packets that match `filter` and pass `end` while `work` runs to `file`, the first
/// `bytes` bytes of each.
pub(super) fn capture(end: &End, filter: &str, bytes: u32, file: &Path, work: impl FnOnce()) {
    let mut watch = end.command("tcpdump");
    watch.args(["-Z", "root", "-U", "--immediate-mode", "-n"]);
    watch.args(["-s", &bytes.to_string(), "-i", end.interface, "-w"]);
    let watch = watch.arg(file).arg(filter).stderr(Stdio::piped()).spawn();
    let mut watch = Server(watch.expect("tcpdump starts"));
    let said = BufReader::new(watch.0.stderr.take().expect("piped"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("listening on")));
    work();
    let pid = libc::pid_t::try_from(watch.0.id()).expect("a process");
    // SAFETY: kill takes plain numbers; the child has not been waited for, so that the number is
    // still its own.
    unsafe { libc::kill(pid, libc::SIGINT) };
    assert!(said.any(|line| line.contains("packets captured")));
    assert!(watch.0.wait().expect("it ended").success());
}
