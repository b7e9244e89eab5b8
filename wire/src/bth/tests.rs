use super::*;
use crate::Reason;
use crate::testing::Numbers;

// shows: 9.2.2-solicited-bit, 9.2.3-migreq-bit, 9.2.6-pkey-field, 9.2.7-dest-qpn-field
// shows: 9.2.8-ackreq-bit, 9.2.9-psn-field, 9.2-reserved-zero, A17.4.8-becn
#[test]
fn each_field_is_where_the_specification_puts_it() {
    let zero = [0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let base = Bth::parse(&zero).unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = zero;
        bytes[at] = value;
        Bth::parse(&bytes).unwrap()
    };
    assert_eq!(base.opcode, Opcode::RC_SEND_ONLY);
    assert_eq!(
        with(1, 0x80),
        Bth {
            solicited: true,
            ..base
        }
    );
    assert_eq!(
        with(1, 0x40),
        Bth {
            mig_req: true,
            ..base
        }
    );
    assert_eq!(with(1, 0x20), Bth { pad: 2, ..base });
    assert_eq!(with(1, 0x10), Bth { pad: 1, ..base });
    assert_eq!(
        with(1, 0x0f),
        Bth {
            version: 15,
            ..base
        }
    );
    assert_eq!(
        with(2, 0x12),
        Bth {
            pkey: PKey(0x1200),
            ..base
        }
    );
    assert_eq!(
        with(3, 0x12),
        Bth {
            pkey: PKey(0x0012),
            ..base
        }
    );
    assert_eq!(with(4, 0x80), Bth { fecn: true, ..base });
    assert_eq!(with(4, 0x40), Bth { becn: true, ..base });
    assert_eq!(with(4, 0x3f), base, "reserved");
    assert_eq!(
        with(5, 0x12),
        Bth {
            dest_qpn: Qpn::from_bits(0x120000),
            ..base
        }
    );
    assert_eq!(
        with(7, 0x12),
        Bth {
            dest_qpn: Qpn::from_bits(0x12),
            ..base
        }
    );
    assert_eq!(
        with(8, 0x80),
        Bth {
            ack_req: true,
            ..base
        }
    );
    assert_eq!(with(8, 0x7f), base, "reserved");
    assert_eq!(
        with(9, 0x12),
        Bth {
            psn: Psn::new(0x120000),
            ..base
        }
    );
    assert_eq!(
        with(11, 0x12),
        Bth {
            psn: Psn::new(0x12),
            ..base
        }
    );
}

#[test]
fn round_trip() {
    let mut numbers = Numbers(2);
    for _ in 0..2_000 {
        let mut bytes: [u8; Bth::LEN] = numbers.array();
        let Ok(bth) = Bth::parse(&bytes) else {
            assert_eq!(Opcode::from_byte(bytes[0]), None);
            continue;
        };
        assert_eq!(Bth::dest_qpn_of(&bytes), Some(bth.dest_qpn));
        assert_eq!(Bth::dest_qpn_of(&bytes[..7]), None);
        let mut out = [0xaa; Bth::LEN];
        bth.emit(&mut out);
        bytes[4] &= 0xc0;
        bytes[8] &= 0x80;
        assert_eq!(out, bytes, "all but reserved bits");
    }
}

// shows: 9.2.3-migreq-sent, 9.2.5-version-sent, A16-default-pkey
#[test]
fn defaults_are_what_hardware_expects() {
    let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn::from_bits(5), Psn::new(6));
    let mut bytes = [0; Bth::LEN];
    bth.emit(&mut bytes);
    assert_eq!(bytes, [0x04, 0x40, 0xff, 0xff, 0, 0, 0, 5, 0, 0, 0, 6]);
}

// shows: 9.2.1-unknown-opcode
#[test]
fn errors_say_what_was_found() {
    for len in 0..Bth::LEN {
        let error = Bth::parse(&[0; Bth::LEN][..len]).unwrap_err();
        assert_eq!(error.layer, Layer::Bth);
        assert_eq!(
            error.reason,
            Reason::Truncated {
                available: len as u32,
                needed: 12
            }
        );
    }
    let error = Bth::parse(&[0x15; Bth::LEN]).unwrap_err();
    assert_eq!(
        std::format!("{error}"),
        "BTH opcode: found 0x15, expected an opcode of RC, UC, UD, XRC or CNP"
    );
}
