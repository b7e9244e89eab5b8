//! Programs of rdma-core and perftest, as Debian builds them: nothing in them knows of
//! this library.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use roce_tests::programs::{compiled_or_skip, is_installed_or_skip};
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

/// Where a server and its client run, and what carries their packets.
struct Place<'a> {
    server: &'a End,
    client: &'a End,
    /// The server's address, as the client is told it.
    host: String,
    /// Device and index of the GID of that address, of the server and of the client.
    devices: [(String, u8); 2],
    /// What `ROCE_DATAPATH` says.
    datapath: &'static str,
}

impl<'a> Place<'a> {
    /// The two ends of a cable. Before the GID of the IPv4 address is the link-local one.
    fn cable(pair: &'a Pair, datapath: &'static str) -> Self {
        let device = |end: &End| (format!("roce_{}", end.interface), 1);
        Self {
            server: &pair.far,
            client: &pair.near,
            host: pair.far.ip4.to_string(),
            devices: [device(&pair.far), device(&pair.near)],
            datapath,
        }
    }

    /// One host, and one address for both.
    fn loopback(end: &'a End) -> Self {
        Self {
            server: end,
            client: end,
            host: "127.0.0.1".to_owned(),
            devices: [(); 2].map(|()| ("roce_lo".to_owned(), 0)),
            datapath: "udp",
        }
    }

    /// Runs `words` as a server and as its client. In them, `DEVICE` and `GID` stand for
    /// what they are at each end. Returns what the client printed.
    fn run(&self, words: &str, port: u16) -> String {
        let library = library::folder();
        let command = |end: &End, (device, gid): &(String, u8)| {
            let words = words
                .replace("DEVICE", device)
                .replace("GID", &gid.to_string());
            let mut words = words.split(' ');
            let mut command = end.command(words.next().unwrap_or_default());
            command
                .args(words)
                .env("LD_LIBRARY_PATH", library.path())
                .env("ROCE_DATAPATH", self.datapath);
            command
        };
        let [there, here] = &self.devices;
        let mut server = Process::spawn(command(self.server, there));
        server.wait_until_it_listens(port);
        let mut client = command(self.client, here);
        client.arg(&self.host);
        let client = Process::spawn(client);
        let told = client.finish(&format!("client of {words:?}"));
        server.finish(&format!("server of {words:?}"));
        told
    }

    /// rdma-core's pingpongs, of every service.
    fn pingpongs(&self) {
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
            ("ibv_xsrq_pingpong -e", "success"),
        ];
        for (words, expected) in runs {
            let told = self.run(&format!("{words} -d DEVICE -g GID"), 18515);
            assert!(told.contains(expected), "{words}: {told}");
        }
    }
}

fn pair_for(program: &str) -> Option<Pair> {
    match is_installed_or_skip(program) {
        true => Pair::new_or_skip(1500, 1),
        false => None,
    }
}

#[test]
fn pingpongs_of_every_service() {
    if let Some(pair) = pair_for("ibv_rc_pingpong") {
        Place::cable(&pair, "udp").pingpongs();
    }
}

#[test]
fn pingpongs_of_every_service_over_af_xdp() {
    if let Some(pair) = pair_for("ibv_rc_pingpong") {
        Place::cable(&pair, "xdp").pingpongs();
    }
}

#[test]
fn pingpongs_of_every_service_on_one_host() {
    if let Some(pair) = pair_for("ibv_rc_pingpong") {
        Place::loopback(&pair.near).pingpongs();
    }
}

/// The textbook program in C, on both ports.
#[test]
fn the_textbook_program() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let Some(program) = compiled_or_skip("examples/c/textbook.c") else {
        return;
    };
    for datapath in ["udp", "xdp"] {
        let words = format!("{} DEVICE GID", program.display());
        let told = Place::cable(&pair, datapath).run(&words, 18516);
        assert_eq!(told, "ok\n");
    }
    // If it stays, it is overwritten some day.
    let _ = fs::remove_file(&program);
}

#[test]
fn perftest_of_every_operation() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    // It loads libmlx5 and libefa, too, which are linked to what rdma-core keeps private.
    let runs = [
        "ib_write_bw",
        "ib_write_lat",
        "ib_read_bw",
        "ib_read_lat",
        "ib_send_bw",
        "ib_send_lat",
        "ib_atomic_bw",
        "ib_atomic_lat",
        "ib_write_bw -b",
        "ib_write_bw -q 16",
        "ib_write_bw -c UC",
        "ib_write_lat -I 64",
        "ib_send_bw -e",
        "ib_send_bw -c UD",
        "ib_send_bw -r 64 --use-srq",
        "ib_read_bw -q 16 -b",
    ];
    let place = Place::cable(&pair, "udp");
    for words in runs {
        let told = place.run(&format!("{words} -d DEVICE -x GID -F -n 100"), 18515);
        // The line of the result begins with the size and the number of messages.
        let counted = ["100", "200", "1600", "3200"];
        let is_result = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() > 4 && words.get(1).is_some_and(|n| counted.contains(n))
        };
        assert!(told.lines().any(is_result), "{words}: {told}");
    }
}
