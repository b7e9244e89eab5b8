use super::{Capture, CaptureError};
use crate::decode::testing::{Blocks, Order, pcap, pcap_cut, usual_pcap};

/// A record as owned values: time, link type, length on the wire, bytes.
type Owned = (Option<String>, u16, u32, Vec<u8>);

/// All records, and the error that ends them.
fn read(file: &[u8]) -> (Vec<Owned>, Option<CaptureError>) {
    let mut records = Vec::new();
    let mut capture = match Capture::open(file) {
        Ok(capture) => capture,
        Err(error) => return (records, Some(error)),
    };
    loop {
        match capture.next() {
            Ok(Some(record)) => records.push((
                record.time.map(|time| time.to_string()),
                record.link_type,
                record.wire_len,
                record.data.to_vec(),
            )),
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

fn error_of(file: &[u8]) -> String {
    read(file).1.expect("an error").to_string()
}

fn times(file: &[u8]) -> Vec<Option<String>> {
    let (records, error) = read(file);
    assert!(error.is_none(), "{error:?}");
    records.into_iter().map(|record| record.0).collect()
}

const ORDERS: [Order; 2] = [Order::Little, Order::Big];

#[test]
fn pcap_of_either_order_and_resolution() {
    let packets = [vec![1, 2, 3], vec![], vec![4; 100]];
    for order in ORDERS {
        for is_nano in [false, true] {
            let (records, error) = read(&pcap(order, is_nano, 101, &packets));
            assert!(error.is_none(), "{error:?}");
            let bytes: Vec<_> = records.iter().map(|record| &record.3).collect();
            assert_eq!(bytes, packets.iter().collect::<Vec<_>>());
            assert!(records.iter().all(|record| record.1 == 101));
            let times: Vec<_> = records.iter().map(|r| r.0.as_deref().unwrap()).collect();
            assert_eq!(
                times,
                [
                    "1700000000.000001000",
                    "1700000000.000011000",
                    "1700000000.000021000"
                ]
            );
        }
    }
}

#[test]
fn pcap_keeps_the_length_on_the_wire() {
    let (records, _) = read(&pcap_cut(Order::Big, false, 1, &[(&[1, 2], 1000)]));
    assert_eq!((records[0].2, records[0].3.len()), (1000, 2));
}

/// The upper half of the field describes frame check sequences.
#[test]
fn pcap_link_type_is_16_bits() {
    let (records, error) = read(&pcap(Order::Little, false, 0x2400_0001, &[vec![7]]));
    assert!(error.is_none(), "{error:?}");
    assert_eq!(records[0].1, 1);
}

#[test]
fn pcapng_of_either_order() {
    for order in ORDERS {
        let blocks = Blocks(order);
        let mut file = blocks.section();
        file.extend(blocks.interface(1, &[(2, b"eth0")]));
        file.extend(blocks.interface(113, &[(9, &[9]), (0, &[])]));
        // A name resolution block, which is skipped.
        file.extend(blocks.block(4, &[0; 40]));
        file.extend(blocks.packet(0, 1_000_001, &[1, 2, 3]));
        file.extend(blocks.packet(1, 1_000_001, &[4]));
        let (records, error) = read(&file);
        assert!(error.is_none(), "{error:?}");
        let expected = [
            (Some("1.000001000".to_owned()), 1, 3, vec![1, 2, 3]),
            (Some("0.001000001".to_owned()), 113, 1, vec![4]),
        ];
        assert_eq!(records, expected);
    }
}

#[test]
fn pcapng_times() {
    let time = |options: &[(u16, &[u8])], ticks| {
        let blocks = Blocks(Order::Big);
        let mut file = blocks.section();
        file.extend(blocks.interface(1, options));
        file.extend(blocks.packet(0, ticks, &[]));
        times(&file).remove(0).unwrap()
    };
    assert_eq!(time(&[], 1), "0.000001000");
    assert_eq!(time(&[(9, &[0])], 7), "7.000000000");
    assert_eq!(time(&[(9, &[3])], 7), "0.007000000");
    assert_eq!(time(&[(9, &[12])], 1_999), "0.000000001");
    assert_eq!(time(&[(9, &[127])], u64::MAX), "0.000000000");
    assert_eq!(time(&[(9, &[0x80 | 20])], 3 << 19), "1.500000000");
    assert_eq!(time(&[(9, &[0x80])], 5), "5.000000000");
    assert_eq!(time(&[(9, &[0xff])], u64::MAX), "0.000000000");
    assert_eq!(
        time(&[(9, &[0])], u64::MAX),
        "18446744073709551615.000000000"
    );
    let offset = |sec: i64| Order::Big.i64(sec);
    assert_eq!(time(&[(14, &offset(100))], 1), "100.000001000");
    assert_eq!(time(&[(14, &offset(-1))], 1), "-0.999999000");
    // Bytes after the end of the options are not an option.
    assert_eq!(time(&[(0, &[]), (9, &[0])], 1), "0.000001000");
}

#[test]
fn pcapng_simple_and_obsolete_packets() {
    let blocks = Blocks(Order::Little);
    let order = Order::Little;
    let mut file = blocks.section();
    // Snapshot length 4.
    let mut interface = order.u16(1).to_vec();
    interface.extend([0; 2]);
    interface.extend(order.u32(4));
    file.extend(blocks.block(1, &interface));
    let mut simple = order.u32(9).to_vec();
    simple.extend([1, 2, 3, 4]);
    file.extend(blocks.block(3, &simple));
    let mut obsolete = order.u16(0).to_vec();
    obsolete.extend(order.u16(77));
    obsolete.extend(order.u32(0));
    obsolete.extend(order.u32(5));
    obsolete.extend(order.u32(2));
    obsolete.extend(order.u32(60));
    obsolete.extend([8, 9]);
    file.extend(blocks.block(2, &obsolete));
    let (records, error) = read(&file);
    assert!(error.is_none(), "{error:?}");
    let expected = [
        (None, 1, 9, vec![1, 2, 3, 4]),
        (Some("0.000005000".to_owned()), 1, 60, vec![8, 9]),
    ];
    assert_eq!(records, expected);
}

/// A file may be several, one after the other, each with its own order and interfaces.
#[test]
fn pcapng_sections() {
    let mut file = Vec::new();
    for (order, link_type) in [(Order::Little, 1), (Order::Big, 101)] {
        let blocks = Blocks(order);
        file.extend(blocks.section());
        file.extend(blocks.interface(link_type, &[]));
        file.extend(blocks.packet(0, 1, &[link_type as u8]));
    }
    let (records, error) = read(&file);
    assert!(error.is_none(), "{error:?}");
    let links: Vec<_> = records.iter().map(|record| record.1).collect();
    assert_eq!(links, [1, 101]);
}

/// Wherever a file ends, complete records are read, and the rest is reported as missing.
#[test]
fn files_that_end_too_early() {
    let blocks = Blocks(Order::Little);
    let mut pcapng = blocks.section();
    pcapng.extend(blocks.interface(1, &[(9, &[9])]));
    let head = pcapng.len();
    pcapng.extend(blocks.packet(0, 1, &[1, 2, 3]));
    pcapng.extend(blocks.packet(0, 2, &[4]));
    let one = head + 36;
    let pcap = usual_pcap(&[vec![1, 2, 3], vec![4]]);
    for (file, boundaries) in [
        (&pcapng, vec![28, head, one, pcapng.len()]),
        (&pcap, vec![24, 43, pcap.len()]),
    ] {
        for len in 0..=file.len() {
            let (records, error) = read(&file[..len]);
            let whole = boundaries.iter().rev().position(|&at| at <= len);
            let expected = whole.map_or(0, |from_end| 2_usize.saturating_sub(from_end));
            assert_eq!(records.len(), expected, "{len} of {}", file.len());
            match (boundaries.contains(&len), error) {
                (true, error) => assert!(error.is_none(), "{len}: {error:?}"),
                (false, None) => panic!("{len} of {} bytes are taken for whole", file.len()),
                (false, Some(error)) => {
                    assert!(error.to_string().contains("the file ends in"), "{error}");
                    assert!(error.offset <= len as u64);
                }
            }
        }
    }
}

#[test]
fn errors_name_the_field_and_its_offset() {
    assert_eq!(
        error_of(b"not a capture"),
        "at offset 0: found 6e 6f 74 20, expected the magic of pcap (d4 c3 b2 a1, \
         4d 3c b2 a1 or reversed) or of pcapng (0a 0d 0d 0a)"
    );
    assert!(error_of(&[0x1f, 0x8b, 8, 0, 0]).contains("gunzip"));
    assert_eq!(
        error_of(&pcap(Order::Little, false, 147, &[])),
        "at offset 20: link type: found 147 (0x93), expected Ethernet (1), raw IP (12, 14, \
         101), Linux cooked (113), IPv4 (228), IPv6 (229) or Linux cooked v2 (276)"
    );
    let mut file = usual_pcap(&[vec![0; 10]]);
    file[4] = 3;
    assert_eq!(
        error_of(&file),
        "at offset 4: major version: found 3 (0x3), expected 2"
    );
    let mut file = usual_pcap(&[vec![0; 10], vec![0; 10]]);
    file[50 + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        error_of(&file),
        "at offset 58: captured length of a record: found 4294967295 (0xffffffff), expected \
         at most 262144"
    );
    assert_eq!(read(&file).0.len(), 1);
}

#[test]
fn block_errors_name_the_field_and_its_offset() {
    let blocks = Blocks(Order::Little);
    let with = |block: Vec<u8>| {
        let mut file = blocks.section();
        file.extend(blocks.interface(1, &[]));
        assert_eq!(file.len(), 48);
        file.extend(block);
        error_of(&file)
    };
    assert_eq!(
        with(blocks.packet(1, 0, &[1])),
        "at offset 56: interface of a packet: found 1 (0x1), expected less than the 1 described"
    );
    let mut block = blocks.packet(0, 0, &[1]);
    block[20..24].copy_from_slice(&5_u32.to_le_bytes());
    assert_eq!(
        with(block),
        "at offset 48: captured length of a packet: found 5 (0x5), expected at most 4"
    );
    let mut block = blocks.packet(0, 0, &[1]);
    block[4] += 1;
    assert_eq!(
        with(block),
        "at offset 52: length of a block: found 37 (0x25), expected a multiple of 4 from 32"
    );
    let mut block = blocks.packet(0, 0, &[1]);
    block[32] += 4;
    assert_eq!(
        with(block),
        "at offset 80: length at the end of a block: found 40 (0x28), expected 36 as at its \
         start (offset 48)"
    );
    let mut block = blocks.packet(0, 0, &[1]);
    block[4..8].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    assert_eq!(
        with(block),
        "at offset 52: length of a block: found 4294967292 (0xfffffffc), expected at most \
         1048588"
    );
    // A skipped block may have any length, but the file must contain all of it.
    let mut block = blocks.block(4, &[0; 4]);
    block[4..8].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    assert_eq!(
        with(block),
        "at offset 56: the file ends in a block: needs 4294967280 bytes, 8 are left"
    );
    assert_eq!(
        with(blocks.interface(1, &[(9, &[1, 2])])),
        "at offset 66: length of if_tsresol: found 2 (0x2), expected 1"
    );
    let mut block = blocks.interface(1, &[(2, b"eth0")]);
    block[18] = 200;
    assert_eq!(
        with(block),
        "at offset 66: length of an interface's option: found 200 (0xc8), expected at most 4"
    );
    let mut file = blocks.section();
    file[8] = 0;
    assert_eq!(
        error_of(&file),
        "at offset 8: byte-order magic: found 3943194 (0x3c2b1a), expected 0x1a2b3c4d in \
         either order"
    );
}

#[test]
fn interfaces_are_limited() {
    let blocks = Blocks(Order::Big);
    let mut file = blocks.section();
    let interface = blocks.interface(1, &[]);
    for _ in 0..=super::pcapng::MAX_INTERFACES {
        file.extend(&interface);
    }
    assert_eq!(
        error_of(&file),
        format!(
            "at offset {}: interfaces of a section: found 65537 (0x10001), expected at most \
             65536",
            28 + 20 * 65536
        )
    );
}

/// A read error does not count as the end of the file.
#[test]
fn read_errors_are_reported() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is on fire"))
        }
    }
    use std::io::Read as _;
    let file = usual_pcap(&[vec![1, 2, 3]]);
    let mut capture = Capture::open(file.as_slice().chain(Broken)).unwrap();
    assert!(capture.next().unwrap().is_some());
    let error = capture.next().unwrap_err().to_string();
    assert_eq!(error, "at offset 43: cannot read: the disk is on fire");
}
