//! Inline data: copied when it is posted, so that its memory can be reused at once.

use crate::sim::{A, B, Fate, Mem, Pair, Setup, pattern, to_state};
use roce_stack::WcStatus::{Success, WorkRequestFlushed};
use roce_stack::{
    AccessError, MwBind, PostError, QpKind, QpState, SendFlags, SendOp, SendRequest, Sge, WcOpcode,
};

fn inline() -> SendFlags {
    SendFlags::SIGNALED | SendFlags::INLINE
}

fn try_post(pair: &mut Pair, op: SendOp, sges: &[Sge], flags: SendFlags) -> Result<(), PostError> {
    let wr = SendRequest::new(1, op, sges).with_flags(flags);
    let (now, node) = (pair.now, &mut pair.nodes[A]);
    node.nic.post_send(now, node.qpn, &wr)
}

fn ops(to: &Mem) -> [SendOp; 4] {
    [
        SendOp::Send,
        SendOp::SendImm(1),
        SendOp::Write(to.remote(0)),
        SendOp::WriteImm(to.remote(0), 2),
    ]
}

/// The packet has the bytes from the time of posting, also when it is retransmitted.
// shows: 10.7.3-inline
#[test]
fn the_bytes_are_those_at_posting() {
    for kind in [QpKind::Rc, QpKind::Uc] {
        for n in 0..4 {
            for len in [0, 1, 63, 64] {
                let mut pair = Pair::new(Setup {
                    kind,
                    ..Setup::default()
                });
                let from = pair.mem(A, 100);
                let to = pair.mem(B, 100);
                let data = pattern(len as u64, len);
                from.write(0, &data);
                pair.post_recv(B, 7, &[to.sge(0, 100)]);
                let sges = [from.sge(0, len / 3), from.sge(len / 3, len - len / 3)];
                let op = ops(&to)[n];
                assert_eq!(try_post(&mut pair, op, &sges, inline()), Ok(()));
                from.write(0, &[0xee; 100]);
                assert!(pair.nodes[A].nic.deregister(from.key));
                if kind == QpKind::Rc {
                    pair.links[A].hit(&[0], Fate::Drop, |_| true);
                }
                pair.run();
                let sent = pair.assert_sent(A, &[1]);
                assert_eq!(sent[0].byte_len as usize, len);
                assert_eq!(to.read(0, len), data, "{kind} {op:?}");
                assert_eq!(to.read(len, 1), [0]);
            }
        }
    }
}

/// Each request has its own bytes, over several rounds of the queue, among requests without inline
/// data.
// shows: 10.7.3-inline
#[test]
fn requests_do_not_share_their_bytes() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 64);
    let to = pair.mem(B, 64 * 200);
    for n in 0..200_usize {
        let len = n % 65;
        from.write(0, &pattern(n as u64, len));
        let op = SendOp::Write(to.remote(64 * n));
        let flags = if n % 3 == 0 {
            SendFlags::SIGNALED
        } else {
            inline()
        };
        assert_eq!(try_post(&mut pair, op, &[from.sge(0, len)], flags), Ok(()));
        if n % 3 == 0 || n % 50 == 49 {
            pair.run();
            pair.nodes[A].sent();
        }
    }
    pair.run();
    for n in 0..200 {
        let len = n % 65;
        assert_eq!(to.read(64 * n, len), pattern(n as u64, len), "{n}");
    }
}

/// A payload longer than a packet is split as any other is.
#[test]
fn inline_data_may_span_packets() {
    let mut pair = Pair::new(Setup {
        mtu: roce_wire::PathMtu::Mtu256,
        max_inline: 10_000,
        ..Setup::default()
    });
    let from = pair.mem(A, 512);
    let to = pair.mem(B, 512);
    from.write(0, &pattern(1, 512));
    let op = SendOp::Write(to.remote(0));
    let sge = from.sge(0, 512);
    assert_eq!(try_post(&mut pair, op, &[sge], inline()), Ok(()));
    from.write(0, &[0; 512]);
    pair.run();
    assert_eq!(to.read(0, 512), pattern(1, 512));
    assert_eq!(pair.links[A].log.len(), 2);
    let more = [sge, from.sge(0, 1)];
    let too_long = PostError::InlineTooLong {
        bytes: 513,
        max: 512,
    };
    assert_eq!(try_post(&mut pair, op, &more, inline()), Err(too_long));
}

#[test]
fn what_can_not_be_inline_is_refused_at_once() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(A, 100);
    let to = pair.mem(B, 100);
    let remote = to.remote(0);
    let window = {
        let node = &mut pair.nodes[A];
        node.nic.alloc_mw(node.pd, roce_stack::MwType::Type2)
    };
    let bind = MwBind {
        window: window.expect("a window"),
        key: 0,
        lkey: mem.key,
        addr: mem.addr(),
        len: 8,
        access: roce_stack::Access::empty(),
        zero_based: false,
    };
    let add = SendOp::FetchAdd { remote, add: 1 };
    let not = PostError::NotInline;
    let bad_key = Sge {
        lkey: mem.key ^ 1,
        ..mem.sge(0, 8)
    };
    let cases = [
        (SendOp::Read(remote), mem.sge(0, 8), not(WcOpcode::RdmaRead)),
        (add, mem.sge(0, 8), not(WcOpcode::FetchAdd)),
        (SendOp::BindMw(bind), mem.sge(0, 0), not(WcOpcode::BindMw)),
        (
            SendOp::Send,
            mem.sge(0, 65),
            PostError::InlineTooLong { bytes: 65, max: 64 },
        ),
        (
            SendOp::Send,
            bad_key,
            PostError::InlineMemory(AccessError::BadKey),
        ),
        (
            SendOp::Send,
            mem.sge(93, 8),
            PostError::InlineMemory(AccessError::OutOfBounds),
        ),
    ];
    for (op, sge, error) in cases {
        assert_eq!(
            try_post(&mut pair, op, &[sge], inline()),
            Err(error),
            "{op:?}"
        );
    }
    pair.run();
    pair.assert_sent(A, &[]);
    assert_eq!(pair.state(A), QpState::Rts);
}

/// Bytes that are in no region can be sent as inline data.
// shows: 10.7.3-inline
#[test]
fn bytes_need_no_region() {
    let mut pair = Pair::new(Setup::default());
    let to = pair.mem(B, 16);
    let write = SendRequest::write((), to.remote(0)).id(4);
    let text = write.inline(b"no region at all");
    let (now, node) = (pair.now, &mut pair.nodes[A]);
    assert_eq!(node.nic.post_send(now, node.qpn, &text), Ok(()));
    let read = SendRequest::read((), to.remote(0)).inline(&[1; 4]);
    let refused = Err(PostError::NotInline(WcOpcode::RdmaRead));
    assert_eq!(node.nic.post_send(now, node.qpn, &read), refused);
    let too_long = PostError::InlineTooLong { bytes: 65, max: 64 };
    let posted = node.nic.post_send(now, node.qpn, &write.inline(&[0; 65]));
    assert_eq!(posted, Err(too_long));
    pair.run();
    pair.assert_sent_as(A, &[(4, Success)]);
    assert_eq!(to.read(0, 16), b"no region at all");
}

#[test]
fn a_failed_qp_flushes_inline_requests() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(A, 100);
    pair.modify(A, &to_state(QpState::Err));
    let sge = [mem.sge(0, 8)];
    assert_eq!(try_post(&mut pair, SendOp::Send, &sge, inline()), Ok(()));
    pair.assert_sent_as(A, &[(1, WorkRequestFlushed)]);
}
