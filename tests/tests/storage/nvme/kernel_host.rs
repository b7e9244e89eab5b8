//! The kernel's host, `nvme_rdma` on Soft-RoCE, and our target.

use super::{NQN, TIMEOUT, script};
use roce_tests::lab::{Direction, Drops, HOST_IP4, Lab};
use roce_tests::programs::{self, is_installed_or_skip};
use roce_tests::random;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// The size of the namespace.
const SIZE: &str = "16M";

/// Our target, outside the guest, with a disk in a file. Dropping it kills the target.
struct Target<'lab> {
    lab: &'lab Lab,
    folder: TempDir,
    arguments: &'static [&'static str],
    process: Option<Child>,
}

impl<'lab> Target<'lab> {
    /// Starts the target with further arguments of `nvme-rdma serve`.
    fn start(lab: &'lab Lab, arguments: &'static [&'static str]) -> Self {
        let mut target = Self {
            lab,
            folder: tempfile::tempdir().expect("a folder"),
            arguments,
            process: None,
        };
        target.up();
        target
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn up(&mut self) {
        let namespace = format!("{},{SIZE}", self.file().display());
        let listen = HOST_IP4.to_string();
        let arguments = [
            "serve",
            "--listen",
            &listen,
            "--name",
            NQN,
            "--namespace",
            &namespace,
        ];
        let program = programs::built("nvme-rdma-under-test");
        let mut process = self
            .lab
            .host_command(program)
            .args(arguments)
            .args(self.arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("read");
        self.process = Some(process);
        assert_eq!(line, format!("listening at nvme://{HOST_IP4}:4420/{NQN}\n"));
    }

    /// Kills the target: nothing is said to the host.
    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("killed");
            process.wait().expect("ended");
        }
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The guest's block device. Dropping it disconnects the guest.
struct Disk<'lab> {
    lab: &'lab Lab,
    device: String,
}

impl<'lab> Disk<'lab> {
    /// Connects by a command of the script: `connect` or `plain`.
    fn connect(lab: &'lab Lab, how: &str) -> Self {
        let mut disk = Self {
            lab,
            device: String::new(),
        };
        let words = [how, &HOST_IP4.to_string(), "4420", NQN];
        let found = script(lab, "host.sh", &words).expect("the kernel connects");
        disk.device = found.stdout_text().trim().to_owned();
        disk
    }

    /// Makes a file system, writes files with checksums to it, reads them, and checks it. A file
    /// has a block size, a size, and a number of blocks that are written at a time.
    fn is_used(&self, files: &[&str]) {
        let words = [&["use", self.device.as_str()], files].concat();
        script(self.lab, "host.sh", &words).expect("the kernel uses it");
    }

    /// Runs a shell command with the device as `$0`, and returns its output.
    fn shell(&self, command: &str) -> String {
        let output = self.lab.guest(["sh", "-ec", command, &self.device]);
        let output = output.output(TIMEOUT).and_then(|o| o.success());
        output.expect(command).stdout_text()
    }

    /// The SHA-256 of the whole disk as the guest reads it, past its page cache.
    fn sha256(&self) -> String {
        let sum = self.shell("dd if=$0 bs=1M iflag=direct status=none | sha256sum");
        sum.split_whitespace().next().expect("a sum").to_owned()
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        // Fails only if the guest is gone.
        let _ = script(self.lab, "host.sh", &["leave", NQN]);
    }
}

/// A lab whose guest has the programs of these tests.
fn lab_or_skip() -> Option<roce_tests::lab::SharedLab> {
    let programs = ["nvme", "fio", "mkfs.ext4", "fsck.ext4"];
    if !programs.into_iter().all(is_installed_or_skip) {
        return None;
    }
    Lab::get_or_skip()
}

#[test]
fn the_kernel_puts_a_file_system_on_our_disk() {
    let Some(lab) = lab_or_skip() else {
        return;
    };
    let target = Target::start(&lab, &[]);
    let disk = Disk::connect(&lab, "connect");
    disk.is_used(&["4k:1M:16", "64k:2M:8", "1M:8M:4"]);
    assert_eq!(disk.sha256(), random::sha256(&target.file()));
    let found = disk.shell("nvme discover --transport=rdma --traddr=10.77.0.1 --trsvcid=4420");
    assert!(found.contains(NQN), "{found}");
}

#[test]
fn the_kernel_uses_our_disk_when_packets_are_lost() {
    // Its writes are in the capsules.
    although_packets_are_lost(&[]);
}

#[test]
fn the_target_reads_the_kernels_memory_when_packets_are_lost() {
    although_packets_are_lost(&["--in-capsule", "0"]);
}

fn although_packets_are_lost(arguments: &'static [&'static str]) {
    let Some(lab) = lab_or_skip() else {
        return;
    };
    let target = Target::start(&lab, arguments);
    for direction in [Direction::ToGuest, Direction::ToHost] {
        lab.set_loss(direction, Drops::PerMille(10))
            .expect("it drops");
    }
    let disk = Disk::connect(&lab, "plain");
    disk.is_used(&["4k:512k:16", "64k:1M:8"]);
    let dropped = lab.loss_counters().expect("counted");
    assert!(
        dropped.to_guest.dropped > 0 && dropped.to_host.dropped > 0,
        "{dropped:?}"
    );
    // The whole disk is more than the files.
    for direction in [Direction::ToGuest, Direction::ToHost] {
        lab.set_loss(direction, Drops::None).expect("it stops");
    }
    assert_eq!(disk.sha256(), random::sha256(&target.file()));
}

/// The kernel's commands wait until the target is back, and what was written is there.
#[test]
fn the_kernel_reconnects_to_a_target_that_was_killed() {
    let Some(lab) = lab_or_skip() else {
        return;
    };
    let mut target = Target::start(&lab, &[]);
    let disk = Disk::connect(&lab, "connect");
    disk.shell("dd if=/dev/urandom of=$0 bs=256K count=32 oflag=direct conv=fsync status=none");
    let before = random::sha256(&target.file());
    target.kill();
    target.up();
    assert_eq!(disk.sha256(), before);
    disk.shell(
        "dd if=/dev/urandom of=$0 bs=256K seek=16 count=32 oflag=direct conv=fsync status=none",
    );
    let after = random::sha256(&target.file());
    assert_ne!(after, before);
    assert_eq!(disk.sha256(), after);
}
