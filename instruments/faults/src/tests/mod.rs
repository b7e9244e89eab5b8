mod packets;

use super::*;
use roce_stack::{Completion, WcOpcode, WcStatus};
use std::time::Duration;

fn spec(text: &str) -> FaultSpec {
    text.parse().expect("well-formed")
}

fn parsed(text: &str) -> Faults {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn text_and_value_are_each_others() {
    for text in [
        "post_send:ENOMEM@3",
        "reg_mr:ENOMEM",
        "post_send:slow=1ms@1%",
        "rdma_connect:ETIMEDOUT@1",
        "post_recv:die@4",
        "write:RETRY_EXC_ERR@5",
        "qp2.recv:late=10ms@3..",
        "send:lost@2..4",
        "any:overrun@3",
        "recv:die@7",
        "region:fault@2",
        "request:reject=28@1",
        "request:ignored",
        "port:down@1s..2s",
        "port:down@1500ms",
        "gid:change@1s",
        "device:fatal@250ms",
        "loss=1%,dup=2%,read:REM_ACCESS_ERR@1,seed=7",
    ] {
        assert_eq!(parsed(text).to_string(), text);
    }
    let with_prefixes = parsed(" ibv_post_send:ENOMEM , send:IBV_WC_RNR_RETRY_EXC_ERR@1 ");
    assert_eq!(
        with_prefixes.to_string(),
        "post_send:ENOMEM,send:RNR_RETRY_EXC_ERR@1"
    );
}

#[test]
fn the_builder_makes_what_the_text_says() {
    let post_send = Call::from_name("ibv_post_send").expect("it can fail");
    let late = CompletionFault::Late(Duration::from_millis(10));
    let seconds = Duration::from_secs;
    let built = Faults::new()
        .inject(Injection::call(post_send, CallFault::Error(12)).at(3))
        .inject(Injection::completion(Operation::Recv, late).of_qp(2))
        .inject(Injection::region().at(2))
        .inject(Injection::request(RequestFault::Reject(28)))
        .inject(Injection::timed(
            TimedFault::PortDown,
            seconds(1),
            Some(seconds(2)),
        ))
        .seed(7);
    let text = "post_send:ENOMEM@3,qp2.recv:late=10ms,region:fault@2,request:reject=28,\
                port:down@1s..2s,seed=7";
    assert_eq!(built.to_string(), text);
    assert_eq!(parsed(text), built);
}

/// Each mistake, where it is, and words of what would be right.
#[test]
fn mistakes_are_pointed_at() {
    for (text, at, given, valid) in [
        ("", 1, "", "NAME=VALUE"),
        ("los=1%", 1, "los=1%", "loss, burst"),
        ("loss=1%,lost", 9, "lost", "an injection"),
        ("loss=2,seed=1", 1, "loss=2", "a chance"),
        ("loss=1%,loss=2%", 9, "loss=2%", "each once"),
        ("post_sent:ENOMEM@3", 1, "post_sent", "post_send"),
        (
            "post_send:ENOMEMM@3",
            11,
            "ENOMEMM",
            "an error such as ENOMEM",
        ),
        ("post_send:slow=1@3", 16, "1", "a number with ns, us"),
        ("post_send:ENOMEM@0", 18, "0", "positive"),
        ("post_send:ENOMEM@7..3", 18, "7..3", "a range"),
        ("post_send:ENOMEM@200%", 18, "200%", "a chance"),
        ("post_send:ENOMEM@1s", 18, "1s", "a positive number"),
        ("qp2.post_send:ENOMEM", 1, "qp2", "only completions"),
        ("qp0.send:lost", 1, "qp0", "positive"),
        ("p1.send:lost", 1, "p1", "such as qp2"),
        ("write:RETRY@5", 7, "RETRY", "RETRY_EXC_ERR"),
        ("write:SUCCESS@5", 7, "SUCCESS", "RETRY_EXC_ERR"),
        ("writes:lost", 1, "writes", "write"),
        ("recv:late@3", 6, "late", "late=TIME"),
        ("region:lost", 8, "lost", "fault"),
        ("request:refuse=3", 9, "refuse=3", "reject=REASON"),
        ("request:reject=0", 16, "0", "1 to 65535"),
        ("port:up@1s", 6, "up", "down"),
        ("port:down", 6, "down", "down@1s"),
        ("port:down@3", 11, "3", "@1s..2s"),
        ("port:down@2s..1s", 11, "2s..1s", "@1s..2s"),
        ("gid:change@1s..2s", 12, "1s..2s", "@500ms"),
        ("dup=1%, device:dead@1s", 16, "dead", "fatal"),
        ("loss=1%,ä:b", 9, "ä", "a call"),
        // One character, two bytes.
        ("\u{a0}post_sent:ENOMEM", 2, "post_sent", "post_send"),
    ] {
        let error = text.parse::<Faults>().expect_err(text);
        let place = (error.at, error.given.as_str());
        assert_eq!(place, (at, given), "{text}: {error}");
        assert!(error.valid.contains(valid), "{text}: {error}");
    }
}

/// Which of `count` matches an injection strikes.
fn struck(text: &str, count: u64) -> Vec<u64> {
    let faults = parsed(text);
    let seed = faults.network().seed.unwrap_or_default();
    let judge = Judge::new(faults, seed);
    let strikes = |_: &u64| judge.strike(|_| Some(())).is_some();
    (1..=count).filter(strikes).collect()
}

#[test]
fn injections_strike_when_they_say() {
    assert_eq!(struck("reg_mr:ENOMEM", 3), [1, 2, 3]);
    assert_eq!(struck("reg_mr:ENOMEM@2", 4), [2]);
    assert_eq!(struck("reg_mr:ENOMEM@3..", 5), [3, 4, 5]);
    assert_eq!(struck("reg_mr:ENOMEM@2..3", 5), [2, 3]);
}

#[test]
fn each_order_has_draws_of_its_own() {
    let judge = Judge::new(parsed("send:lost@50%,recv:lost@50%"), 7);
    let strikes = |wanted: Operation| -> Vec<bool> {
        let of = |injection: &Injection| match injection.what {
            Target::Completion(of, _) if of == wanted => Some(()),
            _ => None,
        };
        (0..64).map(|_| judge.strike(of).is_some()).collect()
    };
    assert_ne!(strikes(Operation::Send), strikes(Operation::Recv));
}

/// Of two injections that match, the first one strikes. Both count.
#[test]
fn injections_count_what_others_strike() {
    assert_eq!(struck("send:lost@2,any:late=1s@2", 4), [2]);
}

#[test]
fn one_seed_strikes_the_same_matches_and_another_one_others() {
    let of_seed = |seed: u64| struck(&format!("reg_mr:ENOMEM@10%,seed={seed}"), 1000);
    assert_eq!(of_seed(7), of_seed(7));
    assert_ne!(of_seed(7), of_seed(8));
    let often = of_seed(7).len();
    assert!((50..200).contains(&often), "{often}");
    // Other injections do not shift the draws.
    let alone = struck("reg_mr:ENOMEM@10%,seed=7", 100);
    let judge = Judge::new(parsed("reg_mr:ENOMEM@10%,send:lost@50%"), 7);
    let of_calls = |injection: &Injection| matches!(injection.what, Target::Call(..)).then_some(());
    let of_sends =
        |injection: &Injection| matches!(injection.what, Target::Completion(..)).then_some(());
    let strikes = |_: &u64| {
        judge.strike(of_sends);
        judge.strike(of_calls).is_some()
    };
    let beside: Vec<u64> = (1..=100).filter(strikes).collect();
    assert_eq!(beside, alone);
}

#[test]
fn each_opcode_is_one_of_those_that_its_order_names() {
    for opcode in WcOpcode::ALL {
        let names: Vec<_> = Operation::ALL
            .iter()
            .filter(|of| of.includes(*opcode))
            .collect();
        // A FLUSH and an invalidation are only among all.
        let others = matches!(opcode, WcOpcode::Flush | WcOpcode::LocalInv);
        assert_eq!(names.len(), if others { 1 } else { 2 }, "{opcode:?}");
    }
}

#[test]
fn injections_of_one_qp_count_its_completions_only() {
    use crate::{CompletionFate, CompletionFaults as _};
    use roce_stack::{Nic, NicConfig};
    let config = NicConfig {
        seed: [0; 32],
        max_packet_bytes: 1500,
        window_bytes: 4096,
    };
    let mut nic = Nic::new(&config);
    let judge = Judge::new(parsed("qp2.send:lost@2"), 0);
    let mut faults = DeviceFaults::begin(judge, &mut nic);
    let [first, second] = [17, 18].map(roce_wire::Qpn::from_bits);
    faults.note_new_qp(first);
    faults.note_new_qp(second);
    let mut of = |qpn| {
        faults.judge(&Completion {
            wr_id: 1,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            byte_len: 0,
            qpn,
            imm: None,
            invalidated_rkey: None,
            source: None,
        })
    };
    assert_eq!(of(second), CompletionFate::Deliver);
    assert_eq!(of(first), CompletionFate::Deliver);
    assert_eq!(of(first), CompletionFate::Deliver);
    assert_eq!(of(second), CompletionFate::Lose);
}

#[test]
fn a_retransmitted_request_meets_the_fate_of_the_first_one() {
    let judge = Judge::new(parsed("request:ignored@1,request:reject=28@2"), 0);
    let mut judge = ConnectionJudge::new(&judge).expect("injections about requests");
    let peer = [10, 0, 0, 1].into();
    let mad = |transaction: u8, attribute: u8| {
        let mut mad = [0; 256];
        mad[15] = transaction;
        mad[17] = attribute;
        mad
    };
    let mut decide = |transaction, attribute| judge.decide(peer, &mad(transaction, attribute));
    assert_eq!(decide(1, 0x10), Some(RequestFault::Ignored));
    assert_eq!(decide(1, 0x10), Some(RequestFault::Ignored));
    // A reply is no request.
    assert_eq!(decide(9, 0x13), None);
    assert_eq!(decide(2, 0x10), Some(RequestFault::Reject(28)));
    assert_eq!(decide(3, 0x10), None);
    assert_eq!(decide(2, 0x10), Some(RequestFault::Reject(28)));
    assert_eq!(judge.decide(peer, &[]), None);
}

#[test]
fn timed_injections_are_due_in_order() {
    let judge = Judge::new(parsed("gid:change@3s,port:down@1s..2s,device:fatal@4s"), 0);
    let mut timed = TimedFaults::new(&judge).expect("timed injections");
    let at = Duration::from_secs;
    assert_eq!(timed.next(), Some(at(1)));
    assert_eq!(timed.take_due(Duration::ZERO), None);
    assert_eq!(timed.take_due(at(2)), Some(TimedAction::PortDown));
    assert_eq!(timed.take_due(at(2)), Some(TimedAction::PortUp));
    assert_eq!(timed.take_due(at(2)), None);
    assert_eq!(timed.take_due(at(9)), Some(TimedAction::GidChange));
    assert_eq!(timed.take_due(at(9)), Some(TimedAction::DeviceFatal));
    assert_eq!(timed.take_due(at(9)), None);
}

#[test]
fn a_spec_is_written_as_it_is_read() {
    for text in [
        "loss=1%",
        "loss=0.5%,dup=0.0000001%,corrupt=100%,reorder=3%:200us,burst=0.1%:10,delay=50us,seed=9",
        "reorder=1%:100us,burst=0.1%:10:50%,delay=0s..2ms,seed=18446744073709551615",
        "delay=1500ns..2s",
        "",
    ] {
        if !text.is_empty() {
            assert_eq!(spec(text).to_string(), text);
        }
    }
    assert_eq!(spec("loss=0.01"), spec("loss=1%"));
    assert_eq!(spec("reorder=1%").reorder_by, ReorderBy::default());
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (text, given, valid) in [
        ("lose=1%", "lose=1%", "one of loss="),
        ("loss", "loss", "one of loss="),
        ("", "", "one of loss="),
        ("loss=1%,loss=2%", "loss=2%", "each once"),
        ("loss=101%", "loss=101%", "0% to 100%"),
        ("dup=-1%", "dup=-1%", "0% to 100%"),
        ("dup=nan", "dup=nan", "0% to 100%"),
        ("loss=1%,corrupt=often", "corrupt=often", "such as 1%"),
        ("delay=5", "delay=5", "50us"),
        ("delay=2ms..1ms", "delay=2ms..1ms", "ascending range"),
        ("delay=9999s", "delay=9999s", "range of times"),
        ("reorder=1%:soon", "reorder=1%:soon", "a time such as"),
        ("burst=1%", "burst=1%", "CHANCE:PACKETS"),
        ("burst=1%:0", "burst=1%:0", "CHANCE:PACKETS"),
        ("burst=1%:2:3%:4", "burst=1%:2:3%:4", "CHANCE:PACKETS"),
        ("seed=-1", "seed=-1", "whole number"),
    ] {
        let error = text.parse::<FaultSpec>().expect_err(text);
        assert_eq!(error.given, given);
        assert!(error.to_string().contains(valid), "{error}");
    }
}
