//! Reads, writes and log pages.

use super::*;

#[test]
fn reads_and_writes_that_fit_become_extents() {
    let rig = Rig::new();
    let (mut queue, _admin) = rig.io();
    let extent = Extent {
        namespace: 0,
        offset: (BLOCKS - 8) * 512,
        len: 4096,
    };
    let last = blocks(1, BLOCKS - 8, 8);
    let read = rig.act(&mut queue, at_host(io::read(&last), 4096), &[]);
    let to = keyed(4096);
    assert_eq!(read, Action::Read { extent, to });
    let write = rig.act(&mut queue, at_host(io::write(&last, true), 4096), &[]);
    let durable = true;
    assert_eq!(
        write,
        Action::Write {
            extent,
            data: Data::AtHost(to),
            durable
        }
    );
    let sgl = Sgl::InCapsule {
        offset: 16,
        len: 512,
    };
    let write = io::write(&blocks(1, 0, 1), false).with_sgl(&sgl);
    let write = rig.act(&mut queue, write, &[0; 528]);
    let extent = Extent {
        namespace: 0,
        offset: 0,
        len: 512,
    };
    let data = Data::InCapsule(16..528);
    assert_eq!(
        write,
        Action::Write {
            extent,
            data,
            durable: false
        }
    );
    assert_eq!(rig.act(&mut queue, io::flush(2), &[]), Action::Flush(1..2));
    assert_eq!(
        rig.act(&mut queue, io::flush(u32::MAX), &[]),
        Action::Flush(0..2)
    );
}

#[test]
fn hostile_reads_and_writes_are_refused() {
    let rig = Rig::new();
    let (mut queue, _admin) = rig.io();
    let mut refused = |command: Command, len: u32, status: Status| {
        rig.refuses(&mut queue, at_host(command, len), status);
    };
    let read = |namespace, first, count| io::read(&blocks(namespace, first, count));
    for first in [BLOCKS, BLOCKS - 7, u64::MAX, u64::MAX - 7, 1 << 55] {
        refused(read(1, first, 8), 4096, Status::LBA_OUT_OF_RANGE);
    }
    refused(read(2, u64::MAX, 1), 512, Status::LBA_OUT_OF_RANGE);
    for namespace in [0, 3, u32::MAX] {
        refused(read(namespace, 0, 1), 512, Status::INVALID_NAMESPACE);
        refused(
            io::write(&blocks(namespace, 0, 1), false),
            512,
            Status::INVALID_NAMESPACE,
        );
    }
    for len in [0, 511, 513, 0xff_ffff] {
        refused(read(1, 0, 1), len, Status::DATA_SGL_LENGTH_INVALID);
        refused(
            io::write(&blocks(1, 0, 1), false),
            len,
            Status::DATA_SGL_LENGTH_INVALID,
        );
    }
    refused(read(1, 0, 2049), 2049 * 512, Status::INVALID_FIELD);
    refused(read(2, 0, 65_536), 0, Status::INVALID_FIELD);
    let protected = io::write(&blocks(2, 0, 1), false);
    refused(protected, 512, Status::NAMESPACE_WRITE_PROTECTED);
    refused(io::flush(3), 0, Status::INVALID_NAMESPACE);

    let write = io::write(&blocks(1, 0, 1), false);
    for (offset, data_len) in [(0, 511), (1, 512), (u64::MAX, 512), (u64::MAX - 511, 8192)] {
        let sgl = Sgl::InCapsule { offset, len: 512 };
        let answer = rig.answer(&mut queue, write.with_sgl(&sgl), &vec![0; data_len]);
        assert_eq!(answer.status, Status::SGL_OFFSET_INVALID.do_not_retry());
    }
    // The data that is read does not fit in the capsule.
    let in_capsule = Sgl::InCapsule {
        offset: 0,
        len: 512,
    };
    rig.refuses(
        &mut queue,
        read(1, 0, 1).with_sgl(&in_capsule),
        Status::SGL_TYPE_INVALID,
    );
}

#[test]
fn commands_without_a_good_descriptor_are_refused() {
    let rig = Rig::new();
    let (mut queue, mut admin) = rig.io();
    let mut with = |at: usize, value: u8, status: Status| {
        let read = at_host(io::read(&blocks(1, 0, 1)), 512);
        let mut bytes = *read.bytes();
        bytes[at] = value;
        rig.refuses(&mut queue, Command::from_bytes(bytes), status);
    };
    // The descriptor's type: bit bucket, segment, vendor specific.
    for kind in [0x10, 0x20, 0xf0] {
        with(39, kind, Status::SGL_TYPE_INVALID);
    }
    // Data by PRP, metadata by SGL, part of a fused operation.
    for flags in [0x00, 0x80, 0x41, 0x42] {
        with(1, flags, Status::INVALID_FIELD);
    }
    // Operations that are not there: compare, dataset management.
    for opcode in [0x05, 0x09, 0xff] {
        with(0, opcode, Status::INVALID_OPCODE);
    }
    let identify = at_host(admin::identify(Identify::Controller, 0), 4095);
    rig.refuses(&mut admin, identify, Status::DATA_SGL_LENGTH_INVALID);
    let identify = at_host(admin::identify(Identify::Other(6), 0), 4096);
    rig.refuses(&mut admin, identify, Status::INVALID_FIELD);
    let absent = at_host(admin::identify(Identify::Descriptors, 3), 4096);
    rig.refuses(&mut admin, absent, Status::INVALID_NAMESPACE);
}

#[test]
fn log_pages_have_an_end_and_a_limit() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(DISCOVERY_NQN);
    let page = |offset, len| at_host(admin::log_page(admin::DISCOVERY_LOG, offset, len), len);
    let all = returned(rig.act(&mut admin, page(0, 4096), &[]));
    let header: &[u8; 1024] = all[..1024].try_into().expect("1024 bytes");
    assert_eq!(discovery::parse_header(header), (0, 1));
    let entry = DiscoveryEntry::parse(all[1024..2048].try_into().expect("1024 bytes"));
    assert_eq!(entry.subsystem, SUBSYSTEM);
    assert_eq!(
        (entry.address.as_str(), entry.service.as_str()),
        ("10.0.0.1", "4420")
    );
    assert!(all[2048..].iter().all(|&byte| byte == 0));
    let part = returned(rig.act(&mut admin, page(1024, 1024), &[]));
    assert_eq!(part, all[1024..2048]);
    let beyond = returned(rig.act(&mut admin, page(u64::MAX - 3, 512), &[]));
    assert!(beyond.iter().all(|&byte| byte == 0));
    let health = at_host(admin::log_page(2, 0, 512), 512);
    rig.refuses(&mut admin, health, Status::INVALID_LOG_PAGE);

    let (mut admin, _) = rig.admin(SUBSYSTEM);
    assert_eq!(returned(rig.act(&mut admin, health, &[])), [0; 512]);
    rig.refuses(&mut admin, page(0, 1024), Status::INVALID_LOG_PAGE);
    let huge = at_host(admin::log_page(2, 0, u32::MAX), 0xff_fffc);
    rig.refuses(&mut admin, huge, Status::INVALID_FIELD);
}
