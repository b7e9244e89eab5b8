//! Programs of rdma-core and perftest, as Debian builds them: nothing in them knows of
//! this library.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::{End, Pair};

use crate::library;

/// How long a program may take that ends within a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program prints that must succeed.
fn output_of(mut command: Command) -> String {
    let output = command.output().expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

#[test]
fn ibv_devices_lists_each_interface() {
    if !is_installed_or_skip("ibv_devices") {
        return;
    }
    let library = library::folder();
    let mut command = Command::new("ibv_devices");
    command.env("LD_LIBRARY_PATH", library.path());
    let listed = output_of(command);
    assert!(listed.contains("roce_lo"), "{listed}");
}

#[test]
fn ibv_devinfo_tells_all_about_a_device() {
    if !is_installed_or_skip("ibv_devinfo") {
        return;
    }
    let library = library::folder();
    let mut command = Command::new("ibv_devinfo");
    command.args(["-v", "-d", "roce_lo"]);
    command.env("LD_LIBRARY_PATH", library.path());
    let told = output_of(command);
    let expected = [
        "PORT_ACTIVE (4)",
        "Ethernet",
        "4096 (5)",
        "::ffff:127.0.0.1, RoCE v2",
        "MEM_WINDOW_TYPE_2B",
        "ODP_SUPPORT_IMPLICIT",
    ];
    for words in expected {
        assert!(told.contains(words), "no {words:?} in {told}");
    }
}

/// A process, killed with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("it is installed"))
    }

    /// Waits until it listens at a TCP port of its namespace.
    fn wait_until_it_listens(&mut self, port: u16) {
        let end = Instant::now() + PATIENCE;
        let wanted = format!(":{port:04X} ");
        let id = self.0.id();
        loop {
            let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{id}/net/{table}"));
            let text: String = tables.iter().flat_map(fs::read_to_string).collect();
            // The fourth column is the state, of which 0A is LISTEN.
            let listens = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let local = words
                    .get(1)
                    .is_some_and(|a| format!("{a} ").ends_with(&wanted));
                local && words.get(3) == Some(&"0A")
            };
            if text.lines().any(listens) {
                return;
            }
            let ended = self.0.try_wait().expect("a child");
            assert!(ended.is_none(), "the server ended: {ended:?}");
            assert!(Instant::now() < end, "it does not listen at port {port}");
            std::thread::yield_now();
        }
    }

    /// Its output, when it has ended well.
    fn finish(mut self, what: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < end, "{what} does not end");
            std::thread::yield_now();
        };
        let mut text = String::new();
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        use std::io::Read;
        out.expect("piped").read_to_string(&mut text).expect("text");
        err.expect("piped").read_to_string(&mut text).expect("text");
        assert!(status.success(), "{what}: {status}: {text}");
        text
    }
}

/// Runs `words` at both ends of a cable: as a server, and as its client.
fn between_two_hosts(pair: &Pair, words: &str, port: u16) -> String {
    let library = library::folder();
    let words: Vec<&str> = words.split(' ').collect();
    let command = |end: &End| {
        let mut command = end.command(words[0]);
        command
            .args(&words[1..])
            .env("LD_LIBRARY_PATH", library.path());
        command
    };
    let mut server = Process::spawn(command(&pair.far));
    server.wait_until_it_listens(port);
    let mut client = command(&pair.near);
    client.arg(pair.far.ip4.to_string());
    let client = Process::spawn(client);
    let told = client.finish(&format!("client of {words:?}"));
    server.finish(&format!("server of {words:?}"));
    told
}

/// The index of the GID of the IPv4 address: before it, the link-local one.
const GID: &str = "1";

#[test]
fn pingpongs_of_every_service() {
    if !is_installed_or_skip("ibv_rc_pingpong") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let runs = [
        // Each of 1,000 messages; `-c` compares the bytes, `-e` sleeps on a channel.
        ("ibv_rc_pingpong -c", "1000 iters"),
        ("ibv_rc_pingpong -c -e", "1000 iters"),
        ("ibv_rc_pingpong -c -o", "1000 iters"),
        ("ibv_uc_pingpong -c", "1000 iters"),
        ("ibv_uc_pingpong -e", "1000 iters"),
        ("ibv_ud_pingpong -c -s 1000", "1000 iters"),
        ("ibv_ud_pingpong -e -s 1000", "1000 iters"),
        ("ibv_srq_pingpong -c", "1000 iters"),
        ("ibv_srq_pingpong -e", "1000 iters"),
        // Requests put together by calls; one connection for several receivers.
        ("ibv_rc_pingpong -c -N", "1000 iters"),
        ("ibv_xsrq_pingpong", "success"),
    ];
    for (words, expected) in runs {
        let told = between_two_hosts(&pair, &format!("{words} -g {GID}"), 18515);
        assert!(told.contains(expected), "{words}: {told}");
    }
}

#[test]
fn perftest_of_every_operation() {
    if !is_installed_or_skip("ib_write_bw") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    // It loads libmlx5 and libefa, too, which are linked to what rdma-core keeps private.
    for program in [
        "ib_write_bw",
        "ib_write_lat",
        "ib_read_bw",
        "ib_read_lat",
        "ib_send_bw",
        "ib_send_lat",
        "ib_atomic_bw",
        "ib_atomic_lat",
    ] {
        let words = format!("{program} -x {GID} -F -n 100");
        let told = between_two_hosts(&pair, &words, 18515);
        assert!(told.contains("100     "), "{program}: {told}");
    }
}
