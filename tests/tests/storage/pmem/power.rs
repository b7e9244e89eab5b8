//! The power of a guest fails, whose files are flushed to persistence: its page cache is lost, and its
//! disk keeps what was written to it.

use super::TIMEOUT;
use super::ours::Ours;
use super::peer::Program;
use roce_tests::lab::{Flavour, Lab, LabConfig};
use roce_verbs::work::{FlushPlacement, FlushSelectivity};
use roce_verbs::{RemoteAddr, WcStatus};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// The size of the file, and the distance between records, each of which is flushed alone.
const LEN: usize = 2 << 20;
const PAGE: usize = 4096;
const RECORDS: usize = 100;
/// The records after which the power fails.
const FLUSHED: usize = 60;

fn run(program: &str, arguments: &[&str], worst: i32) {
    let output = Command::new(program).args(arguments).output();
    let output = output.expect("e2fsprogs is installed");
    let code = output.status.code();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(code.is_some_and(|code| code <= worst), "{program}: {said}");
}

/// A disk with an empty file system.
fn new_disk(image: &Path) {
    let file = File::create_new(image).expect("an image");
    file.set_len(64 << 20).expect("longer");
    run("mkfs.ext4", &["-q", "-F", &image.display().to_string()], 0);
}

/// The bytes of the guest's file after its power has failed: the file system replays its journal.
fn contents(image: &Path, folder: &Path) -> Vec<u8> {
    let image = image.display().to_string();
    // 1: it has corrected something.
    run("e2fsck", &["-f", "-y", &image], 1);
    let copy = folder.join("copy");
    let dump = format!("dump /memory {}", copy.display());
    run("debugfs", &["-R", &dump, &image], 0);
    fs::read(copy).expect("a copy")
}

fn record(number: usize) -> String {
    format!("record-{number:03}")
}

#[test]
fn what_was_acknowledged_is_on_the_disk_when_the_power_fails() {
    let Some(program) = Program::get_or_skip() else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let image = folder.path().join("disk");
    let config = LabConfig {
        flavour: Flavour::PersistentMemory,
        memory_mib: 768,
        boot_timeout: TIMEOUT,
        disk: Some(image.clone()),
        ..LabConfig::default()
    };
    new_disk(&image);
    let Some(lab) = Lab::boot_or_skip(&config) else {
        return;
    };
    let script = "mount -t ext4 /dev/vda /mnt && truncate -s 2M /mnt/memory && sync \
                  && rdma link delete rxe0";
    let prepared = lab.guest(["sh", "-c", script]).output(TIMEOUT);
    prepared.expect("it runs").success().expect("prepared");
    let ours = Ours::open(&lab);
    let mut peer = program.start_on_ours(&lab, &["/mnt/memory", &LEN.to_string()]);
    ours.connect(&lab, &mut peer, RemoteAddr { addr: 0, rkey: 0 });
    for number in 0..RECORDS {
        let at = RemoteAddr {
            addr: peer.addr + (number * PAGE) as u64,
            rkey: peer.rkey,
        };
        let text = record(number);
        assert_eq!(ours.write(at, &text), WcStatus::Success);
        if number < FLUSHED {
            let len = u32::try_from(text.len()).expect("short");
            let range = FlushSelectivity::Range;
            let flushed = ours.flush(at, len, FlushPlacement::PERSISTENCE, range);
            assert_eq!(flushed, WcStatus::Success);
        }
    }
    lab.cut_power();
    drop(lab);
    let found = contents(&image, folder.path());
    for number in 0..FLUSHED {
        let text = record(number);
        let there = found.get(number * PAGE..number * PAGE + text.len());
        assert_eq!(there, Some(text.as_bytes()), "record {number}");
    }
}
