//! The packets of a peer on the wire.

use std::net::UdpSocket;

use roce_tests::lab::{HOST_IP4, Lab};
use roce_tests::peer::{Connect, GidIndex, Operation, SendWork};

use super::{End, TIMEOUT};

#[test]
fn values_are_on_the_wire_as_given() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut end = End::new(&lab, GidIndex::Ip4);
    end.peer.write_memory(&end.region, 0, b"payload!").unwrap();
    let mut connect = Connect::new(0x00_1234, 0x00_5678, HOST_IP4.to_ipv6_mapped(), 1024);
    connect.local_psn = 0x00_9abc;
    end.peer.connect(&end.pair, &connect).unwrap();
    let socket = lab
        .enter(|| UdpSocket::bind((HOST_IP4, 4791)).unwrap())
        .unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();

    let sge = [end.region.part(0, 8)];
    let (addr, rkey) = (0x0102_0304_0506_0708, 0x1112_1314);
    let operations = [
        (
            Operation::SendImm { imm: 0x2122_2324 },
            0x05,
            vec![0x21, 0x22, 0x23, 0x24],
        ),
        (
            Operation::SendInv { key: 0x3132_3334 },
            0x17,
            vec![0x31, 0x32, 0x33, 0x34],
        ),
        (
            Operation::Write { addr, rkey },
            0x0a,
            vec![1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 8],
        ),
    ];
    for (operation, ..) in &operations {
        end.peer
            .send(&end.pair, &SendWork::new(1, *operation, &sge))
            .unwrap();
    }
    // Nothing is acknowledged, so all are retransmitted in order, from the first on.
    let mut buffer = [0; 2048];
    let mut expected = operations.iter().zip(0x9abc_u32..).peekable();
    while let Some(((_, opcode, header), psn)) = expected.peek() {
        let length = socket.recv(&mut buffer).unwrap();
        let (bth, rest) = buffer[..length].split_at(12);
        let received = u32::from_be_bytes([0, bth[9], bth[10], bth[11]]);
        if received == *psn {
            assert_eq!(
                (bth[0], &bth[5..8]),
                (*opcode, [0x00, 0x12, 0x34].as_slice())
            );
            assert_eq!(rest[..header.len()], header[..]);
            assert_eq!(&rest[header.len()..length - 12 - 4], b"payload!");
            expected.next();
        }
    }
}
