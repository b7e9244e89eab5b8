//! tgtd on our library, and the kernel's initiator in the guest.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use roce_tests::lab::{Drops, GuestChild, GuestStatus, Lab};
use roce_tests::programs::is_installed_or_skip;

use super::open_iscsi::Session;
use super::tgtd::Tgtd;
use super::{Data, INTERVAL, MIB, Network, TIMEOUT, drop_packets, in_guest};

/// Requests fail when there has been no connection for this long, if they shall.
const SOON: Duration = Duration::from_secs(2);
/// The same, if they shall wait for a new connection.
const LATE: Duration = Duration::from_secs(600);

/// Writes a file ($2) to the beginning of a disk ($1), a request after the other, past the page
/// cache, and prints how much is written. Exits with 5 at the first error.
const WRITER: &str = "
import mmap, os, sys
source = open(sys.argv[2], 'rb').read()
data = mmap.mmap(-1, len(source))
data.write(source)
disk = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
step = 65536
try:
    for at in range(0, len(source), step):
        if os.pwrite(disk, memoryview(data)[at:at + step], at) != step:
            sys.exit(6)
        print('written', at + step, flush=True)
except OSError as error:
    print(error)
    sys.exit(5)
";

#[test]
fn the_kernel_uses_a_disk_of_tgtd() {
    the_kernel_uses_a_disk(Network::Good, 16 * MIB, "4m");
}

#[test]
fn the_kernel_uses_a_disk_of_tgtd_although_one_percent_is_lost() {
    the_kernel_uses_a_disk(Network::Lossy, 2 * MIB, "256k");
}

/// Writes `length` bytes, reads them, and compares both ends. Then makes a file system, with files
/// whose blocks fio checks.
fn the_kernel_uses_a_disk(network: Network, length: usize, for_fio: &str) {
    let Some(lab) = lab_or_skip() else { return };
    let tgtd = Tgtd::start(&lab);
    let mut session = Session::open(&lab, &Tgtd::portal(), LATE);
    let data = Data::new(&lab, length);
    network.set(&lab);

    write_and_compare(&lab, &session, &data);
    data.assert_begins(&tgtd.disk, length);
    let (disk, file) = (&session.disk, &data.in_guest(&lab));
    timed("a file system", || {
        in_guest(
            &lab,
            "modprobe ext4
            mkfs.ext4 -q $1
            mkdir -p /mnt/iser
            mount $1 /mnt/iser
            head -c 200000 $2 >/mnt/iser/data
            fio --name=verify --directory=/mnt/iser --size=$3 --rw=randwrite --bs=16k \
                --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --randseed=1
            umount /mnt/iser
            fsck.ext4 -fn $1",
            &[disk, file, for_fio],
        )
    });
    network.check(&lab);
    session.log_out();
    check_file_system(&lab, &tgtd, &data.bytes[..200_000]);
}

/// Outside, the file behind the disk is the same file system, with the same file.
fn check_file_system(lab: &Lab, tgtd: &Tgtd, expected: &[u8]) {
    let copy = lab.directory().join("from-file-system");
    for (program, arguments) in [
        ("fsck.ext4", vec!["-fn".to_owned()]),
        (
            "debugfs",
            vec!["-R".to_owned(), format!("dump /data {}", copy.display())],
        ),
    ] {
        let output = Command::new(program)
            .args(arguments)
            .arg(&tgtd.disk)
            .output()
            .expect("e2fsprogs");
        assert!(output.status.success(), "{output:?}");
    }
    let found = std::fs::read(copy).expect("the file of the file system");
    assert!(found == expected, "the file has other bytes");
}

#[test]
fn a_killed_tgtd_fails_requests_and_a_new_one_serves_the_same_session() {
    let Some(lab) = lab_or_skip() else { return };
    let mut tgtd = Tgtd::start(&lab);
    let session = Session::open(&lab, &Tgtd::portal(), SOON);
    let data = Data::new(&lab, 32 * MIB);

    let mut writer = writing(&lab, &session, &data);
    writer.wait_for_line("written", TIMEOUT).unwrap();
    tgtd.program.kill();
    let written = timed("the writer's end", || failed(writer));
    data.assert_begins(&tgtd.disk, written);

    tgtd.restart();
    timed("a new connection", || session.wait_for_state("LOGGED_IN"));
    let data = Data::new(&lab, MIB);
    write_and_compare(&lab, &session, &data);
    data.assert_begins(&tgtd.disk, MIB);
}

#[test]
fn a_cut_link_delays_requests_until_it_heals() {
    let Some(lab) = lab_or_skip() else { return };
    let tgtd = Tgtd::start(&lab);
    let session = Session::open(&lab, &Tgtd::portal(), LATE);
    let data = Data::new(&lab, 16 * MIB);

    let mut writer = writing(&lab, &session, &data);
    writer.wait_for_line("written", TIMEOUT).unwrap();
    drop_packets(&lab, Drops::PerMille(1000));
    timed("the kernel's notice", || session.wait_for_state("FAILED"));
    drop_packets(&lab, Drops::None);
    let output = timed("the writer's end", || writer.wait(TIMEOUT).unwrap());
    output.success().unwrap();
    data.assert_begins(&tgtd.disk, data.bytes.len());
    one_connection_remains(&lab, &tgtd);
}

#[test]
fn an_initiator_that_vanishes_leaves_nothing_behind() {
    let Some(lab) = lab_or_skip() else { return };
    let tgtd = Tgtd::start(&lab);
    let mut session = Session::open(&lab, &Tgtd::portal(), SOON);
    let data = Data::new(&lab, 32 * MIB);

    let mut writer = writing(&lab, &session, &data);
    writer.wait_for_line("written", TIMEOUT).unwrap();
    // The target hears neither of the session's end nor of the connection's.
    drop_packets(&lab, Drops::PerMille(1000));
    timed("logged out", || session.log_out());
    let written = failed(writer);
    data.assert_begins(&tgtd.disk, written);

    drop_packets(&lab, Drops::None);
    timed("logged in", || session.log_in());
    let data = Data::new(&lab, MIB);
    write_and_compare(&lab, &session, &data);
    data.assert_begins(&tgtd.disk, MIB);
    one_connection_remains(&lab, &tgtd);
}

/// A lab, and the programs of the tests.
fn lab_or_skip() -> Option<roce_tests::lab::SharedLab> {
    let programs = [
        "tgtd",
        "tgtadm",
        "iscsiadm",
        "iscsid",
        "fio",
        "mkfs.ext4",
        "debugfs",
    ];
    if !programs.into_iter().all(is_installed_or_skip) {
        return None;
    }
    Lab::get_or_skip()
}

/// Starts to write data to the session's disk.
fn writing(lab: &Lab, session: &Session, data: &Data) -> GuestChild {
    lab.guest_spawn(["python3", "-c", WRITER, &session.disk, &data.in_guest(lab)])
        .expect("it starts")
}

/// The number of bytes that a writer had written when an error stopped it.
fn failed(writer: GuestChild) -> usize {
    let output = writer.wait(TIMEOUT).unwrap();
    assert_eq!(output.status, GuestStatus::Exited(5), "{output:?}");
    let said = output.stdout_text();
    let written = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("written "));
    written
        .expect("something is written")
        .parse()
        .expect("a number")
}

/// Writes data to the beginning of the disk, and compares what the guest reads, past its cache.
fn write_and_compare(lab: &Lab, session: &Session, data: &Data) {
    timed("written and read", || {
        in_guest(
            lab,
            "dd if=$2 of=$1 bs=512k oflag=direct conv=notrunc status=none
            dd if=$1 bs=512k iflag=direct,count_bytes count=$3 status=none | cmp - $2",
            &[
                &session.disk,
                &data.in_guest(lab),
                &data.bytes.len().to_string(),
            ],
        )
    });
}

/// Waits until tgtd has freed every QP but that of the connection that is used.
fn one_connection_remains(lab: &Lab, tgtd: &Tgtd) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let qps = tgtd.program.qps(lab);
        if let [qp] = &qps[..]
            && qp["now"]["state"] == "RTS"
        {
            return;
        }
        assert!(Instant::now() < end, "{qps:?}\n{}", tgtd.program.said());
        thread::sleep(INTERVAL);
    }
}

/// Does something, and prints how long it took.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{:5.1} s: {what}", start.elapsed().as_secs_f64());
    result
}
