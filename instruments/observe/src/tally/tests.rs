use super::*;
use roce_port::MemoryPort;
use roce_port::memory::MemoryIp;
use roce_stack::{Instant, MAD_BYTES, Nic, NicConfig, RoceVersion, TxMeta};
use std::io::Write as _;

fn count_in(tally: &Tally) -> DeviceCount {
    let (_, path) = tally.variable();
    let memory = Memory::open(&path).expect("it can be opened");
    let memory: &'static Memory = Box::leak(Box::new(memory));
    let slot = (0..SLOTS).find(|slot| {
        let owner = &memory.page().slots[*slot].owner;
        owner.compare_exchange(0, 1, Relaxed, Relaxed).is_ok()
    });
    DeviceCount {
        memory,
        slot,
        process: std::process::id(),
        traffic: [0; 4],
    }
}

#[test]
fn bytes_count_while_a_device_is_open_and_afterwards() {
    let tally = Tally::new().expect("made");
    assert_eq!(tally.totals(), Totals::default());
    let mut first = count_in(&tally);
    let mut second = count_in(&tally);
    first.note_traffic([1, 0], (5, 0));
    second.note_traffic([2, 1], (0, 7));
    second.note_qp(true);
    second.note_qp(false);
    let expected = Totals {
        qps: 2,
        connections: 1,
        tx_bytes: 5,
        rx_bytes: 7,
        packets: 3,
        lane_packets: 1,
        ..Totals::default()
    };
    assert_eq!(tally.totals(), expected);
    drop(second);
    assert_eq!(tally.totals(), expected);
    // Its slot is reused.
    let mut third = count_in(&tally);
    assert_eq!(third.slot, Some(1));
    third.note_traffic([1, 0], (1, 0));
    assert_eq!(tally.totals().tx_bytes, 6);
    // A process that is killed runs no destructors.
    std::mem::forget((first, third));
    assert_eq!(tally.totals().tx_bytes, 6);
}

/// A NIC that has made and ended a connection has sent only management datagrams.
#[test]
fn management_datagrams_are_no_traffic() {
    let tally = Tally::new().expect("made");
    let mut count = count_in(&tally);
    let mut nic = Nic::new(&NicConfig {
        seed: [1; 32],
        max_packet_bytes: 4200,
        window_bytes: 1 << 16,
    });
    nic.open_general_services();
    let path = TxMeta {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        traffic_class: 0,
        hop_limit: 64,
        version: RoceVersion::V2,
    };
    nic.send_mad(path, &[0; MAD_BYTES]).expect("QP1 is open");
    let mut port = MemoryPort::new(MemoryIp::V4Numbered, 4200);
    nic.transmit(Instant::ZERO, &mut port);
    assert_eq!(nic.counters().stat(Stat::TxPackets), 1);
    count.note(nic.counters(), 0);
    assert_eq!(tally.totals(), Totals::default());
}

/// Atomics have no payload, but are operations.
#[test]
fn packets_without_payload_are_traffic() {
    let tally = Tally::new().expect("made");
    count_in(&tally).note_traffic([1, 0], (0, 0));
    assert!(tally.totals().has_traffic());
}

#[test]
fn a_forked_copy_of_a_count_adds_nothing() {
    let tally = Tally::new().expect("made");
    let mut count = count_in(&tally);
    count.note_traffic([1, 0], (5, 0));
    let copy = DeviceCount {
        process: count.process + 1,
        ..count
    };
    drop(copy);
    // The parent counts on, in its slot.
    count.note_traffic([1, 0], (6, 0));
    assert_eq!(tally.totals().tx_bytes, 6);
    let next = count_in(&tally);
    assert_eq!((count.slot, next.slot), (Some(0), Some(1)));
}

/// A process of another user may not open the path, but has inherited the descriptor.
#[test]
fn memory_is_found_by_the_descriptor_alone_and_by_the_path_alone() {
    let tally = Tally::new().expect("made");
    let (_, path) = tally.variable();
    let number = tally.file.as_raw_fd();
    Memory::open(format!("/nonexistent/{number}").as_ref()).expect("its descriptor is open");
    // Where the number is closed or leads to another file, the path is used.
    let folder = tempfile::tempdir().expect("a folder");
    let other = std::fs::File::open("/dev/null").expect("it is there");
    for number in [other.as_raw_fd(), -1, i32::MAX] {
        let link = folder.path().join(number.to_string());
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        Memory::open(link.as_os_str()).expect("its path leads to the memory");
    }
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    for bytes in [&b"short"[..], &vec![0; size_of::<memory::Page>()]] {
        std::fs::write(&file, bytes).expect("written");
        assert!(Memory::open(file.as_os_str()).is_err());
    }
    assert!(Memory::open("/dev/zero".as_ref()).is_err());
    assert!(Memory::open("/nonexistent".as_ref()).is_err());
}

/// An access beyond the end of a file kills the process, so nobody may be able to truncate it.
#[test]
fn memory_that_can_be_truncated_is_refused() {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    use nix::sys::memfd::{MFdFlags, memfd_create};

    let open_with = |seals: SealFlag| {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut file = std::fs::File::from(memfd_create(c"test", flags).expect("a memfd"));
        let mut page = vec![0; size_of::<memory::Page>()];
        page[..8].copy_from_slice(b"roce-ta3");
        file.write_all(&page).expect("written");
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("sealed");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Memory::open(path.as_ref()).map(drop)
    };
    for seals in [SealFlag::empty(), SealFlag::F_SEAL_GROW] {
        let error = open_with(seals).expect_err("it can be truncated");
        assert!(error.to_string().contains("truncated"), "{error}");
    }
    open_with(SealFlag::F_SEAL_SHRINK).expect("it can't be truncated");
}
