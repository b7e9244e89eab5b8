//! FLUSH to persistence (IBTA 1.7, Annex A19).

mod disk;
mod pending;
mod rights;
mod soft_roce;

use crate::sim::{A, B, Mem, Pair, Setup, pattern};
use disk::Disk;
use roce_stack::WcStatus::{RemoteAccessError, RemoteOperationError, Success};
use roce_stack::{
    Access, Cause, Event, Flush, QpState, RemoteAddr, SendOp, WcStatus,
    WcStatus::WorkRequestFlushed,
};
use roce_wire::{FlushPlacement, FlushSelectivity};

fn setup() -> Setup {
    Setup {
        access: Access::all(),
        ..Setup::default()
    }
}

fn flush(remote: RemoteAddr, len: u32) -> SendOp {
    SendOp::Flush(Flush {
        remote,
        len,
        placement: FlushPlacement::PERSISTENCE,
        selectivity: FlushSelectivity::Range,
    })
}

fn flush_region(mem: &Mem) -> SendOp {
    SendOp::Flush(Flush {
        remote: RemoteAddr {
            addr: 0,
            rkey: mem.key,
        },
        len: 0,
        placement: FlushPlacement::PERSISTENCE.union(FlushPlacement::GLOBAL_VISIBILITY),
        selectivity: FlushSelectivity::Region,
    })
}

/// Runs until nothing happens any more. Memory becomes durable as soon as the NIC asks for it.
fn run(pair: &mut Pair) {
    loop {
        persist(pair, B);
        if !pair.step() {
            return;
        }
    }
}

/// Makes durable what the NIC asks for.
fn persist(pair: &mut Pair, side: usize) {
    let (now, nic) = (pair.now, &mut pair.nodes[side].nic);
    while let Some(persist) = nic.poll_persist() {
        nic.finish_persist(now, persist.run());
    }
}

/// A range becomes durable, or all of the region, and nothing else.
// shows: A19-flush-persistent, A19-flush-range
#[test]
fn what_a_flush_names_is_durable_when_it_is_answered() {
    for blocks in [false, true] {
        for whole in [false, true] {
            let mut pair = Pair::new(setup());
            let from = pair.mem(A, 3000);
            from.write(0, &pattern(1, 3000));
            let (to, disk) = Disk::register(&mut pair.nodes[B], 3000, blocks);
            let op = match whole {
                true => flush_region(&to),
                false => flush(to.remote(1000), 500),
            };
            pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, 3000)]);
            pair.post(A, 2, op, &[]);
            run(&mut pair);
            pair.assert_sent(A, &[1, 2]);
            let mut expected = pattern(1, 3000);
            if !whole {
                expected[..1000].fill(0);
                expected[1500..].fill(0);
            }
            assert!(disk.after_power_cut() == expected, "{blocks} {whole}");
        }
    }
}

/// Global visibility alone makes nothing durable.
#[test]
fn a_flush_to_visibility_makes_nothing_durable() {
    let mut pair = Pair::new(setup());
    let from = pair.mem(A, 64);
    from.write(0, &pattern(1, 64));
    let (to, disk) = Disk::register(&mut pair.nodes[B], 64, false);
    pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, 64)]);
    let op = SendOp::Flush(Flush {
        remote: to.remote(0),
        len: 64,
        placement: FlushPlacement::GLOBAL_VISIBILITY,
        selectivity: FlushSelectivity::Range,
    });
    pair.post(A, 2, op, &[]);
    run(&mut pair);
    pair.assert_sent(A, &[1, 2]);
    assert_eq!(disk.after_power_cut(), [0; 64]);
}

/// If memory cannot be made durable, its FLUSH fails, and all later FLUSHes fail, too.
// shows: A19-flush-persistent
#[test]
fn what_is_not_durable_is_never_acknowledged() {
    for blocks in [false, true] {
        let mut pair = Pair::new(setup());
        let (to, disk) = Disk::register(&mut pair.nodes[B], 64, blocks);
        disk.break_down();
        pair.post(A, 1, flush(to.remote(0), 64), &[]);
        pair.post(A, 2, flush_region(&to), &[]);
        run(&mut pair);
        pair.assert_sent_as(A, &[(1, RemoteOperationError), (2, WorkRequestFlushed)]);
        assert_eq!(pair.state(B), QpState::Err);
        let node = &pair.nodes[B];
        assert!(node.events.contains(&Event::QpFatal(node.qpn)));
        let failure = node.nic.failure(node.qpn).expect("a failure");
        assert!(matches!(failure.cause, Cause::NotDurable { .. }));
    }
}

/// The result of a FLUSH of A in memory of B.
fn outcome(pair: &mut Pair, op: SendOp) -> WcStatus {
    pair.post(A, 1, op, &[]);
    run(pair);
    let done = pair.nodes[A].sent();
    assert_eq!(done.len(), 1);
    done[0].status
}

/// Ranges are checked exactly, a region only by its key.
// shows: A19-flush-range
#[test]
fn only_bytes_of_the_region_are_flushed() {
    for (offset, len, status) in [
        (0_i64, 64, Success),
        (64, 0, Success),
        (0, 65, RemoteAccessError),
        (-1, 1, RemoteAccessError),
        (0, u32::MAX, RemoteAccessError),
    ] {
        for blocks in [false, true] {
            let mut pair = Pair::new(setup());
            let (mem, _) = Disk::register(&mut pair.nodes[B], 64, blocks);
            let mut remote = mem.remote(0);
            remote.addr = remote.addr.wrapping_add_signed(offset);
            assert_eq!(outcome(&mut pair, flush(remote, len)), status, "{offset}");
        }
    }
    let mut pair = Pair::new(setup());
    let (mut mem, _) = Disk::register(&mut pair.nodes[B], 64, false);
    mem.key ^= 1;
    let status = outcome(&mut pair, flush_region(&mem));
    assert_eq!(status, RemoteAccessError);
}
