//! Datagrams: rdma-core's `udpong`, and `numbered.c`, which checks each datagram.
//!
//! `udpong` has its echo mode over loopback only: after a datagram has been late, it can wait for ever
//! for one that was lost.

use super::soft_roce::{Family, Server};
use roce_tests::lab::{
    Direction, Drops, GUEST_INTERFACE, GUEST_RDMA_DEVICE, GuestChild, HOST_INTERFACE, Lab,
    SharedLab,
};
use roce_tests::programs::{built, compiled_by_or_skip, is_installed_or_skip, roce};
use roce_tests::scene::Scene;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;
use tempfile::TempDir;

/// As an ordinary user, over loopback and a cable, in all ways of waiting.
#[test]
fn udpong_runs() {
    let scene = Scene::of(include_str!("scripts/udpong.sh"));
    if let Some(played) = scene.play_or_skip(&["udpong"]) {
        let clients = played.output.matches("== ").count();
        let finished = played.output.matches("\ncustom ").count();
        assert_eq!((clients, finished), (11, 11), "{}", played.output);
        // Four times 100 datagrams of 2000 bytes, which need not have been received.
        played.moved(800_000);
    }
}

/// Timeout of a program in the guest.
const TIMEOUT: Duration = Duration::from_secs(100);

/// The number of datagrams that a client sends. It takes rdma-core some hundred to find the path to a
/// QP, while datagrams go over the UDP socket.
const COUNT: u64 = 5000;

const ONE_PERCENT: Drops = Drops::PerMille(10);

/// Waits until a program has the UDP port 7174 of its network namespace.
const BOUND: &str = "until grep -qi ':1C06 ' /proc/net/udp /proc/net/udp6; do sleep 0.01; done";

#[test]
fn udpong_sends_to_rdma_core_and_from_it() {
    udpong(Family::V4, Drops::None);
}

#[test]
fn udpong_sends_to_rdma_core_and_from_it_over_ipv6() {
    udpong(Family::V6, Drops::None);
}

#[test]
fn udpong_ends_although_one_percent_is_lost() {
    udpong(Family::V4, ONE_PERCENT);
}

#[test]
fn each_datagram_arrives_once_and_whole() {
    numbered(Family::V4, Drops::None);
}

#[test]
fn each_datagram_arrives_once_and_whole_over_ipv6() {
    numbered(Family::V6, Drops::None);
}

#[test]
fn only_those_that_the_link_loses_are_missing() {
    numbered(Family::V4, ONE_PERCENT);
}

#[test]
fn only_those_that_the_link_loses_are_missing_over_ipv6() {
    numbered(Family::V6, ONE_PERCENT);
}

/// Runs `udpong` in both roles, with datagrams of two sizes.
fn udpong(family: Family, drops: Drops) {
    if !is_installed_or_skip("udpong") {
        return;
    }
    let Some(ends) = Ends::get_or_skip(family) else {
        return;
    };
    let program = Path::new("udpong");
    for server in [Server::Theirs, Server::Ours] {
        let running = ends.serve(server, program, &["-T", "a", "-b"]);
        for size in ["64", "2000"] {
            let arguments = ["-T", "b", "-S", size, "-C", &COUNT.to_string(), "-s"];
            let run = ends.client(server, drops, program, &arguments, &[]);
            let line = run.said.lines().find(|line| line.starts_with("custom "));
            let received = line.and_then(|line| line.split_whitespace().nth(2));
            assert!(received.is_some_and(|received| received != "0"), "{run:?}");
        }
        running.stop();
    }
}

/// Runs `numbered` in both roles.
fn numbered(family: Family, drops: Drops) {
    let source = "tests/tests/sockets/numbered.c";
    let Some(program) = compiled_by_or_skip("cc", source, &["-lrdmacm"]) else {
        return;
    };
    let Some(ends) = Ends::get_or_skip(family) else {
        return;
    };
    for server in [Server::Theirs, Server::Ours] {
        let running = ends.serve(server, &program, &[]);
        let run = ends.client(server, drops, &program, &[], &[&COUNT.to_string()]);
        let arrived = run.said.split_once("arrived ").expect("a count").1;
        let arrived = arrived.split(' ').next().and_then(|text| text.parse().ok());
        let arrived: u64 = arrived.expect("a number");
        assert!(run.said.contains("wrong 0\n"), "{run:?}");
        // Some that the link lost were questions and answers.
        assert!(arrived + run.lost >= COUNT, "{run:?}");
        running.stop();
    }
}

/// The lab, with a server on one end and its clients on the other.
struct Ends {
    lab: SharedLab,
    family: Family,
    /// Preloaded in the guest, where it repairs rdma-core's library.
    repairs: PathBuf,
    /// For `LD_LIBRARY_PATH`.
    library: TempDir,
}

/// What happened while a client ran.
#[derive(Debug)]
struct Run {
    said: String,
    /// Packets that the link has lost on their way to the server.
    lost: u64,
}

impl Ends {
    /// A path MTU that suits the largest datagrams.
    fn get_or_skip(family: Family) -> Option<Self> {
        let source = "tests/tests/sockets/rdma_core_44.c";
        let repairs = compiled_by_or_skip("cc", source, &["-shared", "-fPIC", "-libverbs"])?;
        let lab = Lab::get_or_skip()?;
        lab.set_mtu(4200).expect("set");
        Some(Self {
            lab,
            family,
            repairs,
            library: library(),
        })
    }

    /// Starts a server, whose address is its last argument.
    fn serve(&self, server: Server, program: &Path, arguments: &[&str]) -> Running {
        match server {
            Server::Theirs => {
                let at = self.family.guest(GUEST_INTERFACE);
                let child = self.theirs(program, &[arguments, &[&at]].concat());
                let bound = self.lab.guest(["sh", "-c", BOUND]).output(TIMEOUT);
                bound.expect("it runs").success().expect("bound");
                Running::Theirs(child)
            }
            Server::Ours => {
                let child = self
                    .lab
                    .host_command(program)
                    .args(arguments)
                    .arg(self.family.host(HOST_INTERFACE))
                    .env("LD_LIBRARY_PATH", self.library.path())
                    .spawn();
                let running = Running::Ours(Killed(child.expect("it starts")));
                let bound = ["60", "sh", "-c", BOUND];
                let bound = self.lab.host_command("timeout").args(bound).status();
                assert!(bound.expect("it runs").success(), "the server has no port");
                running
            }
        }
    }

    /// Runs a client of the server, whose address is between `before` and `after`. Half of the
    /// datagrams or more must go from QP to QP.
    fn client(
        &self,
        server: Server,
        drops: Drops,
        program: &Path,
        before: &[&str],
        after: &[&str],
    ) -> Run {
        for direction in [Direction::ToGuest, Direction::ToHost] {
            self.lab.set_loss(direction, drops).expect("set");
        }
        let earlier = self.packets();
        let said = match server {
            Server::Theirs => {
                let at = self.family.guest(HOST_INTERFACE);
                self.our_client(program, &[before, &[&at], after].concat())
            }
            Server::Ours => {
                let at = self.family.host(GUEST_INTERFACE);
                let child = self.theirs(program, &[before, &[&at], after].concat());
                let output = child.wait(TIMEOUT).expect("it ends");
                let output = output.success().expect("success");
                output.stdout_text() + &output.stderr_text()
            }
        };
        let packets = self.packets() - earlier;
        let lost = self.lab.loss_counters().expect("counters");
        let lost = match server {
            Server::Theirs => lost.to_guest.dropped,
            Server::Ours => lost.to_host.dropped,
        };
        println!("{server:?}, {packets} packets, {lost} lost: {said}");
        assert!(packets >= COUNT / 2, "{packets} RoCE packets: {said}");
        assert_eq!(lost > 0, drops != Drops::None, "{lost} packets are lost");
        Run { said, lost }
    }

    fn our_client(&self, program: &Path, arguments: &[&str]) -> String {
        let output = self
            .lab
            .host_command("timeout")
            .arg("60")
            .arg(roce())
            .args(["run", "--require-traffic", "--library"])
            .arg(built("libroce_verbs_shim.so"))
            .arg("--")
            .arg(program)
            .args(arguments)
            .output()
            .expect("it starts");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{}: {said}", output.status);
        said
    }

    /// Starts a program on rdma-core's library and Soft-RoCE, killed after a minute.
    fn theirs(&self, program: &Path, arguments: &[&str]) -> GuestChild {
        let program = match program.is_absolute() {
            true => self.lab.guest_path(program),
            false => program.display().to_string(),
        };
        self.lab
            .guest(["timeout", "60", &program])
            .args(
                &arguments
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
            .env("LD_PRELOAD", &self.lab.guest_path(&self.repairs))
            .spawn()
            .expect("it starts")
    }

    /// The number of RoCE packets that the guest's device has sent and received.
    fn packets(&self) -> u64 {
        let counters = format!(
            "cd /sys/class/infiniband/{GUEST_RDMA_DEVICE}/ports/1/hw_counters; \
             cat sent_pkts rcvd_pkts"
        );
        let read = self.lab.guest(["sh", "-c", &counters]).output(TIMEOUT);
        let text = read.expect("it runs").stdout_text();
        text.split_whitespace()
            .map(|count| count.parse::<u64>().expect("a number"))
            .sum()
    }
}

/// A server.
enum Running {
    Theirs(GuestChild),
    Ours(Killed),
}

impl Running {
    /// Kills it, and waits until it has ended.
    fn stop(self) {
        match self {
            Self::Theirs(child) => _ = child.kill().expect("it ends"),
            Self::Ours(child) => drop(child),
        }
    }
}

/// A program that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Both calls do nothing if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder for `LD_LIBRARY_PATH`, with the library that was built with this test.
fn library() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        let library = built("libroce_verbs_shim.so");
        symlink(library, folder.path().join(name)).expect("a link");
    }
    folder
}
