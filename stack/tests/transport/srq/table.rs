//! Creating and destroying SRQs.

use super::{Many, create, init, size};
use crate::sim::{Hand, Setup};
use roce_stack::{
    MAX_SRQS, PostError, QueueLimits, RecvRequest, SrqAttributes, SrqError, SrqInit, SrqStatus,
};

/// A query returns the parameters of an SRQ; sizes out of range are refused.
#[test]
fn an_srq_is_made_as_asked_or_not_at_all() {
    let mut hand = Hand::in_reset(Setup::default());
    let pd = hand.node.pd;
    let mut make = |depth, max_sge| {
        let size = QueueLimits { depth, max_sge };
        let result = hand.node.nic.create_srq(&SrqInit { pd, size });
        result.map(|srq| hand.node.nic.query_srq(srq).expect("just made"))
    };
    for (depth, max_sge) in [(1, 0), (65_536, 1), (7, 32)] {
        let status = SrqStatus {
            size: QueueLimits { depth, max_sge },
            limit: 0,
            posted: 0,
            qps: 0,
        };
        assert_eq!(make(depth, max_sge), Ok(status));
    }
    assert_eq!(make(0, 1), Err(SrqError::BadDepth(0)));
    assert_eq!(make(65_537, 1), Err(SrqError::BadDepth(65_537)));
    assert_eq!(make(1, 33), Err(SrqError::BadMaxSge(33)));
}

/// The number of SRQs is limited; a destroyed one leaves its room to another.
#[test]
fn when_there_are_too_many_there_is_no_further_srq() {
    let mut hand = Hand::in_reset(Setup::default());
    let init = SrqInit {
        pd: hand.node.pd,
        size: size(1),
    };
    let nic = &mut hand.node.nic;
    let made: Vec<_> = std::iter::from_fn(|| nic.create_srq(&init).ok()).collect();
    assert_eq!(made.len(), MAX_SRQS);
    let too_many = SrqError::TooMany { max: MAX_SRQS };
    assert_eq!(nic.create_srq(&init), Err(too_many));
    assert!(too_many.to_string().contains("65536"));
    nic.destroy_srq(made[0]).expect("not in use");
    nic.create_srq(&init).expect("there is room again");
}

/// An SRQ stays as long as QPs use it.
#[test]
fn an_srq_in_use_stays() {
    let mut many = Many::new(2);
    let srq = many.srq;
    many.post(1, &[]);
    for left in [2, 1] {
        assert_eq!(many.status().qps, left);
        let in_use = SrqError::InUse { srq, qps: left };
        assert_eq!(many.hand.node.nic.destroy_srq(srq), Err(in_use));
        assert_eq!(many.status().posted, 1);
        let (qpn, _) = many.qps[left - 1];
        assert!(many.hand.node.nic.destroy_qp(qpn));
        assert!(!many.hand.node.nic.destroy_qp(qpn), "and counts once");
    }
    assert_eq!(many.hand.node.nic.destroy_srq(srq), Ok(()));
    assert!(many.hand.node.nic.query_srq(srq).is_none());
    assert!(
        many.received().is_empty(),
        "the completions of the QP were dropped"
    );
}

/// Errors name the missing object.
#[test]
fn an_unknown_srq_is_named() {
    let mut many = Many::new(0);
    let srq = many.srq;
    let qp_init = init(&many.hand);
    let nic = &mut many.hand.node.nic;
    nic.destroy_srq(srq).expect("not in use");
    let unknown = SrqError::Unknown(srq);
    assert_eq!(nic.destroy_srq(srq), Err(unknown));
    let attributes = SrqAttributes::default();
    assert_eq!(nic.modify_srq(srq, &attributes), Err(unknown));
    assert_eq!(nic.create_qp_with_srq(qp_init, srq), Err(unknown.into()));
    let wr = RecvRequest {
        wr_id: 1,
        sges: &[],
    };
    assert_eq!(nic.post_srq_recv(srq, &wr), Err(PostError::UnknownSrq(srq)));
    let name = srq.to_string();
    assert!(unknown.to_string().contains(&name));
    assert!(PostError::UnknownSrq(srq).to_string().contains(&name));
}

/// A full SRQ accepts no more; each error has the given value and the valid ones.
#[test]
fn a_full_srq_takes_no_more() {
    let mut many = Many::new(0);
    for wr_id in 0..16 {
        many.post(wr_id, &[]);
    }
    let wr = RecvRequest {
        wr_id: 1,
        sges: &[],
    };
    let error = many.hand.node.nic.post_srq_recv(many.srq, &wr);
    assert_eq!(error, Err(PostError::QueueFull { depth: 16 }));
    let srq = many.srq;
    for (error, words) in [
        (
            SrqError::InUse { srq, qps: 3 },
            ["3 queue pairs", "destroy"],
        ),
        (SrqError::BadDepth(0), ["0 entries", "65536"]),
        (SrqError::BadMaxSge(33), ["33", "32"]),
        (SrqError::BadLimit { limit: 9, depth: 8 }, ["9", "8"]),
        (
            SrqError::TooManyPosted {
                depth: 2,
                posted: 3,
            },
            ["2", "3"],
        ),
    ] {
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

/// SRQs are independent, and their numbers have 24 bits.
#[test]
fn srqs_are_apart() {
    let mut many = Many::new(1);
    let pd = many.hand.node.pd;
    let other = many
        .hand
        .node
        .nic
        .create_srq(&SrqInit { pd, size: size(4) });
    let other = other.expect("another SRQ");
    assert_ne!(other, many.srq);
    assert!(other.get() < 1 << 24 && many.srq.get() < 1 << 24);
    let _ = create(&mut many.hand, other);
    many.post(1, &[]);
    let of = |srq| many.hand.node.nic.query_srq(srq).expect("an SRQ");
    assert_eq!((of(other).posted, of(other).qps), (0, 1));
    assert_eq!((of(many.srq).posted, of(many.srq).qps), (1, 1));
}
