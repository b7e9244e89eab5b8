use super::*;

#[test]
fn connect_data_have_their_places() {
    let data = ConnectData {
        order: ByteOrder::Little,
        credits: 384,
        mappings: Some(5),
        elements: Element {
            address: 0x0102_0304_0506_0708,
            key: 0x1112_1314,
            len: 2,
        },
        buffer: Element {
            address: 0x2122_2324_2526_2728,
            key: 0x3132_3334,
            len: 65536,
        },
    };
    let bytes = data.encode();
    #[rustfmt::skip]
    let expected = [
        1, 2, 0x01, 0x80, 0, 0, 0, 5,
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 2,
        0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0, 1, 0, 0,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(ConnectData::parse(&bytes), Ok(data));
    let big = ConnectData {
        order: ByteOrder::Big,
        mappings: None,
        ..data
    };
    assert_eq!(big.encode()[1], 1);
    assert_eq!(ConnectData::parse(&big.encode()), Ok(big));
}

#[test]
fn other_private_data_are_refused() {
    let short = ConnectData::parse(&[1; 39]);
    assert_eq!(short, Err(ConnectDataError::Short { len: 39 }));
    let mut bytes = [1; 56];
    bytes[0] = 2;
    assert_eq!(
        ConnectData::parse(&bytes),
        Err(ConnectDataError::Version(2))
    );
    bytes[0] = 1;
    assert!(ConnectData::parse(&bytes).is_ok());
    bytes[20..24].fill(0);
    assert_eq!(
        ConnectData::parse(&bytes),
        Err(ConnectDataError::NoElements)
    );
}

#[test]
fn numbers_of_mappings_are_scaled() {
    for (given, expressed) in [
        (0, 0),
        (1, 1),
        (128, 128),
        (256, 256),
        (300, 256),
        (1023, 768),
        (32512, 32512),
        (65535, 32512),
    ] {
        assert_eq!(private::round_down_mappings(given), expressed, "{given}");
    }
    // Between 129 and 255, only the flag for a large number is left.
    assert_eq!(private::round_down_mappings(200), 128);
}

#[test]
fn messages_have_their_types() {
    for (message, imm) in [
        (Message::Data(0x1234), 0x0000_1234),
        (Message::Data(0x1fff_ffff), 0x1fff_ffff),
        (Message::Credits(0xfffe), 0x8000_fffe),
        (Message::Mapping(3), 0xc000_0003),
        (Message::Control(Control::Disconnect), 0xe000_0000),
        (Message::Control(Control::KeepAlive), 0xe000_0001),
        (Message::Control(Control::Shutdown), 0xe000_0002),
    ] {
        assert_eq!(message.encode(), imm);
        assert_eq!(Message::parse(imm), Ok(message));
    }
    assert_eq!(Message::parse(0x8001_0005), Ok(Message::Credits(5)));
    for unknown in [
        0x2000_0000,
        0x4000_0001,
        0x6000_0000,
        0xa000_0000,
        0xe000_0003,
    ] {
        assert_eq!(Message::parse(unknown), Err(UnknownMessage(unknown)));
    }
}

#[test]
fn elements_are_in_the_order_of_their_reader() {
    let element = Element {
        address: 0x0102_0304_0506_0708,
        key: 0x1112_1314,
        len: 0x2122_2324,
    };
    let little = element.encode(ByteOrder::Little);
    assert_eq!(
        little,
        [
            8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21
        ]
    );
    assert_eq!(Element::parse(&little, ByteOrder::Little), element);
    let big = element.encode(ByteOrder::Big);
    assert_eq!(Element::parse(&big, ByteOrder::Big), element);
    assert_eq!(big[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_mapping_covers_its_offsets_only() {
    let mapping = Mapping {
        offset: 100,
        element: Element {
            address: 0x1000,
            key: 7,
            len: 50,
        },
    };
    let bytes = mapping.encode(ByteOrder::NATIVE);
    assert_eq!(Mapping::parse(&bytes, ByteOrder::NATIVE), mapping);
    assert_eq!(mapping.at(99), None);
    assert_eq!(mapping.at(100), Some((0x1000, 50)));
    assert_eq!(mapping.at(149), Some((0x1031, 1)));
    assert_eq!(mapping.at(150), None);
    let hostile = Mapping {
        offset: u64::MAX,
        element: Element {
            address: u64::MAX,
            key: 0,
            len: u32::MAX,
        },
    };
    assert_eq!(hostile.at(u64::MAX), Some((u64::MAX, u32::MAX)));
    assert_eq!(hostile.at(0), None);
}

fn udp_header(address: &str) -> UdpHeader {
    UdpHeader {
        operation: Operation::Data,
        qpn: 0x12_3456,
        address: address.parse().expect("an address"),
    }
}

fn ud_header(source: &str) -> UdHeader {
    let source = source.parse().expect("an address");
    UdHeader { source }
}

#[test]
fn headers_of_udp_messages_make_the_round_trip() {
    let v4 = udp_header("10.1.2.3");
    assert_eq!(
        v4.encode()[..],
        [
            0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0x12, 0x34, 0x56, 10, 1, 2, 3
        ]
    );
    let control = UdpHeader {
        operation: Operation::Control,
        ..udp_header("2001:db8::7")
    };
    assert_eq!(control.encode()[4..8], [6, 7, 28, 0]);
    for header in [v4, control] {
        let mut message = header.encode().to_vec();
        assert_eq!(message.len(), UdpHeader::len_for(header.address));
        message.extend(b"data");
        assert_eq!(UdpHeader::parse(&message), Ok((header, &b"data"[..])));
    }
}

#[test]
fn headers_of_datagrams_make_the_round_trip() {
    let v4 = ud_header("10.1.2.3:7174");
    assert_eq!(v4.encode()[..], [4, 8, 0x1c, 0x06, 10, 1, 2, 3]);
    let v6 = UdHeader {
        source: std::net::SocketAddrV6::new("fe80::1".parse().expect("an address"), 80, 9, 0)
            .into(),
    };
    assert_eq!(v6.encode()[..9], [6, 24, 0, 80, 0, 0, 0, 9, 0xfe]);
    for header in [v4, v6] {
        let mut payload = header.encode().to_vec();
        assert_eq!(payload.len(), UdHeader::len_for(header.source.ip()));
        payload.extend(b"data");
        assert_eq!(UdHeader::parse(&payload), Ok((header, &b"data"[..])));
    }
}

#[test]
fn wrong_headers_of_datagrams_are_told_apart() {
    let changed = |header: &HeaderBytes, at: usize, value: u8| {
        let mut bytes = header.to_vec();
        bytes[at] = value;
        bytes
    };
    let udp = |at, value| {
        let message = changed(&udp_header("10.1.2.3").encode(), at, value);
        UdpHeader::parse(&message).map(drop)
    };
    assert_eq!(udp(3, 0x54), Err(DatagramError::Tag(0x5555_5554)));
    assert_eq!(udp(4, 5), Err(DatagramError::Version(5)));
    assert_eq!(udp(5, 6), Err(DatagramError::Operation(6)));
    let length = |version, stated, right| DatagramError::Length {
        version,
        stated,
        right,
    };
    assert_eq!(udp(6, 28), Err(length(4, 28, 16)));
    assert_eq!(udp(4, 6), Err(length(6, 16, 28)));
    // Reserved bits are ignored.
    assert_eq!(udp(7, 0xff), Ok(()));
    assert_eq!(udp(8, 0xff), Ok(()));
    let ud = |at, value| {
        let payload = changed(&ud_header("[::1]:7").encode(), at, value);
        UdHeader::parse(&payload).map(drop)
    };
    assert_eq!(ud(0, 0), Err(DatagramError::Version(0)));
    assert_eq!(ud(0, 4), Err(length(4, 24, 8)));
    assert_eq!(ud(1, 23), Err(length(6, 23, 24)));
}

#[test]
fn headers_that_are_cut_are_short() {
    for (address, needed) in [("10.1.2.3", 16), ("::1", 28)] {
        let whole = udp_header(address).encode();
        for len in 0..whole.len() {
            let needed = if len < 12 { 16 } else { needed };
            let short = DatagramError::Short { len, needed };
            assert_eq!(UdpHeader::parse(&whole[..len]), Err(short));
        }
    }
    for (source, needed) in [("10.1.2.3:1", 8), ("[::1]:1", 24)] {
        let whole = ud_header(source).encode();
        for len in 0..whole.len() {
            let needed = if len < 4 { 8 } else { needed };
            let short = DatagramError::Short { len, needed };
            assert_eq!(UdHeader::parse(&whole[..len]), Err(short));
            assert!(short.to_string().contains(&needed.to_string()));
        }
    }
}
