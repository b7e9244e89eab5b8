use std::collections::HashSet;
use std::format;
use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::Layer;

const TRANSPORTS: [Transport; 5] = [
    Transport::Rc,
    Transport::Uc,
    Transport::Ud,
    Transport::Xrc,
    Transport::Cnp,
];

const OPERATIONS: [Operation; 11] = [
    Operation::Send,
    Operation::Write,
    Operation::ReadRequest,
    Operation::ReadResponse,
    Operation::Acknowledge,
    Operation::AtomicAcknowledge,
    Operation::CompareSwap,
    Operation::FetchAdd,
    Operation::Flush,
    Operation::AtomicWrite,
    Operation::Cnp,
];

const POSITIONS: [Position; 4] = [
    Position::First,
    Position::Middle,
    Position::Last,
    Position::Only,
];

const SUFFIXES: [Suffix; 3] = [Suffix::None, Suffix::Immediate, Suffix::Invalidate];

/// The bytes that IBTA 1.7 (table 38 and Annexes A14, A19) and RoCEv2 Annex A17 give
/// to RC, UC, UD, XRC and CNP.
fn is_known(byte: u8) -> bool {
    let rc = |low: u8| matches!(low, 0x00..=0x14 | 0x16 | 0x17 | 0x1c | 0x1d);
    match byte {
        0x00..=0x1f => rc(byte),
        0x20..=0x3f => byte <= 0x2b,
        0x64 | 0x65 | 0x81 => true,
        0xa0..=0xbf => rc(byte - 0xa0),
        _ => false,
    }
}

// shows: 9.2.1-transport-in-opcode, 9.2.1-rc-opcodes, 9.2.1-uc-opcodes, 9.2.1-ud-opcodes
// shows: A14-opcodes, A17.9.3-cnp-opcode, A19-opcodes
#[test]
fn known_bytes_make_the_round_trip_and_others_are_refused() {
    for byte in 0..=255 {
        match Opcode::from_byte(byte) {
            Some(opcode) => {
                assert!(is_known(byte), "{byte:#04x} is {opcode}");
                assert_eq!(opcode.byte(), byte);
                assert_eq!(opcode.info().opcode, opcode);
            }
            None => assert!(!is_known(byte), "{byte:#04x} is missing"),
        }
    }
    assert_eq!(
        Opcode::all().len(),
        (0..=255).filter(|&b| is_known(b)).count()
    );
}

// shows: 9.2.1-transport-in-opcode, 9.2.1-rc-opcodes, 9.2.1-uc-opcodes, 9.2.1-ud-opcodes
// shows: A14-opcodes, A19-opcodes
#[test]
fn properties_name_exactly_one_opcode() {
    let mut found = Vec::new();
    for transport in TRANSPORTS {
        for operation in OPERATIONS {
            for position in POSITIONS {
                for suffix in SUFFIXES {
                    let Some(opcode) = Opcode::new(transport, operation, position, suffix) else {
                        continue;
                    };
                    assert_eq!(opcode.transport(), transport, "{opcode}");
                    assert_eq!(opcode.operation(), operation, "{opcode}");
                    assert_eq!(opcode.position(), position, "{opcode}");
                    assert_eq!(opcode.suffix(), suffix, "{opcode}");
                    found.push(opcode);
                }
            }
        }
    }
    found.sort();
    assert!(found.iter().copied().eq(Opcode::all()));
}

#[test]
fn names_are_unique_and_begin_with_the_transport() {
    let names: HashSet<_> = Opcode::all().map(|opcode| opcode.info().name).collect();
    assert_eq!(names.len(), Opcode::all().len());
    for opcode in Opcode::all() {
        assert!(
            opcode.to_string().starts_with(opcode.transport().name()),
            "{opcode}"
        );
    }
}

#[test]
fn opcodes_and_transports_are_printed_by_name() {
    let transports = [
        (Transport::Rc, "RC"),
        (Transport::Uc, "UC"),
        (Transport::Ud, "UD"),
        (Transport::Xrc, "XRC"),
        (Transport::Cnp, "CNP"),
    ];
    for (transport, name) in transports {
        assert_eq!(transport.to_string(), name);
        assert_eq!(format!("{transport:>5}"), format!("{name:>5}"));
    }
    let opcode = Opcode::RC_SEND_ONLY;
    assert_eq!(format!("{opcode:?}"), "Opcode(RC SEND Only, 0x04)");
}

/// Compares the table's headers with the rules from which the specification derives them.
// shows: 9.2.1-headers-of-opcode, A14-xrceth
#[test]
fn headers_follow_from_the_properties() {
    for opcode in Opcode::all() {
        let (operation, position) = (opcode.operation(), opcode.position());
        let starts = matches!(position, Position::First | Position::Only);
        let has = |header| opcode.info().headers.contains(header);
        assert_eq!(has(Headers::IMM), opcode.has_immediate(), "{opcode}");
        assert_eq!(has(Headers::IETH), opcode.has_invalidate(), "{opcode}");
        assert_eq!(has(Headers::DETH), opcode.transport() == Transport::Ud);
        assert_eq!(
            has(Headers::XRCETH),
            opcode.transport() == Transport::Xrc && opcode.is_request(),
            "{opcode}"
        );
        assert_eq!(
            has(Headers::RETH),
            match operation {
                Operation::Write => starts,
                Operation::ReadRequest | Operation::Flush | Operation::AtomicWrite => true,
                _ => false,
            },
            "{opcode}"
        );
        assert_eq!(
            has(Headers::AETH),
            opcode.is_response() && position != Position::Middle,
            "{opcode}"
        );
        assert_eq!(
            has(Headers::ATOMIC),
            matches!(operation, Operation::CompareSwap | Operation::FetchAdd)
        );
        assert_eq!(
            has(Headers::ATOMIC_ACK),
            operation == Operation::AtomicAcknowledge
        );
        assert_eq!(has(Headers::FETH), operation == Operation::Flush);
        assert_eq!(has(Headers::CNP), opcode == Opcode::CNP);
    }
}

// shows: 9.2.1-payload-of-opcode, A19-atomic-write-payload
#[test]
fn payload_follows_from_the_properties() {
    for opcode in Opcode::all() {
        let carries = matches!(
            opcode.operation(),
            Operation::Send | Operation::Write | Operation::ReadResponse
        );
        let expected = match (opcode.operation(), opcode.position()) {
            (Operation::AtomicWrite, _) => PayloadRule::Eight,
            _ if !carries => PayloadRule::None,
            (_, Position::First | Position::Middle) => PayloadRule::ExactlyMtu,
            (_, Position::Last) => PayloadRule::OneToMtu,
            (_, Position::Only) => PayloadRule::UpToMtu,
        };
        assert_eq!(opcode.info().payload, expected, "{opcode}");
        for len in 0..5000 {
            assert_eq!(
                opcode.info().admits(len),
                expected.admits(len),
                "{opcode} {len}"
            );
        }
    }
}

#[test]
fn a_length_that_a_path_allows_is_allowed_without_knowing_the_path() {
    for opcode in Opcode::all() {
        let rule = opcode.info().payload;
        for len in 0..5000 {
            let somewhere = crate::PathMtu::ALL
                .iter()
                .any(|&mtu| rule.admits_on(len, mtu));
            assert!(rule.admits(len) || !somewhere, "{opcode} {len}");
        }
    }
}

#[test]
fn the_path_mtu_bounds_the_payload() {
    let mtu = crate::PathMtu::Mtu1024;
    let allowed = |rule: PayloadRule| -> Vec<usize> {
        [0, 1, 8, 1023, 1024, 1025]
            .into_iter()
            .filter(|&len| rule.admits_on(len, mtu))
            .collect()
    };
    assert_eq!(allowed(PayloadRule::None), [0]);
    assert_eq!(allowed(PayloadRule::ExactlyMtu), [1024]);
    assert_eq!(allowed(PayloadRule::OneToMtu), [1, 8, 1023, 1024]);
    assert_eq!(allowed(PayloadRule::UpToMtu), [0, 1, 8, 1023, 1024]);
    assert_eq!(allowed(PayloadRule::Eight), [8]);
}

#[test]
fn requests_and_responses_are_apart() {
    for opcode in Opcode::all() {
        let kinds = u8::from(opcode.is_request()) + u8::from(opcode.is_response());
        assert_eq!(kinds, u8::from(opcode != Opcode::CNP), "{opcode}");
    }
}

// shows: 9.2.1-header-order
#[test]
fn header_lengths_add_up() {
    let info = Opcode::XRC_FLUSH.info();
    assert_eq!(info.headers_len, 4 + 4 + 16);
    let layers: Vec<_> = info.headers.iter().map(|(layer, _)| layer).collect();
    assert_eq!(layers, [Layer::XrcEth, Layer::Feth, Layer::Reth]);
    for opcode in Opcode::all() {
        let info = opcode.info();
        let sum: usize = info.headers.iter().map(|(_, len)| len).sum();
        assert_eq!(sum, usize::from(info.headers_len), "{opcode}");
        assert_eq!(sum, info.headers.byte_len(), "{opcode}");
    }
}

// shows: 9.2.1-payload-of-opcode
#[test]
fn packets_of_several_are_never_empty() {
    for opcode in Opcode::all() {
        if opcode.position() != Position::Only {
            assert!(!opcode.info().admits(0), "{opcode}");
            assert!(opcode.info().admits(1), "{opcode}");
        }
    }
}
