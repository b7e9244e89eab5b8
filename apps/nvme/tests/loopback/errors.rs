//! Commands that fail, and queues that go on.

use super::{LEN, Rig, nqn};
use roce_nvme::Address;
use roce_nvme::host::{Host, HostOptions, NamespaceInfo};
use roce_nvme::target::{Backing, Subsystem, Target, TargetOptions};
use roce_nvme::wire::Status;
use std::fs::OpenOptions;

/// The status of a read or write of the block at `offset`.
fn status(host: &mut Host, disk: &NamespaceInfo, offset: u64, writes: bool) -> Status {
    let queue = &mut host.queues()[0];
    let buffer = queue.allocate(512).expect("memory");
    let posted = match writes {
        true => queue.write(disk, offset, &buffer, 0..512),
        false => queue.read(disk, offset, &buffer, 0..512),
    };
    let tag = posted.expect("posted");
    queue.wait_for(tag).expect("the queue works").status
}

#[test]
fn a_command_that_fails_leaves_its_queue_working() {
    let rig = Rig::start();
    let mut host = rig.host(1);
    let disk = host.namespaces()[0];
    // Namespaces as a confused host may imagine them.
    let longer = NamespaceInfo {
        blocks: u64::MAX / 512,
        ..disk
    };
    let absent = NamespaceInfo { number: 3, ..disk };
    for writes in [false, true] {
        let beyond = status(&mut host, &longer, LEN as u64, writes);
        assert_eq!(beyond, Status::LBA_OUT_OF_RANGE.do_not_retry());
        let beyond = status(&mut host, &longer, u64::MAX / 512 * 512 - 512, writes);
        assert_eq!(beyond, Status::LBA_OUT_OF_RANGE.do_not_retry());
        let absent = status(&mut host, &absent, 0, writes);
        assert_eq!(absent, Status::INVALID_NAMESPACE.do_not_retry());
        assert_eq!(status(&mut host, &disk, 0, writes), Status::SUCCESS);
    }
    let done = rig.until("counted", |s| s.errors == 6);
    assert_eq!((done.failed, done.connections), (0, 2));
}

/// Commands that cannot succeed are not sent.
#[test]
fn impossible_requests_are_refused_by_the_host() {
    let rig = Rig::start();
    let mut host = rig.host(2);
    let disk = host.namespaces()[0];
    let [first, second] = host.queues() else {
        panic!("two queues were asked for");
    };
    let buffer = first.allocate(4 << 20).expect("memory");
    let most = first.max_transfer();
    for (offset, range, what) in [
        (LEN as u64, 0..512, "beyond the end of a namespace"),
        (LEN as u64 - 512, 0..1024, "beyond the end of a namespace"),
        (u64::MAX - 511, 0..512, "beyond the end of a namespace"),
        (0, 0..0, "no whole blocks"),
        (0, 0..513, "no whole blocks"),
        (256, 0..512, "no whole blocks"),
        (0, 0..most as usize + 512, "more than a command transfers"),
        (0, (4 << 20)..(4 << 20) + 512, "do not lie in a buffer"),
    ] {
        let read = first.read(&disk, offset, &buffer, range.clone());
        let written = first.write(&disk, offset, &buffer, range);
        for error in [read, written].map(|posted| posted.expect_err(what).to_string()) {
            assert!(error.contains(what), "{error}");
        }
    }
    let error = second
        .read(&disk, 0, &buffer, 0..512)
        .expect_err("not its buffer");
    assert!(
        error
            .to_string()
            .contains("a buffer of queue 1 is used with queue 2"),
        "{error}"
    );
    assert_eq!((first.outstanding(), second.outstanding()), (0, 0));
    assert_eq!(host.not_durable(), []);
}

#[test]
fn errors_of_the_file_reach_the_host() {
    let rig = Rig::start();
    let mut host = rig.host(1);
    let disk = host.namespaces()[0];
    let file = OpenOptions::new().write(true).open(rig.file());
    file.and_then(|file| file.set_len(1 << 20)).expect("cut");
    assert_eq!(status(&mut host, &disk, 0, false), Status::SUCCESS);
    let behind = status(&mut host, &disk, 1 << 20, false);
    assert_eq!(behind, Status::UNRECOVERED_READ_ERROR);
    assert_eq!(status(&mut host, &disk, 0, false), Status::SUCCESS);
}

#[test]
fn a_namespace_that_is_read_only_refuses_writes() {
    let rig = Rig::start();
    std::fs::write(rig.folder.path().join("fixed"), [5; 1024]).expect("written");
    let backing = Backing::file(rig.folder.path().join("fixed")).read_only();
    let at = "127.0.0.1:0".parse().expect("an address");
    let subsystem = Subsystem::new(nqn()).with(backing);
    let target = Target::listen(at, subsystem, TargetOptions::default()).expect("it listens");
    let mut host = Host::connect(target.address(), &HostOptions::default()).expect("connected");
    let disk = host.namespaces()[0];
    assert_eq!(status(&mut host, &disk, 512, false), Status::SUCCESS);
    let written = status(&mut host, &disk, 512, true);
    assert_eq!(written, Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
}

#[test]
fn an_unknown_subsystem_is_refused() {
    let rig = Rig::start();
    let name = "nqn.2014-08.org.nvmexpress:another";
    let address = Address {
        at: rig.at,
        subsystem: Some(name.parse().expect("a name")),
    };
    let refused = Host::connect(&address, &HostOptions::default()).expect_err("refused");
    let text = refused.to_string();
    let discover = format!("`nvme-rdma discover nvme://{}`", rig.at);
    for part in ["no such subsystem: ", name, &discover] {
        assert!(text.contains(part), "{part}: {text}");
    }
    rig.until_all_is_free();
}

#[test]
fn a_target_refuses_what_it_cannot_do() {
    let refused = |at: &str, subsystem: Subsystem, options: TargetOptions, why: &str| {
        let at = at.parse().expect("an address");
        let error = Target::listen(at, subsystem, options).expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
    };
    let rig = Rig::start();
    let good = || Subsystem::new(nqn()).with(Backing::memory(1 << 20));
    let taken = rig.at.to_string();
    let options = TargetOptions::default();
    refused(
        &taken,
        good(),
        options,
        &format!("cannot listen at {taken}"),
    );
    let absent = Backing::file(rig.folder.path().join("absent"));
    refused("127.0.0.1:0", good().with(absent), options, "absent");
    let short = TargetOptions {
        queue_memory: 4096,
        ..options
    };
    refused("127.0.0.1:0", good(), short, "cannot hold a transfer");
}
