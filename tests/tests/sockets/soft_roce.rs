//! Between rdma-core's rsockets over Soft-RoCE, in the guest, and ours, in both roles.

use std::path::{Path, PathBuf};
use std::time::Instant;

use roce_tests::lab::{
    Direction, Drops, GUEST_INTERFACE, GUEST_IP4, GUEST_LL6, GuestChild, HOST_INTERFACE, HOST_IP4,
    HOST_LL6, Lab, LossCounters,
};
use roce_tests::programs::is_installed_or_skip;

use super::TIMEOUT;
use super::case::{Case, written};
use super::ours::{Ours, until_accepted};

/// Which end is the server. The client is the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Ours,
    Theirs,
}

/// The family of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// The guest's address, as a program on the side with `interface` takes it.
    pub(crate) fn guest(self, interface: &str) -> String {
        match self {
            Self::V4 => GUEST_IP4.to_string(),
            Self::V6 => written(GUEST_LL6.into(), interface),
        }
    }

    /// Ours.
    pub(crate) fn host(self, interface: &str) -> String {
        match self {
            Self::V4 => HOST_IP4.to_string(),
            Self::V6 => written(HOST_LL6.into(), interface),
        }
    }
}

const fn rstream(options: &'static str) -> Case {
    Case {
        program: "rstream",
        options,
    }
}

const fn riostream(options: &'static str) -> Case {
    Case {
        program: "riostream",
        options,
    }
}

#[test]
fn rstream_verifies_its_data_in_all_modes() {
    all_verify(
        Drops::None,
        &[Family::V4],
        &[
            rstream("-S 1000 -I 4 -C 10 -T v"),
            rstream("-S 1000 -I 4 -C 10 -T v -T b"),
            rstream("-S 1000 -I 4 -C 10 -T v -T n"),
            rstream("-S 1000 -I 4 -C 10 -T v -T a"),
            rstream("-S 1000 -I 4 -C 10 -T v -T r"),
            rstream("-S 1000 -I 4 -C 10 -T v -k 1"),
            // Nothing is inline, and everything is.
            rstream("-S 200 -I 4 -C 10 -T v -i 0"),
            rstream("-S 200 -I 4 -C 10 -T v -i 400"),
        ],
    );
}

#[test]
fn rstream_verifies_its_data_with_buffers_of_many_sizes() {
    all_verify(
        Drops::None,
        &[Family::V4],
        &[
            rstream("-S 1 -I 2 -C 50 -T v"),
            rstream("-S 100000 -I 2 -C 4 -T v"),
            rstream("-S 10000 -I 2 -C 4 -T v -B 5000"),
            rstream("-S 1000000 -I 1 -C 2 -T v -B 1000001"),
            rstream("-S 100000 -I 1 -C 4 -T v -T n -B 9999"),
        ],
    );
}

#[test]
fn rstream_verifies_its_data_over_ipv6() {
    all_verify(
        Drops::None,
        &[Family::V6],
        &[
            rstream("-S 1000 -I 4 -C 10 -T v"),
            rstream("-S 100000 -I 1 -C 2 -T v -T r"),
        ],
    );
}

#[test]
fn riostream_writes_into_mapped_memory() {
    all_verify(
        Drops::None,
        &[Family::V4, Family::V6],
        &[
            riostream("-S 1000 -I 4 -C 10 -T v"),
            riostream("-S 100000 -I 2 -C 2 -T v -T n"),
        ],
    );
}

/// 1 % of a run's first packets. The smallest case, 20,000 bytes 32 times, takes 640 packets each
/// way, so the last ones arrive. They must: an end that has closed its socket has no QP any more that
/// would repeat a lost acknowledgement, and Soft-RoCE, for which a retry count of 7 is no limit,
/// would repeat its last request for ever.
const EARLY_LOSS: Drops = Drops::EarlyPerMille {
    packets: 600,
    per_mille: 10,
};

#[test]
fn rstream_verifies_its_data_although_one_percent_is_lost() {
    all_verify(
        EARLY_LOSS,
        &[Family::V4],
        &[
            rstream("-S 65536 -I 2 -C 8 -T v"),
            rstream("-S 20000 -I 2 -C 16 -T v -T n"),
        ],
    );
}

#[test]
fn riostream_writes_into_mapped_memory_although_one_percent_is_lost() {
    all_verify(
        EARLY_LOSS,
        &[Family::V6],
        &[riostream("-S 65536 -I 2 -C 8 -T v")],
    );
}

/// Runs each case in both roles.
fn all_verify(drops: Drops, families: &[Family], cases: &[Case]) {
    if !is_installed_or_skip("rstream") {
        return;
    }
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut lost = LossCounters::default();
    let mut failures = Vec::new();
    for case in cases {
        for &family in families {
            for server in [Server::Theirs, Server::Ours] {
                for direction in [Direction::ToGuest, Direction::ToHost] {
                    lab.set_loss(direction, drops).unwrap();
                }
                let began = Instant::now();
                let run = Run {
                    lab: &lab,
                    family,
                    server,
                };
                let result = run.of(case);
                let seconds = began.elapsed().as_secs_f64();
                let of_run = lab.loss_counters().unwrap();
                lost.to_guest.dropped += of_run.to_guest.dropped;
                lost.to_host.dropped += of_run.to_host.dropped;
                println!(
                    "{seconds:5.1} s: server {server:?}, {family:?}: {case:?}: {result:?}; {of_run:?}"
                );
                if let Err(told) = result {
                    let told = format!("{told}\n{}", run.keep_capture());
                    failures.push(format!("{case:?}, server {server:?}, {family:?}: {told}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if drops != Drops::None {
        assert!(
            lost.to_guest.dropped > 0 && lost.to_host.dropped > 0,
            "{lost:?}"
        );
    }
}

/// A run of a program.
pub(crate) struct Run<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) family: Family,
    pub(crate) server: Server,
}

impl Run<'_> {
    pub(crate) fn of(&self, case: &Case) -> Result<(), String> {
        match self.server {
            Server::Theirs => {
                let theirs =
                    Guest::start(self.lab, &case.server(&self.family.guest(GUEST_INTERFACE)));
                theirs.wait_until_it_listens()?;
                let mut ours =
                    self.ours(&case.client(&self.family.guest(HOST_INTERFACE)), "client");
                let said = ours.finish()?;
                theirs.finish()?;
                has_result(case, &said)
            }
            Server::Ours => {
                let mut ours = self.ours(&case.server(&self.family.host(HOST_INTERFACE)), "server");
                ours.wait_until_bound()?;
                let words = case.client(&self.family.host(GUEST_INTERFACE));
                let theirs = until_accepted(|| Guest::start(self.lab, &words).finish());
                let said = ours
                    .finish()
                    .map_err(|told| format!("{told}; {theirs:?}"))?;
                has_result(case, &said)?;
                match theirs {
                    Err(told) if case.hangs_up() && told.starts_with(HUNG_UP) => Ok(()),
                    other => other.map(drop),
                }
            }
        }
    }

    /// A program on our library.
    pub(crate) fn ours(&self, words: &[String], name: &str) -> Ours {
        let said = self.lab.directory().join(name);
        let capture = self.capture(name);
        // The one before may have left its own, which is not overwritten.
        let _ = std::fs::remove_file(&capture);
        let environment = [("ROCE_PCAP", capture.to_str().expect("text"))];
        let namespace = |program: &Path| self.lab.host_command(program);
        Ours::start(&namespace, words, &environment, said)
    }

    fn capture(&self, name: &str) -> PathBuf {
        self.lab.directory().join(format!("{name}.pcapng"))
    }

    /// Keeps our packets of a run that failed, and returns where.
    pub(crate) fn keep_capture(&self) -> String {
        let role = match self.server {
            Server::Theirs => "client",
            Server::Ours => "server",
        };
        let kept = self.lab.keep_directory("sockets").expect("a folder");
        let kept = kept.join(format!("{:?}-{role}.pcapng", self.family));
        match std::fs::copy(self.capture(role), &kept) {
            Ok(_) => format!("our packets: {}", kept.display()),
            Err(error) => format!("no capture: {error}"),
        }
    }
}

/// rstream's exit code when its last poll found both the last data and the end: POLLHUP.
const HUNG_UP: &str = "theirs: Exited(16)";

impl Case {
    /// With `-T a`, rstream's client treats POLLHUP as a failure. It gets POLLHUP together with the
    /// last data if the server has already disconnected. This happens with rdma-core's library, too.
    fn hangs_up(&self) -> bool {
        self.options.contains("-T a")
    }
}

fn has_result(case: &Case, said: &str) -> Result<(), String> {
    match case.has_result(said) {
        true => Ok(()),
        false => Err(format!("no result: {said}")),
    }
}

/// A program on rdma-core's library, in the guest.
pub(crate) struct Guest<'a> {
    lab: &'a Lab,
    child: GuestChild,
    id: String,
}

impl<'a> Guest<'a> {
    pub(crate) fn start(lab: &'a Lab, words: &[String]) -> Self {
        // Its first line is its process ID.
        let mut child = lab
            .guest(["sh", "-c", "echo $$; exec \"$@\"", "sh"])
            .args(words)
            .spawn()
            .expect("it starts");
        let id = child.read_line(TIMEOUT).expect("its number");
        Self { lab, child, id }
    }

    /// Waits until it listens.
    ///
    /// # Errors
    /// If it ends before, with its output.
    pub(crate) fn wait_until_it_listens(&self) -> Result<(), String> {
        let script = "until rdma resource show cm_id | grep -q 'state LISTEN.*pid '$1' '; \
                      do [ -d /proc/$1 ] || exit 1; sleep 0.02; done";
        let looked = self
            .lab
            .guest(["sh", "-c", script, "sh", &self.id])
            .output(TIMEOUT);
        match looked.and_then(|output| output.success()) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("theirs does not listen: {error}")),
        }
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// If it fails, or does not end, with its output.
    pub(crate) fn finish(self) -> Result<String, String> {
        let output = self
            .child
            .wait(TIMEOUT)
            .map_err(|error| format!("theirs: {error}"))?;
        let said = output.stdout_text() + &output.stderr_text();
        match output.status {
            roce_tests::lab::GuestStatus::Exited(0) => Ok(said),
            status => Err(format!("theirs: {status:?}: {said}")),
        }
    }
}
