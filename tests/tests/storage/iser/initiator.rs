//! libiscsi on our library, and the kernel's target in the guest.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use roce_tests::lab::{Lab, SharedLab};
use roce_tests::programs::{compiled_by_or_skip, is_installed_or_skip};

use super::lio::{FILE, Lio};
use super::ours::{self, Running};
use super::{Data, INITIATOR, MIB, Network, TIMEOUT, in_guest};

#[test]
fn libiscsi_uses_a_disk_of_the_kernel() {
    libiscsi_uses_a_disk(Network::Good, 16 * MIB);
}

#[test]
fn libiscsi_uses_a_disk_of_the_kernel_although_one_percent_is_lost() {
    libiscsi_uses_a_disk(Network::Lossy, 4 * MIB);
}

fn libiscsi_uses_a_disk(network: Network, length: usize) {
    let Some((lab, copy)) = lab_or_skip() else {
        return;
    };
    let _lio = Lio::start(&lab);
    let data = Data::new(&lab, length);

    // The tools end the session when an answer takes a second, as it does if Soft-RoCE's request is
    // lost. So there is no loss yet.
    assert!(tool(&lab, "iscsi-inq").contains("Vendor:LIO-ORG"));
    let size = format!("Total size:{}", super::lio::DISK);
    assert!(tool(&lab, "iscsi-readcapacity16").contains(&size));
    network.set(&lab);
    // The sizes of requests: eight packets, and as long as libiscsi can.
    for chunk in ["8192", "262144"] {
        in_guest(
            &lab,
            "dd if=/dev/zero of=$1 bs=1M count=32 conv=notrunc",
            &[FILE],
        );
        let mut writer = writing(&lab, &copy, &data, chunk);
        assert!(writer.succeeds(), "{}", writer.said());
        assert_guest_has(&lab, &data, length);
        let back = reading(&lab, &copy, chunk, length);
        data.assert_begins(&back, length);
    }
    network.check(&lab);
}

#[test]
fn a_killed_client_does_not_keep_the_next_one_out() {
    let Some((lab, copy)) = lab_or_skip() else {
        return;
    };
    let _lio = Lio::start(&lab);
    let data = Data::new(&lab, 32 * MIB);
    let mut writer = writing(&lab, &copy, &data, "4096");
    writer.wait_for("something is written", written);
    writer.kill();
    let known = written(&writer).expect("bytes");
    assert!(known < data.bytes.len(), "it was done before it was killed");
    assert_guest_has(&lab, &data, known);

    let data = Data::new(&lab, MIB);
    let mut writer = writing(&lab, &copy, &data, "65536");
    assert!(writer.succeeds(), "{}", writer.said());
    assert_guest_has(&lab, &data, MIB);
    let back = reading(&lab, &copy, "65536", MIB);
    data.assert_begins(&back, MIB);
    // The next session has the name of the killed client's, and takes its place. LIO would not notice
    // otherwise, as it sends no pings over iSER. Only QP1 remains.
    let script = "until test $(rdma resource show qp | grep -vc GSI) = 0; do sleep 0.1; done";
    in_guest(&lab, script, &[]);
}

#[test]
fn a_target_that_stops_fails_requests() {
    let Some((lab, copy)) = lab_or_skip() else {
        return;
    };
    let lio = Lio::start(&lab);
    let data = Data::new(&lab, 32 * MIB);
    let mut command = copy_command(&lab, &copy, "write", "4096");
    command.env("SILENCE", "3");
    let mut writer = start_writing(&lab, command, &data);
    writer.wait_for("something is written", written);
    lio.stop();
    assert!(!writer.succeeds(), "success: {}", writer.said());
    let known = written(&writer).expect("bytes");
    assert_guest_has(&lab, &data, known);
}

/// A lab, and the program of copy.c.
fn lab_or_skip() -> Option<(SharedLab, Program)> {
    let tools = ["iscsi-inq", "iscsi-readcapacity16"];
    if !tools.into_iter().all(is_installed_or_skip) {
        return None;
    }
    if !Path::new("/usr/include/iscsi/iscsi.h").is_file() {
        testkit::skip("libiscsi-dev", "");
        return None;
    }
    let source = "tests/tests/storage/iser/copy.c";
    let program = Program(compiled_by_or_skip("cc", source, &["-liscsi"])?);
    Some((Lab::get_or_skip()?, program))
}

/// A compiled program, deleted when dropped.
struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What a tool of libiscsi prints about the disk.
fn tool(lab: &Lab, name: &str) -> String {
    let mut command = ours::command(lab, "timeout");
    command.args([&TIMEOUT.as_secs().to_string(), name]);
    let output = command.arg(Lio::url()).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn copy_command(lab: &Lab, copy: &Program, what: &str, chunk: &str) -> Command {
    let mut command = ours::command(lab, &copy.0);
    command
        .args([what, &Lio::url(), chunk])
        .env("INITIATOR", INITIATOR)
        .env("SILENCE", "60");
    command
}

/// Starts to write data to the disk, in requests of `chunk` bytes.
fn writing(lab: &Lab, copy: &Program, data: &Data, chunk: &str) -> Running {
    let command = copy_command(lab, copy, "write", chunk);
    start_writing(lab, command, data)
}

fn start_writing(lab: &Lab, mut command: Command, data: &Data) -> Running {
    command.stdin(File::open(&data.file).expect("the data"));
    Running::start(lab, command, "writer.log")
}

/// The bytes from the beginning of the disk that a writer knows to be written.
fn written(writer: &Running) -> Option<usize> {
    let said = writer.said();
    let whole = &said[..said.rfind('\n')?];
    let mut lines = whole.lines().rev();
    lines.find_map(|line| line.strip_prefix("written ")?.parse().ok())
}

/// Reads the disk, and returns the file with what it read.
fn reading(lab: &Lab, copy: &Program, chunk: &str, length: usize) -> PathBuf {
    let mut command = copy_command(lab, copy, "read", chunk);
    let back = lab.directory().join("back");
    let output = command
        .arg(length.to_string())
        .stdout(File::create(&back).expect("a file"))
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{output:?}");
    back
}

/// Asserts that the file behind the disk begins with the first `length` bytes of the data.
#[track_caller]
fn assert_guest_has(lab: &Lab, data: &Data, length: usize) {
    in_guest(
        lab,
        "cmp -n $3 $1 $2",
        &[FILE, &data.in_guest(lab), &length.to_string()],
    );
}
