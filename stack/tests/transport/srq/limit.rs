//! The limit event, and resizing.

use super::Many;
use roce_stack::{Event, SrqAttributes, SrqError};
use roce_wire::Opcode;

fn events(many: &mut Many) -> Vec<Event> {
    many.hand.node.take_events();
    std::mem::take(&mut many.hand.node.events)
}

fn arm(many: &mut Many, limit: usize) -> Result<(), SrqError> {
    let attributes = SrqAttributes {
        limit: Some(limit),
        ..SrqAttributes::default()
    };
    many.hand.node.nic.modify_srq(many.srq, &attributes)
}

fn resize(many: &mut Many, depth: usize) -> Result<(), SrqError> {
    let attributes = SrqAttributes {
        depth: Some(depth),
        ..SrqAttributes::default()
    };
    many.hand.node.nic.modify_srq(many.srq, &attributes)
}

/// One event when fewer receives are left than the limit; then it must be armed again.
// shows: 10.2.9-srq-limit, 10.2.9-srq-rearm
#[test]
fn the_limit_is_told_once() {
    let mut many = Many::new(2);
    let reached = [Event::SrqLimit(many.srq)];
    for wr_id in 0..6 {
        many.post(wr_id, &[]);
    }
    arm(&mut many, 4).expect("armed");
    assert_eq!(many.status().limit, 4);
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    many.send(1, Opcode::RC_SEND_ONLY, &[]);
    assert!(events(&mut many).is_empty(), "4 are not fewer than 4");
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    assert_eq!(events(&mut many), reached);
    assert_eq!(many.status().limit, 0, "disarmed");
    many.send(1, Opcode::RC_SEND_ONLY, &[]);
    assert!(events(&mut many).is_empty(), "once");
    arm(&mut many, 2).expect("armed");
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    assert_eq!(events(&mut many), reached, "each time that it is set");
    // A receive that a message in progress holds is not available to others.
    many.post(10, &[]);
    arm(&mut many, 2).expect("armed");
    let mem = many.hand.mem(2048);
    many.post(11, &[mem.sge(0, 2048)]);
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    assert!(events(&mut many).is_empty());
}

/// A limit that is already reached raises the event at once; without a limit there is no event.
// shows: 10.2.9-srq-rearm
#[test]
fn a_limit_that_is_reached_is_told_at_once() {
    let mut many = Many::new(1);
    many.post(1, &[]);
    arm(&mut many, 1).expect("armed");
    assert!(events(&mut many).is_empty());
    arm(&mut many, 2).expect("armed");
    assert_eq!(events(&mut many), [Event::SrqLimit(many.srq)]);
    arm(&mut many, 1).expect("armed");
    arm(&mut many, 0).expect("disarmed");
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    assert!(events(&mut many).is_empty());
}

/// The receives stay, in order, with their elements, at any position of the ring.
// shows: 10.2.9-srq-resize
#[test]
fn resizing_keeps_what_is_posted() {
    let mut many = Many::new(1);
    let mem = many.hand.mem(64);
    for wr_id in 0..14 {
        many.post(wr_id, &[]);
        many.send(0, Opcode::RC_SEND_ONLY, &[]);
    }
    many.received();
    for wr_id in 0..5 {
        many.post(wr_id, &[mem.sge(wr_id as usize * 8, 8)]);
    }
    let refused = SrqError::TooManyPosted {
        depth: 4,
        posted: 5,
    };
    assert_eq!(resize(&mut many, 4), Err(refused));
    assert_eq!(many.status().size.depth, 16, "unchanged");
    resize(&mut many, 5).expect("they fit");
    let wr = roce_stack::RecvRequest {
        wr_id: 9,
        sges: &[],
    };
    let error = many.hand.node.nic.post_srq_recv(many.srq, &wr);
    assert_eq!(error, Err(roce_stack::PostError::QueueFull { depth: 5 }));
    resize(&mut many, 100).expect("larger");
    for wr_id in 5..100 {
        many.post(wr_id, &[]);
    }
    assert_eq!(many.status().posted, 100);
    for round in 0..5 {
        many.send(0, Opcode::RC_SEND_ONLY, &[round + 1; 8]);
    }
    for round in 0..5_u8 {
        assert_eq!(mem.read(usize::from(round) * 8, 8), [round + 1; 8]);
    }
    let order: Vec<u64> = many.received().iter().map(|done| done.0).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

/// Depth and limit change together or not at all.
#[test]
fn a_refused_change_changes_nothing() {
    let mut many = Many::new(1);
    for wr_id in 0..3 {
        many.post(wr_id, &[]);
    }
    let before = many.status();
    let mut refused = |depth, limit, error: SrqError| {
        let attributes = SrqAttributes { depth, limit };
        let result = many.hand.node.nic.modify_srq(many.srq, &attributes);
        assert_eq!(result, Err(error));
        assert_eq!(many.hand.node.nic.query_srq(many.srq), Some(before));
    };
    refused(Some(0), None, SrqError::BadDepth(0));
    refused(Some(65_537), Some(1), SrqError::BadDepth(65_537));
    refused(
        Some(2),
        Some(1),
        SrqError::TooManyPosted {
            depth: 2,
            posted: 3,
        },
    );
    refused(Some(8), Some(9), SrqError::BadLimit { limit: 9, depth: 8 });
    refused(
        None,
        Some(17),
        SrqError::BadLimit {
            limit: 17,
            depth: 16,
        },
    );
    assert!(events(&mut many).is_empty());
    // The depth can't be set below an armed limit either.
    arm(&mut many, 3).expect("armed");
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    arm(&mut many, 2).expect("armed");
    for _ in 0..2 {
        many.send(0, Opcode::RC_SEND_ONLY, &[]);
    }
    events(&mut many);
    many.post(1, &[]);
    many.post(2, &[]);
    arm(&mut many, 2).expect("armed");
    resize(&mut many, 2).expect("as deep as the limit");
    assert_eq!(many.status().limit, 2);
}
