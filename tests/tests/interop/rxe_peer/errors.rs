//! The result of faulty requests at both sides.

use roce_tests::lab::{HOST_IP4, Lab};
use roce_tests::peer::{Access, Connect, GidIndex, Operation, Region};

use super::{End, LENGTH, TIMEOUT, connected};

/// A faulty request: the target's preparation, and the request.
struct Wrong {
    prepare: fn(&mut End),
    request: fn(&End) -> Operation,
    /// The initiator's completion status.
    initiator: &'static str,
    /// That of the target's receive, if one is posted.
    target: Option<&'static str>,
}

#[test]
fn errors_end_in_their_status_on_both_sides() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let nothing: fn(&mut End) = |_| {};
    let cases = [
        Wrong {
            prepare: |two| two.receive(1, 0, 100),
            request: |two| write_to(two.region.addr, two.region.rkey ^ 0xff),
            initiator: "REM_ACCESS_ERR",
            target: Some("WR_FLUSH_ERR"),
        },
        Wrong {
            prepare: nothing,
            request: |two| write_to(two.region.addr + u64::from(LENGTH) - 99, two.region.rkey),
            initiator: "REM_ACCESS_ERR",
            target: None,
        },
        Wrong {
            prepare: |two| two.region = two.peer.register(4096, Access::LOCAL_WRITE).unwrap(),
            request: |two| Operation::Read {
                addr: two.region.addr,
                rkey: two.region.rkey,
            },
            initiator: "REM_ACCESS_ERR",
            target: None,
        },
        Wrong {
            prepare: |two| two.receive(1, 0, 99),
            request: |_| Operation::Send,
            // rxe deviates here: the specification requires REM_INV_REQ_ERR
            // for the initiator and LOC_LEN_ERR for the target.
            initiator: "REM_OP_ERR",
            target: Some("LOC_QP_OP_ERR"),
        },
        Wrong {
            prepare: nothing,
            request: |_| Operation::Send,
            initiator: "RNR_RETRY_EXC_ERR",
            target: None,
        },
    ];
    for Wrong {
        prepare,
        request,
        initiator,
        target,
    } in cases
    {
        let (mut one, mut two) = connected(&lab, GidIndex::Ip4, |c| c.rnr_retry = 2);
        prepare(&mut two);
        assert_eq!(one.send(request(&two), 0, 100).status, initiator);
        assert_eq!(one.state(), "ERR", "after {initiator}");
        if let Some(target) = target {
            assert_eq!(two.poll().status, target, "beside {initiator}");
        }
        // A missing receive is not an error of the target.
        let state = if initiator == "RNR_RETRY_EXC_ERR" {
            "RTS"
        } else {
            "ERR"
        };
        assert_eq!(two.state(), state, "after {initiator}");
    }
}

fn write_to(addr: u64, rkey: u32) -> Operation {
    Operation::Write { addr, rkey }
}

#[test]
fn a_peer_that_is_gone_is_given_up() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, two) = connected(&lab, GidIndex::Ip4, |c| c.retry_count = 2);
    let Region { addr, rkey, .. } = two.region;
    two.peer.kill().unwrap();
    let completion = one.send(Operation::Write { addr, rkey }, 0, 100);
    assert_eq!(completion.status, "RETRY_EXC_ERR");
}

#[test]
fn an_error_flushes_what_is_queued() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut one, _two) = connected(&lab, GidIndex::Ip4, |_| {});
    for wr_id in 0..3 {
        one.receive(wr_id, 0, 100);
    }
    one.peer.fail_pair(&one.pair).unwrap();
    let flushed = one.peer.poll(&one.pair, 3, TIMEOUT).unwrap();
    let ids: Vec<u64> = flushed.iter().map(|completion| completion.wr_id).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert!(
        flushed
            .iter()
            .all(|completion| completion.status == "WR_FLUSH_ERR"),
        "{flushed:?}"
    );
}

#[test]
fn wrong_calls_are_answered_and_the_peer_lives_on() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut end = End::new(&lab, GidIndex::Ip4);
    let wrong = Connect::new(1, 2, HOST_IP4.to_ipv6_mapped(), 1000);
    let error = end.peer.connect(&end.pair, &wrong).unwrap_err().to_string();
    assert!(error.contains("1000"), "{error}");
    let error = end
        .peer
        .write_memory(&end.region, LENGTH, &[1])
        .unwrap_err()
        .to_string();
    assert!(error.contains("a region of 1048576"), "{error}");
    assert_eq!(end.state(), "RESET");
}
