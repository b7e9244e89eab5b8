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

/// The capture's file as blocks; whole, or the test fails.
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
fn what_is_written_is_all_there() {
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
fn what_is_flushed_is_in_the_file_and_memory_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture::create(dir.path().join("a")).unwrap();
    let lo = capture.add_interface(&LO);
    capture.packet(&packet(lo, &[0; 1000]));
    assert_eq!(blocks(capture.path()).len(), 2, "not flushed yet");
    capture.flush();
    assert_eq!(blocks(capture.path()).len(), 3);
    // Without any flush, too, it gets there.
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
    // Unless that is asked for.
    let replaced = Capture::replace(&wanted).unwrap();
    assert_eq!((replaced.path(), blocks(&wanted).len()), (&*wanted, 1));
}

#[test]
fn the_process_is_in_the_name_where_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture::create(dir.path().join("a-%p-100%%.pcapng")).unwrap();
    let expected = format!("a-{}-100%.pcapng", std::process::id());
    assert_eq!(capture.path(), dir.path().join(expected));
}

#[test]
fn a_wrong_name_says_what_would_be_right() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("nowhere/a.pcapng");
    for (name, said) in [
        ("", "name the file"),
        ("a-%d", "%d stands for nothing: %p is"),
        ("a%", "a % at the end"),
        (folder.to_str().unwrap(), "there is no such folder"),
        (dir.path().to_str().unwrap(), "directory"),
    ] {
        let error = Capture::create(name).unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
}

#[test]
fn a_full_disk_ends_the_capture_and_nothing_else() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    // The very first write shows it.
    let error = Capture::create("/dev/full").unwrap_err().to_string();
    assert!(error.contains("/dev/full: No space left"), "{error}");
}

#[test]
fn a_reader_that_leaves_ends_the_capture_and_nothing_else() {
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
