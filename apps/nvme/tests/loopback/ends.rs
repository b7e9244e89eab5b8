//! Ends that go away in the middle of a write, and come back.

use super::raw::Raw;
use super::{LEN, PATIENCE, Rig};
use roce_nvme::Error;
use roce_nvme::host::{Extent, Host, HostOptions};
use roce_nvme::target::TargetOptions;
use roce_nvme::wire::{Status, admin};
use std::process::{Command, Stdio};
use std::time::Duration;

const MAX: usize = 1 << 20;

/// Whether a range is known not to be durable.
fn covers(extents: &[Extent], at: u64) -> bool {
    let mut ranges = extents.iter().filter(|e| e.namespace == 1);
    ranges.any(|e| e.bytes.start <= at && at + MAX as u64 <= e.bytes.end)
}

#[test]
fn a_target_that_goes_away_costs_no_wrong_success() {
    let mut rig = Rig::start();
    let mut host = rig.host(1);
    let disk = host.namespaces()[0];
    let queue = &mut host.queues()[0];
    let buffer = queue.allocate(MAX).expect("memory");
    buffer.write(0, &[9; MAX]).expect("it fits");
    // One write is durable.
    queue.write(&disk, 0, &buffer, 0..MAX).expect("posted");
    queue.drain().expect("written");
    queue.flush(&disk).expect("posted");
    queue.drain().expect("flushed");

    let mut posted = Vec::new();
    let mut succeeded = Vec::new();
    let mut file = None;
    let mut next = MAX;
    loop {
        while queue.room() > 0 && posted.len() < 16 {
            match queue.write(&disk, next as u64, &buffer, 0..MAX) {
                Ok(tag) => posted.push((tag, next)),
                // Lost commands show below.
                Err(_) => break,
            }
            next = if next + 2 * MAX > LEN {
                MAX
            } else {
                next + MAX
            };
        }
        match queue.wait() {
            Ok(done) => {
                assert!(done.status.is_success(), "{}", done.status);
                let index = posted.iter().position(|p| p.0 == done.tag);
                succeeded.push(posted.swap_remove(index.expect("posted")).1);
            }
            Err(error) => {
                assert!(matches!(error, Error::Lost { .. }), "{error}");
                break;
            }
        }
        // The writes behind this one are under way.
        if succeeded.len() == 8 && file.is_none() {
            rig.down();
            file = Some(std::fs::read(rig.file()).expect("it is there"));
        }
    }
    let error = host.queues()[0].flush(&disk).expect_err("it is lost");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert!(
        succeeded.len() >= 8 && !posted.is_empty(),
        "in the middle of it"
    );
    let unsure = host.not_durable();
    for at in succeeded.iter().copied().chain(posted.iter().map(|p| p.1)) {
        assert!(covers(&unsure, at as u64), "{at} is missing in {unsure:?}");
    }
    assert!(!covers(&unsure, 0), "that was flushed: {unsure:?}");
    let file = file.expect("the target has ended");
    let now = std::fs::read(rig.file()).expect("it is there");
    assert!(file == now, "a target that has ended writes no more");
    for at in succeeded {
        let found = &file[at..at + MAX];
        assert!(found.iter().all(|&byte| byte == 9), "{at} was answered");
    }

    rig.up();
    let mut host = rig.host(1);
    let disk = host.namespaces()[0];
    let queue = &mut host.queues()[0];
    let buffer = queue.allocate(MAX).expect("memory");
    queue.read(&disk, 0, &buffer, 0..MAX).expect("posted");
    queue.drain().expect("read");
    let mut found = vec![0; MAX];
    buffer.read(0, &mut found).expect("it fits");
    assert!(found == [9; MAX], "what was flushed is there");
}

#[test]
fn a_target_that_ends_leaves_nothing_behind() {
    let mut rig = Rig::start();
    let host = rig.host(4);
    rig.down();
    rig.up();
    rig.until_all_is_free();
    drop(host);
    rig.host(4).shutdown().expect("shut down");
    rig.until_all_is_free();
}

#[test]
fn a_host_that_is_dropped_in_the_middle_of_writes_leaves_nothing_behind() {
    let rig = Rig::start();
    for _ in 0..3 {
        let mut host = rig.host(2);
        let disk = host.namespaces()[0];
        for queue in host.queues() {
            let buffer = queue.allocate(MAX).expect("memory");
            for at in 0..16 {
                let at = at * MAX as u64;
                queue.write(&disk, at, &buffer, 0..MAX).expect("posted");
            }
        }
        drop(host);
        rig.until_all_is_free();
    }
}

#[test]
fn a_host_that_is_killed_in_the_middle_of_writes_leaves_nothing_behind() {
    let rig = Rig::start();
    let mut host = Command::new(env!("CARGO_BIN_EXE_nvme-rdma"))
        .args(["bench", &rig.address().to_string()])
        .args(["--mode", "write", "--overwrite", "--block", "1M"])
        .args(["--queues", "2", "--duration", "600"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    rig.until("writing", |s| s.bytes_written > 32 * MAX as u64);
    host.kill().expect("killed");
    host.wait().expect("ended");
    rig.until_all_is_free();
    let mut next = rig.host(2);
    let disk = next.namespaces()[0];
    let queue = &mut next.queues()[0];
    let buffer = queue.allocate(MAX).expect("memory");
    queue.write(&disk, 0, &buffer, 0..MAX).expect("posted");
    queue.drain().expect("written");
}

/// Only the keepalive timeout tells the target of a host that has stopped silently.
#[test]
fn a_host_that_falls_silent_loses_its_controller_and_its_queues() {
    let mut options = TargetOptions::default();
    options.limits.grace = Duration::from_millis(100);
    let rig = Rig::with(options);
    let (admin, controller) = Raw::admin(rig.at);
    let queue = Raw::io(rig.at, 1, controller);
    let timeout = admin::set_feature(admin::KEEP_ALIVE_TIMER, 400);
    admin.send(timeout.bytes());
    assert_eq!(admin.response().expect("answered").status, Status::SUCCESS);
    assert_eq!((admin.response(), queue.response()), (None, None));
    rig.until_all_is_free();
    let failures = rig.target().take_failures();
    let silent = |why: &String| why.contains("silent for more than 500ms");
    assert!(failures.iter().any(silent), "{failures:?}");
}

#[test]
fn a_host_that_keeps_alive_keeps_its_controller() {
    let mut options = TargetOptions::default();
    options.limits.grace = Duration::ZERO;
    let rig = Rig::with(options);
    let options = HostOptions {
        keep_alive: Duration::from_secs(4),
        ..HostOptions::default()
    };
    let host = Host::connect(&rig.address(), &options).expect("connected");
    // Beyond the timeout, only keep-alive commands come.
    let before = rig.target().snapshot().commands;
    let kept = rig.until("kept alive", |s| s.commands >= before + 3);
    assert_eq!((kept.controllers, kept.failed), (1, 0));
    host.check_alive().expect("answered");
    assert!(PATIENCE > 3 * options.keep_alive);
}
