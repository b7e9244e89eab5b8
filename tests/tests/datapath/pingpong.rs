//! rdma-core's pingpongs between the two ends of a cable.

use std::process::{Command, Stdio};

use roce_tests::programs::{library, listens_at};
use roce_tests::veth::{End, Pair};

use super::perf::Server;

/// The TCP port at which the pingpongs exchange their addresses.
const PORT: u16 = 18515;

/// Runs the pingpong of a service (`rc`, `uc`, `ud`) with these options. `with` sets the environment of
/// an end.
///
/// # Panics
/// If either end fails.
pub(super) fn play(pair: &Pair, service: &str, options: &str, with: impl Fn(&End, &mut Command)) {
    let library = library();
    let command = |end: &End| {
        let mut command = end.command(format!("ibv_{service}_pingpong"));
        command.args(["-d", &format!("roce_{}", end.interface), "-n", "20"]);
        command.args(options.split(' '));
        command.env("LD_LIBRARY_PATH", library.path());
        with(end, &mut command);
        command
    };
    let mut server = command(&pair.far);
    let mut server = Server(server.stdout(Stdio::null()).spawn().expect("it starts"));
    while !listens_at(&server.0, PORT) {
        let ended = server.0.try_wait().expect("a child");
        assert_eq!(ended, None, "{service}: the server does not listen");
        std::thread::yield_now();
    }
    let output = command(&pair.near).arg(pair.far.ip4.to_string()).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{service}: {said}{told}");
    assert!(!said.contains("invalid data"), "{service}: {said}");
    let status = server.0.wait().expect("it ended");
    assert!(status.success(), "{service}, the server: {status}");
}
