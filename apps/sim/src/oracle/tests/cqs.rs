//! Violations that the oracle must detect with small CQs.

use super::assert_violation;
use crate::oracle::*;
use roce_stack::Buffer;
use std::sync::Arc;

fn area() -> Area {
    Area::new(Arc::new(Buffer::new(64).expect("a buffer")))
}

fn areas() -> FlowAreas {
    FlowAreas {
        out: area(),
        target: area(),
        inbox: area(),
    }
}

/// Two receives are posted to side 0, and three for a pool that side 1 takes from.
fn oracle() -> Oracle {
    let mut oracle = Oracle::new();
    oracle.pool_created(7, area(), true);
    let ends = Ends {
        pools: [None, Some(7)],
        ..Ends::default()
    };
    oracle.connected(0, ends, Causes::default(), [areas(), areas()]);
    let recv = PostedRecv { at: 0, len: 4 };
    for _ in 0..2 {
        oracle.posted_recv(0, 0, recv);
    }
    for wr_id in 0..3 {
        oracle.posted_to_pool(7, wr_id, recv);
    }
    oracle
}

fn user(side: usize, sends: bool, receives: bool) -> CqUser {
    CqUser {
        pair: 0,
        side,
        sends,
        receives,
    }
}

#[test]
fn a_cq_overruns_only_if_it_is_too_small() {
    for (room, users) in [
        (1, &[user(0, true, true)][..]),
        (2, &[user(1, false, true)]),
        (4, &[user(0, false, true), user(1, true, true)]),
    ] {
        let mut oracle = oracle();
        oracle.cq_overran(room, users).expect("it may");
        for user in users {
            assert!(oracle.may_be_broken(0, user.side), "{users:?}");
        }
        let mut oracle = self::oracle();
        assert_violation(oracle.cq_overran(room + 1, users), "overran, but");
    }
}

#[test]
fn a_cq_that_overruns_with_completions_of_another() {
    // Receives complete elsewhere.
    assert_violation(
        oracle().cq_overran(1, &[user(0, true, false)]),
        "overran, but 0",
    );
}
