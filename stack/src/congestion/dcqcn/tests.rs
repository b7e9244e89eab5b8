use super::*;
use crate::time::Duration;
use std::process::Command;

/// The output of `table.py`, a second implementation of the law from its description.
const TABLE: &str = include_str!("../../../tests/dcqcn/table.txt");

/// Sums in another order differ only in the last digits.
fn assert_close(ours: f64, theirs: f64, what: &str) {
    let error = (ours - theirs).abs();
    assert!(error <= theirs.abs() * 1e-9, "{what}: {ours} for {theirs}");
}

fn number(text: Option<&str>) -> f64 {
    text.and_then(|text| text.parse().ok()).expect("a number")
}

fn count(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).expect("a count")
}

fn run_timers(sender: &mut Dcqcn, now: Instant, p: &DcqcnParameters) {
    while let Some(at) = sender.next_timer().filter(|at| *at <= now) {
        sender.on_timer(at, p);
    }
}

// shows: CA17-46-recovery
#[test]
fn it_does_what_was_worked_out_separately() {
    let mut p = DcqcnParameters::PAPER;
    let mut sender = None;
    let mut lines = 0;
    for line in TABLE.lines() {
        let mut words = line.split(' ');
        let first = words.next();
        if first == Some("run") {
            p = match words.next() {
                Some("paper") => DcqcnParameters::PAPER,
                _ => DcqcnParameters::CONNECT_X,
            };
            sender = None;
            continue;
        }
        let now = Instant::from_nanos(count(first));
        let what = words.next();
        let bytes = count(words.next());
        match (what, &mut sender) {
            (_, None) => sender = Some(Dcqcn::new(now, &p)),
            (Some("cnp"), Some(sender)) => {
                run_timers(sender, now, &p);
                sender.on_cnp(now, &p);
            }
            (_, Some(sender)) => {
                run_timers(sender, now, &p);
                sender.on_sent(bytes, &p);
            }
        }
        let sender = sender.as_ref().expect("begun");
        assert_close(sender.alpha, number(words.next()), line);
        assert_close(sender.target, number(words.next()), line);
        assert_close(sender.current, number(words.next()), line);
        lines += 1;
    }
    assert_eq!(lines, 1000);
}

/// The table is the output of the script, on a machine that has Python.
#[test]
fn the_table_is_what_the_script_writes() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dcqcn/table.py");
    match Command::new("python3").arg(script).output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            let written = String::from_utf8(output.stdout).expect("text");
            assert!(written == TABLE, "regenerate it: {script} > table.txt");
        }
        Err(error) => testkit::skip("python3", &error.to_string()),
    }
}

#[test]
fn no_flood_brings_it_below_the_minimum() {
    for p in [DcqcnParameters::PAPER, DcqcnParameters::CONNECT_X] {
        let mut sender = Dcqcn::new(Instant::ZERO, &p);
        let mut now = Instant::ZERO;
        for _ in 0..100_000 {
            now = now + Duration::from_micros(1);
            run_timers(&mut sender, now, &p);
            sender.on_cnp(now, &p);
            assert!(sender.current >= p.min_rate());
        }
        assert_close(sender.current, p.min_rate(), "after the flood");
        // It recovers in bounded time.
        let mut turns = 0;
        while !sender.is_over(&p) {
            let at = sender.next_timer().expect("it has a timer");
            sender.on_timer(at, &p);
            turns += 1;
        }
        assert!(turns < 20_000, "{turns}");
    }
}

/// Parameters that make no sense, but are possible.
#[test]
fn odd_parameters_do_no_harm() {
    let odd = DcqcnParameters {
        dce_tcp_g: u16::MAX,
        initial_alpha_value: u16::MAX,
        rpg_min_dec_fac: u8::MAX,
        rpg_gd: 0,
        rate_to_set_on_first_cnp: u32::MAX,
        rpg_byte_reset: 0,
        rpg_min_rate: 0,
        rpg_max_rate: 0,
        ..DcqcnParameters::CONNECT_X
    };
    let mut sender = Dcqcn::new(Instant::ZERO, &odd);
    sender.on_sent(1 << 40, &odd);
    sender.on_cnp(Instant::from_nanos(1_000_000), &odd);
    assert_close(sender.current, 1e6, "one Mbit/s at least");
    assert!(sender.is_over(&odd));
}
