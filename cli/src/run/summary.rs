//! The summary of a program's run: the devices that it opened, its QPs, and its traffic.

use crate::words::counted;
use roce_verbs::observation::Totals;

/// The text to print at the end.
///
/// `program` is its name as given. `has_listed` says that it has succeeded, and listed devices without
/// opening one.
pub(super) fn text(program: &str, totals: &Totals, devices: &[String], has_listed: bool) -> String {
    let Totals {
        processes,
        devices_opened,
        lists: _,
        qps,
        connections,
        tx_bytes,
        rx_bytes,
        packets,
        lane_packets,
    } = *totals;
    if has_listed {
        return format!("{program}: devices were listed, and none was opened");
    }
    if devices_opened == 0 {
        return nothing_opened(program, totals, devices);
    }
    format!(
        "{program}: {} opened devices, {} in all; {}, {connections} of them connected to a peer; \
         {} sent and {} received{}{}",
        counted(processes, "process"),
        counted(devices_opened, "time"),
        counted(qps, "QP"),
        bytes(tx_bytes),
        bytes(rx_bytes),
        match packets {
            1.. if tx_bytes + rx_bytes == 0 => format!(", in {}", counted(packets, "packet")),
            _ => String::new(),
        },
        match lane_packets.saturating_mul(100) / packets.max(1) {
            _ if lane_packets == 0 => String::new(),
            ..1 => ", under 1 % of the packets in shared memory".to_owned(),
            percent @ 1..100 => format!(", {percent} % of the packets in shared memory"),
            _ => ", all in shared memory".to_owned(),
        }
    )
}

/// The message that no device was opened, with those that could have been.
pub(super) fn nothing_opened(program: &str, totals: &Totals, devices: &[String]) -> String {
    let there = match devices {
        [] => "there is none, because no interface is up and has an address".to_owned(),
        [only] => format!("the only one here is {only}"),
        [others @ .., last] => format!("those here are {} and {last}", others.join(", ")),
    };
    totals.no_device_opened(program, Some(&there))
}

/// Why a program that succeeded counts as a failure.
pub(super) fn no_traffic(program: &str, totals: &Totals) -> String {
    let what = match totals {
        Totals {
            devices_opened: 0,
            lists: 0,
            ..
        } => "it opened no RDMA device",
        Totals {
            devices_opened: 0, ..
        } => "it listed RDMA devices and opened none",
        Totals { qps: 0, .. } => "it opened RDMA devices and made no QP ready",
        _ => "it made QPs ready and used none of them",
    };
    format!(
        "{program} succeeded, but no operation went through this stack, and --require-traffic is \
         set: {what}"
    )
}

/// Bytes, with three digits.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = count as f64;
    let mut unit = "bytes";
    for larger in UNITS {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    let digits = match value {
        _ if unit == "bytes" => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        for (count, said) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "1.00 kB"),
            (65_536, "65.5 kB"),
            (999_999, "1.00 MB"),
            (6_553_600, "6.55 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(count), said);
        }
    }

    #[test]
    fn the_report_says_what_is_missing() {
        let mut totals = Totals::default();
        let said = |totals: &Totals| no_traffic("x", totals);
        let there = ["roce_lo", "roce_a", "roce_b"].map(str::to_owned);
        let all = text("x", &totals, &there, false);
        assert!(all.contains("no RDMA device was opened by x"), "{all}");
        assert!(all.contains("roce_lo, roce_a and roce_b;"), "{all}");
        assert!(!all.contains("ROCE_DEVICE_NAMES"), "{all}");
        totals.lists = 1;
        let all = text("x", &totals, &there, false);
        assert!(
            all.contains("ROCE_DEVICE_NAMES=INTERFACE=NAME gives"),
            "{all}"
        );
        totals.lists = 0;
        let one = text("x", &totals, &there[..1], false);
        assert!(one.contains("the only one here is roce_lo;"), "{one}");
        assert!(said(&totals).contains("opened no RDMA device"));
        (totals.processes, totals.devices_opened) = (1, 3);
        assert!(said(&totals).contains("made no QP ready"));
        totals.qps = 2;
        assert!(said(&totals).contains("used none of them"));
        assert_eq!(
            text("x", &totals, &[], false),
            "x: 1 process opened devices, 3 times in all; 2 QPs, 0 of them connected to a peer; 0 \
             bytes sent and 0 bytes received"
        );
        totals.packets = 7;
        let atomics = text("x", &totals, &[], false);
        assert!(
            atomics.ends_with("0 bytes received, in 7 packets"),
            "{atomics}"
        );
        for (lane_packets, said) in [
            (1, "under 1 % of the packets in shared memory"),
            (777, "77 % of the packets in shared memory"),
            (
                1000,
                "0 bytes received, in 1000 packets, all in shared memory",
            ),
        ] {
            let packets = 1000;
            let totals = Totals {
                packets,
                lane_packets,
                ..totals
            };
            let text = text("x", &totals, &[], false);
            assert!(text.ends_with(said), "{text}");
        }
    }
}
