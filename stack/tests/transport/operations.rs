//! Every operation, every size around the path MTU, every path MTU, every kind of IP header: bytes
//! arrive, and both ends get the completions of the operation.

use crate::sim::{A, B, Ip, Mem, Pair, Setup, pattern};
use roce_stack::{Access, SendOp, WcOpcode};
use roce_wire::PathMtu;

fn sizes(mtu: usize) -> [usize; 7] {
    [0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu, 1 << 20]
}

/// Runs `check` for each path MTU, kind of IP header and size.
fn everywhere(check: impl Fn(&mut Pair, usize)) {
    for mtu in PathMtu::ALL {
        for ip in Ip::ALL {
            for len in sizes(mtu.bytes()) {
                let setup = Setup {
                    mtu,
                    ip,
                    ..Setup::default()
                };
                check(&mut Pair::new(setup), len);
            }
        }
    }
}

struct Ends {
    from: Mem,
    to: Mem,
    data: Vec<u8>,
}

/// A source at A filled with a pattern, and a destination at B, with room for a guard byte at its
/// end.
fn ends(pair: &mut Pair, len: usize) -> Ends {
    let from = pair.mem(A, len + 1);
    let to = pair.mem(B, len + 1);
    let data = pattern(len as u64 + 1, len);
    from.write(0, &data);
    to.write(len, &[0xee]);
    Ends { from, to, data }
}

impl Ends {
    #[track_caller]
    fn assert_arrived(&self) {
        let len = self.data.len();
        assert!(self.to.read(0, len) == self.data, "{len} bytes differ");
        assert_eq!(self.to.read(len, 1), [0xee], "the byte behind was touched");
    }
}

/// IBTA 1.7, 9.4.1.
// shows: 9.4.1-send, 9.4.1-one-receive-each, 9.5-received-in-order, 9.7.2-no-bytes
// shows: 11.6.1-receive-length, CA17-22-sent, CA17-25-transport
// trap: odd-sizes
#[test]
fn send_delivers_every_size() {
    everywhere(|pair, len| {
        let ends = ends(pair, len);
        pair.post_recv(B, 7, &[ends.to.sge(0, len)]);
        pair.post(A, 1, SendOp::Send, &[ends.from.sge(0, len)]);
        pair.run();
        let sent = pair.assert_sent(A, &[1]);
        assert_eq!(sent[0].opcode, WcOpcode::Send);
        let received = pair.assert_received(B, &[7]);
        assert_eq!(received[0].opcode, WcOpcode::Recv);
        assert_eq!(received[0].byte_len as usize, len);
        assert_eq!(
            (received[0].imm, received[0].invalidated_rkey),
            (None, None)
        );
        ends.assert_arrived();
    });
}

/// IBTA 1.7, 9.4.1.
// shows: 9.4.1-immediate, 9.7.3-suffix-last
#[test]
fn send_with_immediate_delivers_every_size() {
    everywhere(|pair, len| {
        let ends = ends(pair, len);
        pair.post_recv(B, 7, &[ends.to.sge(0, len)]);
        pair.post(A, 1, SendOp::SendImm(0x0102_0304), &[ends.from.sge(0, len)]);
        pair.run();
        pair.assert_sent(A, &[1]);
        let received = pair.assert_received(B, &[7]);
        assert_eq!(received[0].byte_len as usize, len);
        assert_eq!(received[0].imm, Some(0x0102_0304));
        ends.assert_arrived();
    });
}

/// IBTA 1.7, 9.4.1.1.3.
// shows: 9.4.1.1-invalidate, 9.4.1.1-invalidate-told, 9.7.3-suffix-last
// shows: 9.7.4.1-rkey-invalidated, 10.6.5-invalidated
#[test]
fn send_with_invalidate_delivers_every_size_and_invalidates() {
    everywhere(|pair, len| {
        let ends = ends(pair, len);
        let victim = pair.mem(B, 8);
        pair.post_recv(B, 7, &[ends.to.sge(0, len)]);
        let op = SendOp::SendInvalidate(victim.key);
        pair.post(A, 1, op, &[ends.from.sge(0, len)]);
        pair.run();
        pair.assert_sent(A, &[1]);
        let received = pair.assert_received(B, &[7]);
        assert_eq!(received[0].byte_len as usize, len);
        assert_eq!(received[0].invalidated_rkey, Some(victim.key));
        ends.assert_arrived();
        // The key is not valid for A any more.
        let op = SendOp::Write(victim.remote(0));
        pair.post(A, 2, op, &[ends.from.sge(0, 1)]);
        pair.run();
        pair.assert_sent_as(A, &[(2, roce_stack::WcStatus::RemoteAccessError)]);
    });
}

/// IBTA 1.7, 9.4.3.
// shows: 9.4.3-write, 9.4.3-write-silent, 9.7.3-reth-first
#[test]
fn write_places_every_size() {
    everywhere(|pair, len| {
        let ends = ends(pair, len);
        let op = SendOp::Write(ends.to.remote(0));
        pair.post(A, 1, op, &[ends.from.sge(0, len)]);
        pair.run();
        let sent = pair.assert_sent(A, &[1]);
        assert_eq!(sent[0].opcode, WcOpcode::RdmaWrite);
        pair.assert_received(B, &[]);
        ends.assert_arrived();
    });
}

/// IBTA 1.7, 9.4.3: consumes a receive, whose own memory is unchanged.
// shows: 9.4.3-write-immediate, 11.6.1-write-imm-length
#[test]
fn write_with_immediate_places_every_size() {
    everywhere(|pair, len| {
        let ends = ends(pair, len);
        let unused = pair.mem(B, 8);
        pair.post_recv(B, 7, &[unused.sge(0, 8)]);
        let op = SendOp::WriteImm(ends.to.remote(0), 0xaabb_ccdd);
        pair.post(A, 1, op, &[ends.from.sge(0, len)]);
        pair.run();
        pair.assert_sent(A, &[1]);
        let received = pair.assert_received(B, &[7]);
        assert_eq!(received[0].opcode, WcOpcode::RecvRdmaWithImm);
        assert_eq!(received[0].imm, Some(0xaabb_ccdd));
        assert_eq!(received[0].byte_len as usize, len);
        assert_eq!(unused.word(0), 0);
        ends.assert_arrived();
    });
}

/// IBTA 1.7, 9.4.4.
// shows: 9.4.4-read, 9.4.4-read-response-opcodes, 9.4.4-read-response-full
#[test]
fn read_fetches_every_size() {
    everywhere(|pair, len| {
        // B reads from A, so that the data flows in the same direction as in other tests.
        let ends = ends(pair, len);
        let op = SendOp::Read(ends.from.remote(0));
        pair.post(B, 1, op, &[ends.to.sge(0, len)]);
        pair.run();
        let sent = pair.assert_sent(B, &[1]);
        assert_eq!(sent[0].opcode, WcOpcode::RdmaRead);
        assert_eq!(sent[0].byte_len as usize, len);
        pair.assert_received(A, &[]);
        ends.assert_arrived();
    });
}

/// IBTA 1.7, 9.4.5: the original value is returned, and only a match swaps.
// shows: 9.4.5-compare-swap, 9.4.5-original
#[test]
fn compare_and_swap_swaps_on_a_match_only() {
    for ip in Ip::ALL {
        let mut pair = Pair::new(Setup {
            ip,
            ..Setup::default()
        });
        let result = pair.mem(A, 16);
        let target = pair.mem(B, 16);
        target.set_word(8, 0x1111_2222_3333_4444);
        let op = |compare, swap| SendOp::CompareSwap {
            remote: target.remote(8),
            compare,
            swap,
        };
        pair.post(A, 1, op(0x1111_2222_3333_4444, 5), &[result.sge(0, 8)]);
        pair.post(A, 2, op(0x1111_2222_3333_4444, 6), &[result.sge(8, 8)]);
        pair.run();
        let sent = pair.assert_sent(A, &[1, 2]);
        assert_eq!(sent[0].opcode, WcOpcode::CompareSwap);
        assert_eq!(sent[0].byte_len, 8);
        assert_eq!((result.word(0), result.word(8)), (0x1111_2222_3333_4444, 5));
        assert_eq!((target.word(0), target.word(8)), (0, 5));
    }
}

/// IBTA 1.7, 9.4.5: the original value is returned, the sum wraps.
// shows: 9.4.5-fetch-add, 9.4.5-original
#[test]
fn fetch_and_add_adds_and_wraps() {
    for ip in Ip::ALL {
        let mut pair = Pair::new(Setup {
            ip,
            ..Setup::default()
        });
        let result = pair.mem(A, 16);
        let target = pair.mem(B, 8);
        target.set_word(0, u64::MAX - 1);
        let op = SendOp::FetchAdd {
            remote: target.remote(0),
            add: 3,
        };
        pair.post(A, 1, op, &[result.sge(0, 8)]);
        pair.post(A, 2, op, &[result.sge(8, 8)]);
        pair.run();
        let sent = pair.assert_sent(A, &[1, 2]);
        assert_eq!(sent[0].opcode, WcOpcode::FetchAdd);
        assert_eq!((result.word(0), result.word(8)), (u64::MAX - 1, 1));
        assert_eq!(target.word(0), 4);
    }
}

/// Lists on both sides that split the bytes differently, with empty elements.
// shows: 9.4.1-send-scatter, 9.4.1-send-gather, 9.4.4-read-scatter
#[test]
fn lists_of_elements_are_gathered_and_scattered() {
    let mtu = 1024;
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 10_000);
    let to = pair.mem(B, 10_000);
    let data = pattern(3, 10_000);
    from.write(0, &data);
    let gather = [
        from.sge(100, mtu - 1),
        from.sge(5000, 0),
        from.sge(3000, 1),
        from.sge(7000, mtu + 7),
    ];
    let bytes: Vec<u8> = [
        &data[100..100 + mtu - 1],
        &data[3000..3001],
        &data[7000..7000 + mtu + 7],
    ]
    .concat();
    let scatter = [
        to.sge(0, 3),
        to.sge(5000, mtu),
        to.sge(9000, 0),
        to.sge(2000, mtu + 100),
    ];
    pair.post_recv(B, 7, &scatter);
    pair.post(A, 1, SendOp::Send, &gather);
    pair.post(A, 2, SendOp::Write(to.remote(7000)), &gather);
    pair.run();
    pair.assert_sent(A, &[1, 2]);
    pair.assert_received(B, &[7]);
    let rest = bytes.len() - 3 - mtu;
    let landed = [to.read(0, 3), to.read(5000, mtu), to.read(2000, rest)].concat();
    assert!(landed == bytes, "SEND across elements");
    assert_eq!(
        to.read(2000 + rest, 1),
        [0],
        "the receive's rest is untouched"
    );
    assert!(to.read(7000, bytes.len()) == bytes, "WRITE from elements");
    // And READ into elements, at the gathering side.
    let back = [
        from.sge(0, 1),
        from.sge(5000, 1),
        from.sge(8000, mtu),
        from.sge(20, 40),
    ];
    pair.post(A, 3, SendOp::Read(to.remote(7000)), &back);
    pair.run();
    pair.assert_sent(A, &[3]);
    let landed = [
        from.read(0, 1),
        from.read(5000, 1),
        from.read(8000, mtu),
        from.read(20, 40),
    ];
    assert!(landed.concat() == bytes[..mtu + 42], "READ into elements");
}

/// An atomic's result may be spread over elements, too.
// shows: 9.4.5-result-scattered
#[test]
fn an_atomic_result_is_scattered() {
    let mut pair = Pair::new(Setup::default());
    let result = pair.mem(A, 64);
    let target = pair.mem(B, 8);
    target.set_word(0, 0x0807_0605_0403_0201);
    let op = SendOp::FetchAdd {
        remote: target.remote(0),
        add: 1,
    };
    pair.post(A, 1, op, &[result.sge(0, 3), result.sge(32, 5)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    let landed = [result.read(0, 3), result.read(32, 5)].concat();
    assert_eq!(landed, 0x0807_0605_0403_0201_u64.to_ne_bytes());
}

/// IBTA 1.7, 9.2.3: PSNs have 24 bits and wrap, in mid-message and for every
/// operation.
// shows: 9.7.1-psn-modulo, 9.7.1-initial-psn, A17.4.2-version, CA17-22-sent
// trap: odd-sizes
#[test]
fn psns_wrap() {
    for psn in 0xff_fff0..=0xff_ffff {
        let mut pair = Pair::new(Setup {
            psn: [psn, psn],
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let from = pair.mem(A, 8192);
        let to = pair.mem(B, 8192);
        let data = pattern(u64::from(psn), 2048);
        from.write(0, &data);
        pair.post_recv(B, 7, &[to.sge(2048, 2048)]);
        pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, 2048)]);
        pair.post(A, 2, SendOp::Send, &[from.sge(0, 2048)]);
        pair.post(A, 3, SendOp::Read(to.remote(0)), &[from.sge(2048, 2048)]);
        let add = SendOp::FetchAdd {
            remote: to.remote(8000),
            add: 9,
        };
        pair.post(A, 4, add, &[from.sge(8000, 8)]);
        pair.run();
        pair.assert_sent(A, &[1, 2, 3, 4]);
        pair.assert_received(B, &[7]);
        assert!(to.read(0, 2048) == data && to.read(2048, 2048) == data);
        assert!(from.read(2048, 2048) == data);
        assert_eq!(to.word(8000), 9);
        assert!(pair.links[A].log.iter().any(|sent| sent.psn().get() < 0x10));
    }
}

/// Both directions at once do not disturb each other.
#[test]
fn both_ends_initiate_at_once() {
    let mut pair = Pair::new(Setup::default());
    let mem = [pair.mem(A, 1 << 18), pair.mem(B, 1 << 18)];
    let len = 100_000;
    let data = [pattern(1, len), pattern(2, len)];
    for side in [A, B] {
        mem[side].write(0, &data[side]);
        let source = [mem[side].sge(0, len)];
        pair.post(side, 1, SendOp::Write(mem[1 - side].remote(len)), &source);
    }
    pair.run();
    for side in [A, B] {
        pair.assert_sent(side, &[1]);
        assert!(mem[side].read(len, len) == data[1 - side]);
    }
}

/// Only requests that ask for it get completions, and those stay in order.
// shows: 10.8.5-unsignaled, 10.8.5-unsignaled-frees
#[test]
fn unsignaled_requests_complete_silently() {
    use roce_stack::SendFlags;
    let mut pair = Pair::new(Setup {
        signal_all: false,
        ..Setup::default()
    });
    let from = pair.mem(A, 64);
    let to = pair.mem(B, 64);
    for wr_id in 0..20 {
        let flags = if wr_id % 5 == 4 {
            SendFlags::SIGNALED
        } else {
            SendFlags::empty()
        };
        let op = SendOp::Write(to.remote(0));
        pair.post_with(A, wr_id, op, &[from.sge(0, 8)], flags);
    }
    pair.run();
    pair.assert_sent(A, &[4, 9, 14, 19]);
    assert_eq!(pair.nodes[A].nic.queued(pair.nodes[A].qpn), Some((0, 0)));
}

/// Rights of the region and of the QP that an operation does not need are not checked: SEND needs
/// none at all.
// shows: 9.4.1-no-remote-right
#[test]
fn send_needs_no_remote_rights() {
    let mut pair = Pair::new(Setup {
        access: Access::empty(),
        ..Setup::default()
    });
    let from = pair.nodes[A].mem_with(16, Access::empty());
    let to = pair.nodes[B].mem_with(16, Access::LOCAL_WRITE);
    from.write(0, b"0123456789abcdef");
    pair.post_recv(B, 7, &[to.sge(0, 16)]);
    pair.post(A, 1, SendOp::Send, &[from.sge(0, 16)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    pair.assert_received(B, &[7]);
    assert_eq!(to.read(0, 16), b"0123456789abcdef");
}
