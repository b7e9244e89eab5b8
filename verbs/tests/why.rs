//! Why requests failed, over the loopback.

mod support;

use roce_verbs::memory::AccessError;
use roce_verbs::settings::OpenOptions;
use roce_verbs::why::{Cause, DeniedAccess, Explanation, InWords, WhyOutput, kind_of_code};
use roce_verbs::{Access, SendOp, SendRequest, WcStatus};
use std::time::{Duration, Instant};
use support::{End, LEN};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Two connected ends, of which the first writes `beyond` bytes beyond the region of the second.
fn writes_beyond(last: u8, options: &OpenOptions, beyond: usize) -> (End, End) {
    let (a, b) = (End::open(last, options), End::open(last + 1, options));
    a.connect(&b);
    b.connect(&a);
    let sge = a.region.slice(0, 8).expect("in range");
    let op = SendOp::Write(b.region.remote((LEN - 8 + beyond) as u64));
    for wr_id in [1, 2] {
        a.qp.post_send(&SendRequest::new(wr_id, op, sge))
            .expect("posted");
    }
    (a, b)
}

#[test]
fn both_ends_explain_a_write_beyond_a_region() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("why.txt");
    let options = OpenOptions::new().why(WhyOutput::File(file.clone()));
    let (a, b) = writes_beyond(81, &options, 3);
    let failed =
        a.cq.poll_for(TIMEOUT)
            .expect("no overrun")
            .expect("completed");
    assert_eq!(failed.status, WcStatus::RemoteAccessError);
    let own = a.cq.why(&failed).expect("it has failed");
    let flushed =
        a.cq.poll_for(TIMEOUT)
            .expect("no overrun")
            .expect("completed");
    assert_eq!(flushed.status, WcStatus::WorkRequestFlushed);
    assert_eq!(a.cq.why_code(&flushed), Some(own.failure.cause.code()));

    let peer = b.context.why(b.qp.qpn()).expect("it has failed");
    let words = peer.to_string();
    assert!(
        words.contains("and the access ends 3 bytes past its end"),
        "{words}"
    );
    assert!(
        words.contains(&format!("to QP {} at {}", a.qp.qpn(), a.at)),
        "{words}"
    );
    assert!(words.contains("code      0x414"), "{words}");
    let last = |explanation: &Explanation| {
        let events = explanation.events.iter().rev();
        events
            .map(|event| event.event.clone())
            .take(3)
            .collect::<Vec<_>>()
    };
    let Cause::RefusedAccess { psn } = own.failure.cause else {
        panic!("{own}");
    };
    assert_eq!(
        last(&peer),
        [
            format!("sent RC Acknowledge, PSN {psn}, NAK, remote access error"),
            "state RTS to ERR".to_owned(),
            format!("received RC RDMA WRITE Only, PSN {psn}, 8 bytes: not executed"),
        ]
    );
    assert_eq!(
        last(&own)[..2],
        [
            "state RTS to ERR".to_owned(),
            format!("received RC Acknowledge, PSN {psn}, NAK, remote access error"),
        ]
    );
    // The failure is the origin of the times.
    let times: Vec<f64> = peer.events.iter().map(|event| event.ms).collect();
    assert!(times.is_sorted() && times[0] < 0.0, "{times:?}");
    assert!(words.contains("\n  events    "), "{words}");
    // The thread that drives the peer may still be writing.
    let give_up = Instant::now() + TIMEOUT;
    let written = loop {
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        if written.matches("  code ").count() == 2 || Instant::now() > give_up {
            break written;
        }
        std::thread::yield_now();
    };
    for explanation in [&own, &peer] {
        let heading = format!(
            "roce: QP {} of {}",
            explanation.failure.qpn, explanation.device
        );
        assert_eq!(written.matches(&heading).count(), 1, "{written}");
    }
}

/// Each explanation is a line.
#[test]
fn a_file_of_json_lines_has_the_same_facts() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("why.jsonl");
    let options = OpenOptions::new().why(WhyOutput::File(file.clone()));
    let (a, b) = writes_beyond(91, &options, 3);
    let failed =
        a.cq.poll_for(TIMEOUT)
            .expect("no overrun")
            .expect("completed");
    let own = a.cq.why(&failed).expect("it has failed");
    // The threads that drive the devices may still be writing.
    let give_up = Instant::now() + TIMEOUT;
    let written = loop {
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        if written.lines().count() == 2 || Instant::now() > give_up {
            break written;
        }
        std::thread::yield_now();
    };
    let objects: Vec<serde_json::Value> = written
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |qpn: u32| {
        let mut objects = objects.iter().filter(|object| object["qpn"] == qpn);
        objects.next().unwrap_or_else(|| panic!("{written}"))
    };
    let (requester, responder) = (of(a.qp.qpn().get()), of(b.qp.qpn().get()));
    assert_eq!(requester["status"], "IBV_WC_REM_ACCESS_ERR");
    assert_eq!(requester["why_code"], own.failure.cause.code());
    assert_eq!(requester["why"], InWords(&own.failure.cause).to_string());
    assert_eq!(requester["advice"][0], own.advice[0].as_str());
    let remote = own
        .failure
        .request
        .expect("its own")
        .remote
        .expect("a WRITE");
    assert_eq!(requester["request"]["remote_addr"], remote.addr);
    assert_eq!(responder["event"], "IBV_EVENT_QP_ACCESS_ERR");
    assert_eq!(responder["peer_qpn"], a.qp.qpn().get());
    let events = requester["events"].as_array().expect("events");
    assert_eq!(events[0]["event"], "state RESET to INIT");
    assert!(events[0]["ms"].as_f64().expect("a time") < 0.0, "{written}");
}

#[test]
fn a_success_has_no_cause() {
    let options = OpenOptions::new();
    let (a, b) = (End::open(83, &options), End::open(84, &options));
    a.connect(&b);
    b.connect(&a);
    a.run(SendOp::Write(b.region.remote(0)));
    assert_eq!(a.context.why_code(a.qp.qpn()), None);
}

/// Each cause has a kind, with words for the way in which it occurs.
#[test]
fn every_cause_is_explained() {
    let denied = DeniedAccess {
        error: AccessError::WrongPd,
        key: 1,
        addr: 0,
        len: 1,
        rights: Access::REMOTE_READ,
        region: None,
    };
    for cause in Cause::one_of_each(denied) {
        let kind = kind_of_code(cause.code()).unwrap_or_else(|| panic!("{cause:?}"));
        assert_eq!(
            kind.ways.is_empty(),
            kind.way(cause.code()).is_none(),
            "{cause:?}"
        );
        let has_advice = kind.advice_for(cause.code()).next().is_some();
        assert!(
            has_advice || cause == Cause::Application || kind.number == 0x13,
            "{cause:?}"
        );
        let text = InWords(&cause).to_string();
        assert!(text.len() < 1024, "{text}");
    }
}
