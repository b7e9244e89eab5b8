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
        assert_eq!(private::expressible(given), expressed, "{given}");
    }
    // Between 129 and 255, only the flag for a large number is left.
    assert_eq!(private::expressible(200), 128);
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
