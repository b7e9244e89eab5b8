use super::*;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

const LO: Interface<'_> = Interface {
    name: "lo",
    description: "the loopback",
    link_type: LinkType::RawIp,
};

/// The blocks of the capture's file. The test fails if a block is incomplete.
fn blocks(path: &Path) -> Vec<Block<'static>> {
    let mut reader = PcapNgReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut blocks = vec![Block::SectionHeader(reader.section().clone())];
    while let Some(block) = reader.next_block() {
        blocks.push(block.unwrap().into_owned());
    }
    blocks
}

fn packet(interface: InterfaceId, bytes: &[u8]) -> Packet<'_> {
    Packet {
        interface,
        time: UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789),
        direction: Direction::Sent,
        bytes,
        wire_len: bytes.len(),
        comments: &[],
    }
}

#[test]
fn the_file_contains_everything_that_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture::create(dir.path().join("a.pcapng")).unwrap();
    let lo = capture.add_interface(&LO);
    let eth = capture.add_interface(&Interface {
        name: "eth0",
        link_type: LinkType::Ethernet,
        ..LO
    });
    let comments = ["dropped: bad icrc".to_owned(), "größer".to_owned()];
    capture.packet(&Packet {
        direction: Direction::Received,
        wire_len: 99,
        comments: &comments,
        ..packet(eth, &[1, 2, 3])
    });
    capture.packet(&packet(lo, &[4; 8]));
    capture.flush();
    assert_eq!((capture.packets(), capture.failure()), (2, None));

    let blocks = blocks(capture.path());
    assert_eq!(blocks.len(), 5);
    let Block::SectionHeader(section) = &blocks[0] else {
        panic!("{:?}", blocks[0])
    };
    let options = &section.options;
    assert!(options.contains(&SectionHeaderOption::Hardware(
        std::env::consts::ARCH.into()
    )));
    let process = format!("process {}", std::process::id());
    assert!(options.iter().any(
        |option| matches!(option, SectionHeaderOption::UserApplication(text) if text.contains(&process))
    ));
    assert!(options.iter().any(
        |option| matches!(option, SectionHeaderOption::OS(text) if text.starts_with("Linux"))
    ));
    for (block, name, link) in [
        (&blocks[1], "lo", DataLink::RAW),
        (&blocks[2], "eth0", DataLink::ETHERNET),
    ] {
        let Block::InterfaceDescription(interface) = block else {
            panic!("{block:?}")
        };
        assert_eq!(interface.linktype, link);
        let options = &interface.options;
        assert!(options.contains(&InterfaceDescriptionOption::IfName(name.into())));
        assert!(options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
    }
    let Block::EnhancedPacket(first) = &blocks[3] else {
        panic!("{:?}", blocks[3])
    };
    assert_eq!(first.interface_id, 1);
    assert_eq!(first.timestamp, Duration::new(1_700_000_000, 123_456_789));
    assert_eq!((first.original_len, &first.data[..]), (99, &[1, 2, 3][..]));
    let [flags, one, two] = &first.options[..] else {
        panic!("{:?}", first.options)
    };
    assert_eq!(*flags, EnhancedPacketOption::Flags(1));
    assert_eq!(
        *one,
        EnhancedPacketOption::Comment("dropped: bad icrc".into())
    );
    assert_eq!(*two, EnhancedPacketOption::Comment("größer".into()));
    let Block::EnhancedPacket(second) = &blocks[4] else {
        panic!("{:?}", blocks[4])
    };
    assert_eq!(second.options, [EnhancedPacketOption::Flags(2)]);
}

#[test]
fn flushed_packets_are_in_the_file_and_the_buffer_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture::create(dir.path().join("a")).unwrap();
    let lo = capture.add_interface(&LO);
    capture.packet(&packet(lo, &[0; 1000]));
    assert_eq!(blocks(capture.path()).len(), 2, "not flushed yet");
    capture.flush();
    assert_eq!(blocks(capture.path()).len(), 3);
    // Packets reach the file without a flush, too.
    for _ in 0..1000 {
        capture.packet(&packet(lo, &[0; 1000]));
    }
    assert!(capture.packets() > 800, "{}", capture.packets());
    assert_eq!(blocks(capture.path()).len() as u64, 2 + capture.packets());
}

#[test]
fn no_file_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = dir.path().join("run.pcapng");
    fs::write(&wanted, "precious").unwrap();
    let names: Vec<_> = (0..2)
        .map(|_| Capture::create(&wanted).unwrap().path().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            dir.path().join("run-2.pcapng"),
            dir.path().join("run-3.pcapng")
        ]
    );
    assert_eq!(fs::read(&wanted).unwrap(), b"precious");
    let bare = dir.path().join("run");
    fs::write(&bare, "precious").unwrap();
    let second = Capture::create(&bare).unwrap();
    assert_eq!(second.path(), dir.path().join("run-2"));
}

/// Only the user may read captures, and only a capture that belongs to the user is replaced.
#[test]
fn only_captures_are_replaced() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let replaced = Capture::replace(at("new.pcapng")).unwrap();
    assert_eq!(mode(replaced.path()), 0o600);
    let created = Capture::create(at("created.pcapng")).unwrap();
    assert_eq!(mode(created.path()), 0o600);
    let lo = replaced.add_interface(&LO);
    replaced.packet(&packet(lo, &[1]));
    replaced.flush();
    assert_eq!(blocks(replaced.path()).len(), 3);
    // A capture, and an empty file as mktemp(1) makes it.
    fs::write(at("empty"), "").unwrap();
    for name in ["new.pcapng", "empty"] {
        assert_eq!(blocks(Capture::replace(at(name)).unwrap().path()).len(), 1);
    }
    fs::write(at("precious"), "precious").unwrap();
    symlink(at("precious"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    for (name, why) in [
        ("precious", "it is no capture"),
        ("link", "a symbolic link, which is not followed"),
        ("dangling", "a symbolic link, which is not followed"),
    ] {
        let error = Capture::replace(at(name)).unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    // `create` replaces nothing, and takes another name instead.
    for name in ["link", "dangling"] {
        let beside = Capture::create(at(name)).unwrap();
        assert_eq!(beside.path(), at(&format!("{name}-2")));
    }
    assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
    assert!(!at("nowhere").exists());
    if nix::unistd::geteuid().is_root() {
        let others = at("new.pcapng");
        std::os::unix::fs::chown(&others, Some(12345), None).unwrap();
        let error = Capture::replace(&others).unwrap_err().to_string();
        assert!(error.contains("belongs to user 12345"), "{error}");
    }
}

/// Writes about `bytes` bytes in packets of 1000 bytes.
fn fill(capture: &Capture, interface: InterfaceId, bytes: usize) {
    for number in 0..bytes / 1000 {
        let mut data = [0; 1000];
        data[..8].copy_from_slice(&number.to_be_bytes());
        capture.packet(&packet(interface, &data));
    }
    capture.flush();
}

/// The numbers that [`fill`] has put into the packets of a file.
fn numbers(path: &Path) -> Vec<u64> {
    let number = |block: Block<'_>| match block {
        Block::EnhancedPacket(packet) => packet.data.first_chunk().map(|n| u64::from_be_bytes(*n)),
        _ => None,
    };
    blocks(path).into_iter().filter_map(number).collect()
}

#[test]
fn a_capture_ends_at_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("a.pcapng,limit=1M");
    let capture = Capture::from_setting(&name).unwrap();
    assert_eq!(capture.limits().to_string(), "at most 1 MiB");
    assert_eq!(capture.path(), dir.path().join("a.pcapng"));
    let lo = capture.add_interface(&LO);
    fill(&capture, lo, 3 << 20);
    let failure = capture.failure().expect("it has ended");
    assert!(failure.contains("its limit of 1 MiB. "), "{failure}");
    assert!(
        failure.contains("a.pcapng,limit=SIZE allows more"),
        "{failure}"
    );
    let len = fs::metadata(capture.path()).unwrap().len();
    assert!((800 << 10..=1 << 20).contains(&len), "{len}");
    // The file has the first packets, and all of them are complete.
    let numbers = numbers(capture.path());
    assert_eq!(numbers.len() as u64, capture.packets());
    assert!(numbers.into_iter().eq(0..capture.packets()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_ring_keeps_the_latest_files() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("a.pcapng,limit=1M,files=2");
    // A taken name is skipped, even in the middle of the ring.
    fs::write(dir.path().join("a-3.pcapng"), "precious").unwrap();
    let capture = Capture::from_setting(&name).unwrap();
    let lo = capture.add_interface(&LO);
    let eth = capture.add_interface(&Interface { name: "eth0", ..LO });
    fill(&capture, lo, 2 << 20);
    fill(&capture, eth, 2 << 20);
    assert_eq!(capture.failure(), None);
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a-3.pcapng", "a-5.pcapng", "a-6.pcapng"]);
    assert_eq!(
        fs::read(dir.path().join("a-3.pcapng")).unwrap(),
        b"precious"
    );
    // Each file has both interfaces, and together the files have the latest packets.
    let mut latest = Vec::new();
    for name in &names[1..] {
        let path = dir.path().join(name);
        let interfaces = |b: &Block<'_>| matches!(b, Block::InterfaceDescription(_));
        assert_eq!(blocks(&path).iter().filter(|b| interfaces(b)).count(), 2);
        assert!(fs::metadata(&path).unwrap().len() <= 1 << 20);
        latest.extend(numbers(&path));
    }
    let last = (2 << 20) / 1000 - 1;
    assert_eq!(latest.last(), Some(&last));
    assert!(
        latest
            .windows(2)
            .all(|pair| pair[0] + 1 == pair[1] || pair[1] == 0)
    );
}

#[test]
fn percent_p_is_replaced_by_the_process_id() {
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture::create(dir.path().join("a-%p-100%%.pcapng")).unwrap();
    let expected = format!("a-{}-100%.pcapng", std::process::id());
    assert_eq!(capture.path(), dir.path().join(expected));
}

#[test]
fn a_wrong_name_is_reported_with_what_is_valid() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("nowhere/a.pcapng");
    for (name, expected) in [
        ("", "name the file"),
        ("a-%d", "%d stands for nothing: %p is"),
        ("a%", "a % at the end"),
        (folder.to_str().unwrap(), "there is no such folder"),
        (dir.path().to_str().unwrap(), "directory"),
        ("a,limit=1", "1M or more"),
    ] {
        let error = Capture::from_setting(name).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn a_full_disk_is_an_error_of_create() {
    // The first write fails, so `create` reports the full disk.
    let error = Capture::create("/dev/full").unwrap_err().to_string();
    assert!(error.contains("/dev/full: No space left"), "{error}");
}

#[test]
fn a_closed_pipe_ends_the_capture() {
    let (reader, writer) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    let capture = Capture::create(&path).unwrap();
    let lo = capture.add_interface(&LO);
    drop(reader);
    for _ in 0..3 {
        capture.packet(&packet(lo, &[0; 10]));
        capture.flush();
    }
    assert_eq!(capture.packets(), 0);
    let failure = capture.failure().expect("it has ended");
    assert!(failure.contains("ends after 0 packets"), "{failure}");
}

#[test]
fn a_comment_of_any_length_fits() {
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture::create(dir.path().join("a")).unwrap();
    let lo = capture.add_interface(&LO);
    // The limit falls into a character.
    let long = format!("x{}", "ß".repeat(50_000));
    capture.packet(&Packet {
        comments: &[long],
        ..packet(lo, &[0; 3])
    });
    capture.flush();
    assert_eq!(blocks(capture.path()).len(), 3);
}
