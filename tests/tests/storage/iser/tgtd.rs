//! Debian's tgtd on our library, with one disk in a file.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use roce_tests::lab::{HOST_IP4, Lab};

use super::ours::{self, Running};
use super::{INITIATOR, MIB, PORT};

/// The name of the target. Its disk is logical unit 1.
pub(super) const TARGET: &str = "iqn.2026-01.example:tgt";

/// Size of the disk.
pub(super) const DISK: usize = 64 * MIB;

pub(super) struct Tgtd<'a> {
    lab: &'a Lab,
    /// The file behind the disk.
    pub(super) disk: PathBuf,
    pub(super) program: Running,
}

impl<'a> Tgtd<'a> {
    /// Starts it with an empty disk. Returns when it serves.
    pub(super) fn start(lab: &'a Lab) -> Self {
        let folder = lab.directory().canonicalize().expect("a full path");
        let disk = folder.join("disk");
        let file = File::create(&disk).expect("a file");
        file.set_len(DISK as u64).expect("room");
        let mut started = Self {
            lab,
            disk,
            program: Self::spawn(lab),
        };
        started.configure();
        started
    }

    /// Kills it, and starts it again with the same disk.
    pub(super) fn restart(&mut self) {
        self.program.kill();
        self.program = Self::spawn(self.lab);
        self.configure();
    }

    fn spawn(lab: &Lab) -> Running {
        let mut command = ours::command(lab, "tgtd");
        // Its pool of buffers has 1 GiB otherwise.
        command.args(["-f", "--iser", "pool_sz_mb=128"]);
        Running::start(lab, with_socket(lab, command), "tgtd.log")
    }

    fn configure(&mut self) {
        let lab = self.lab;
        self.program.wait_for("tgtd answers", |_| {
            admin(lab, &["--op", "show", "--mode", "sys"]).then_some(())
        });
        let disk = self.disk.to_str().expect("a path in UTF-8").to_owned();
        let steps: [&[&str]; 4] = [
            &["--op", "new", "--mode", "target", "-T", TARGET],
            &[
                "--op",
                "new",
                "--mode",
                "logicalunit",
                "--lun",
                "1",
                "-b",
                &disk,
            ],
            &["--op", "bind", "--mode", "target", "-I", "ALL"],
            &["--op", "bind", "--mode", "target", "-Q", INITIATOR],
        ];
        for step in steps {
            let with_target = [step, &["--tid", "1"]].concat();
            assert!(
                admin(lab, &with_target),
                "{step:?}: {}",
                self.program.said()
            );
        }
    }

    /// The URL of its disk.
    pub(super) fn portal() -> String {
        format!("{HOST_IP4}:{PORT}")
    }
}

/// Gives a command the control socket of the lab's tgtd.
fn with_socket(lab: &Lab, mut command: Command) -> Command {
    let folder = lab.directory().canonicalize().expect("a full path");
    command.env("TGT_IPC_SOCKET", folder.join("tgtd"));
    command
}

/// Whether a command of tgtadm succeeds.
fn admin(lab: &Lab, arguments: &[&str]) -> bool {
    let mut command = lab.host_command("tgtadm");
    command.args(["--lld", "iser"]).args(arguments);
    let output = with_socket(lab, command).output().expect("tgtadm");
    output.status.success()
}
