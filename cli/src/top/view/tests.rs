use super::super::rates::between;
use super::*;
use roce_verbs::observation::{DeviceSnapshot, Processes, QpSnapshot, Snapshot};
use std::collections::BTreeMap;

fn counters(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

/// A process with a device, whose counters are proportional to `n`.
fn process(pid: u32, qps: u32, seconds: f64, n: u64) -> Snapshot {
    let qps = (0..qps).map(|qp| QpSnapshot {
        qpn: 0x00ab_0000 + qp,
        service: "RC".to_owned(),
        state: "RTS".to_owned(),
        peer: Some("192.168.100.200".to_owned()),
        tx_bytes: n * u64::from(qp + 1) * 1_000_000,
        tx_packets: n * 1000,
        retransmitted: n * u64::from(qp % 2),
        rate_bits_per_second: (qp % 2 == 0).then_some(12.5e9),
        alpha: (qp % 2 == 0).then_some(0.0123),
        rtt_seconds: Some(25.5e-6),
        cnps_received: n * 1500,
        ..QpSnapshot::default()
    });
    let device = DeviceSnapshot {
        context: 1,
        device: "roce_enp0s31f6".to_owned(),
        datapath: "udp".to_owned(),
        counters: counters(&[
            ("tx_bytes", n * 1_250_000_000),
            ("tx_packets", n * 1_234_567),
        ]),
        drops: counters(&[
            ("bad_icrc", n * 20_000),
            ("wrong_state", 3),
            ("no_receive", 0),
        ]),
        qps: qps.collect(),
        ..DeviceSnapshot::default()
    };
    Snapshot {
        pid,
        command: "a_program_with_a_name".to_owned(),
        seconds,
        devices: vec![device],
        waits: Vec::new(),
    }
}

fn processes(count: u32, qps: u32, seconds: f64, n: u64) -> Processes {
    Processes {
        snapshots: (0..count)
            .map(|pid| process(4_000_000 + pid, qps, seconds, n))
            .collect(),
        ..Processes::default()
    }
}

fn two_seconds(count: u32, qps: u32) -> Rates {
    between(
        &processes(count, qps, 10.0, 1),
        &processes(count, qps, 12.0, 3),
    )
}

fn view(columns: usize, rows: usize) -> View {
    View {
        columns,
        rows: Some(rows),
        skip: 0,
        interval: 1.0,
        live: true,
    }
}

/// A process may answer with any numbers.
#[test]
fn numbers_of_another_process_do_not_overflow() {
    let mut now = processes(2, 1, 12.0, 3);
    for process in &mut now.snapshots {
        process.devices[0].qps_left_out = u64::MAX;
    }
    let rates = between(&processes(2, 1, 10.0, 1), &now);
    assert_eq!(rates.qps_left_out, u64::MAX);
    let text = draw(&rates, &view(80, 24)).text();
    assert!(text.contains(&format!("{} QPs", u64::MAX)), "{text}");
}

/// Each form of the output of busy, idle and hostile processes is well-formed.
#[test]
fn each_form_of_the_output_is_drawn() {
    let mut hostile = process(7, 1, 2.0, 1);
    hostile.command = "\x1b[2J\n\u{202e}".to_owned();
    hostile.devices[0].failure = Some("\x07".to_owned());
    hostile.devices[0].qps[0].rtt_seconds = Some(-1e300);
    hostile.devices[0].qps[0].why = Some("\x1b[2J\n".to_owned());
    hostile.devices[0].qps[0].state = "ERR".to_owned();
    let hostile = Processes {
        snapshots: vec![hostile],
        ..Processes::default()
    };
    for (before, now) in [
        (processes(2, 30, 10.0, 1), processes(2, 30, 12.0, 3)),
        (Processes::default(), Processes::default()),
        (hostile.clone(), hostile),
    ] {
        crate::top::draw_all(&before, &now);
    }
}

/// Busy or idle, few or many: nothing is wider or higher than the terminal.
#[test]
fn all_fits_on_the_terminal() {
    for (columns, rows) in [(80, 24), (132, 50), (40, 5), (1, 1), (80, 12)] {
        for (count, qps) in [
            (0, 0),
            (1, 0),
            (1, 3),
            (1, 1000),
            (30, 2),
            (300, 0),
            (3, 100),
        ] {
            let screen = draw(&two_seconds(count, qps), &view(columns, rows));
            let text = screen.text();
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{columns}x{rows}\n{text}");
            let most = rows.max(if count == 0 { 5 } else { 4 });
            assert!(
                screen.lines.len() <= most,
                "{columns}x{rows} {count} {qps}\n{text}"
            );
        }
    }
}

/// Instead of rates, a failed QP has the code and the cause.
#[test]
fn a_failed_qp_says_why() {
    let mut now = processes(1, 2, 12.0, 3);
    let failed = &mut now.snapshots[0].devices[0].qps[1];
    failed.state = "ERR".to_owned();
    failed.why = Some("no answer to the packet with PSN 0x000001\x1b[2J, and more".to_owned());
    failed.why_code = Some(0x211);
    let rates = between(&processes(1, 2, 10.0, 1), &now);
    let text = draw(&rates, &view(80, 24)).text();
    let row = " 1 ab0001 RC ERR   192.168.100.200 0x211 no answer to the packet with PSN 0x000~";
    assert!(text.lines().any(|line| line == row), "{text}");
    let text = draw(&rates, &view(132, 24)).text();
    assert!(text.contains("0x000001?[2J, and more\n"), "{text}");
    // The application itself has moved it there.
    now.snapshots[0].devices[0].qps[1].why_code = Some(0x520);
    let rates = between(&processes(1, 2, 10.0, 1), &now);
    let text = draw(&rates, &view(80, 24)).text();
    assert!(!text.contains("no answer"), "{text}");
}

/// With 80 columns no number is cut off.
#[test]
fn a_screen_of_80x24() {
    let text = draw(&two_seconds(2, 20), &view(80, 24)).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 24, "{text}");
    assert_eq!(
        lines[..4],
        [
            "roce top  2 processes  2 devices  40 QPs  every 1 s  q: quit",
            " #     PID COMMAND  DEVICE    VIA    QPS TX b/s TX p/s RX b/s RX p/s  RETX  DROP",
            " 1 4000000 a_progr~ roce_enp~ udp     20  10.0G  1.23M      0      0     0 20.0k",
            " 2 4000001 a_progr~ roce_enp~ udp     20  10.0G  1.23M      0      0     0 20.0k",
        ]
    );
    assert_eq!(
        lines[5..8],
        [
            " #    QPN SV STATE PEER            TX b/s RX b/s LIMIT ALPHA    RTT  RETX  CNPS",
            " 1 ab0013 RC RTS   192.168.100.200   160M      0     -     - 25.5us     1 1.50k",
            " 2 ab0013 RC RTS   192.168.100.200   160M      0     -     - 25.5us     1 1.50k",
        ]
    );
    assert!(
        lines[8].ends_with(" 12.5G 0.012 25.5us     0 1.50k"),
        "{text}"
    );
    assert_eq!(
        lines[19..22],
        [
            " # DROPPED BECAUSE           DROP/s   IN ALL",
            " 1 bad_icrc                   20.0k    60.0k",
            " 2 bad_icrc                   20.0k    60.0k",
        ]
    );
}

/// Lines scrolled past are not shown, and scrolling stops at the end.
#[test]
fn qps_scroll() {
    let rates = two_seconds(1, 100);
    let first = |skip| {
        let view = View {
            skip,
            ..view(80, 24)
        };
        let text = draw(&rates, &view).text();
        text.lines().nth(5).expect("a QP")[3..9].to_owned()
    };
    assert_eq!(first(0), "ab0063");
    assert_eq!(first(1), "ab0062");
    assert_eq!(first(1000), first(max_skip(&rates, 24)));
    assert_ne!(first(1000), "ab0000", "the last rows are full");
}

#[test]
fn a_new_or_restarted_process_has_no_rates() {
    let now = processes(1, 2, 1.0, 5);
    for before in [
        Processes::default(),
        processes(1, 2, 9.0, 9),
        processes(1, 2, 0.5, 9),
    ] {
        let rates = between(&before, &now);
        assert_eq!(rates.devices[0].flow, super::super::rates::Flow::default());
        assert_eq!(rates.drops[0].per_second, 0.0);
    }
}

/// Text from processes is printed as text, without control sequences.
#[test]
fn hostile_names_are_harmless() {
    let mut now = processes(1, 1, 1.0, 1);
    let hostile = "\x1b]0;x\x07\x1b[2J\u{9b}1m";
    let device = &mut now.snapshots[0].devices[0];
    device.device = hostile.to_owned();
    device.failure = Some(hostile.to_owned());
    device.datapath = hostile.to_owned();
    device.drops = counters(&[(hostile, 7)]);
    let qp = &mut device.qps[0];
    (qp.state, qp.service) = (hostile.to_owned(), hostile.to_owned());
    qp.peer = Some(hostile.to_owned());
    (qp.alpha, qp.rtt_seconds) = (Some(f64::MAX), Some(f64::NAN));
    now.snapshots[0].command = hostile.to_owned();
    let text = draw(&between(&now, &now), &view(80, 24)).text();
    assert!(
        text.chars().all(|char| char == '\n' || !char.is_control()),
        "{text:?}"
    );
}

#[test]
fn the_view_says_that_no_device_is_open() {
    let draw_no_devices = Processes {
        forbidden: 2,
        ..Processes::default()
    };
    let text = draw(&between(&draw_no_devices, &draw_no_devices), &view(80, 24)).text();
    assert!(
        text.contains("No process of yours") && text.contains("2 of other users"),
        "{text}"
    );
}

/// The picture has each piece of text, at its column, and no markup of others.
#[test]
fn the_picture_is_the_screen() {
    let mut rates = two_seconds(1, 1);
    rates.devices[0].command = "<script>".to_owned();
    let screen = draw(&rates, &view(80, 24));
    let picture = super::super::svg::draw(&screen, 24);
    assert!(picture.contains(">&lt;script&gt;</text>") && !picture.contains("<script"));
    let words = screen.text().split_whitespace().count();
    assert_eq!(picture.matches("</text>").count(), words);
}

/// A device's packets take lanes or its datapath, whichever most of them take now, and the reasons
/// against lanes are notes.
#[test]
fn lanes_are_shown() {
    let lanes = |tx_lane_packets, seconds| {
        let mut all = processes(1, 1, seconds, 1);
        all.snapshots[0].devices[0].port = counters(&[
            ("tx_packets", 1000 + tx_lane_packets),
            ("tx_lane_packets", tx_lane_packets),
            ("lanes_silent", 2),
        ]);
        all
    };
    for (before, now, via) in [(0, 5, " lane "), (5, 5, " udp "), (2000, 2000, " lane ")] {
        let rates = between(&lanes(before, 10.0), &lanes(now, 12.0));
        let text = draw(&rates, &view(80, 24)).text();
        assert!(
            text.lines().nth(2).is_some_and(|line| line.contains(via)),
            "{text}"
        );
        let note = " 1 no lane to 2 devices here: the other process did not answer in time";
        assert!(text.contains(note), "{text}");
        assert!(!draw(&rates, &view(80, 12)).text().contains("no lane"));
    }
}
