//! Classifies samples by the kind of work.

use super::stacks::{Side, Stack};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The kinds of work, in order of precedence. A kind matches if the innermost function is on
/// `side`, and its name contains one of `inside` or any function's name contains one of `below`.
struct Kind {
    name: &'static str,
    side: Option<Side>,
    inside: &'static [&'static str],
    below: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "copies between registered memory and packets",
        side: Some(Side::Library),
        inside: &["memmove", "memcpy"],
        below: &[],
    },
    Kind {
        name: "copies to packets that take the ICRC along",
        side: Some(Side::Program),
        inside: &["icrc::clmul::copying"],
        below: &[],
    },
    Kind {
        name: "ICRC",
        side: Some(Side::Program),
        inside: &["crc32fast", "icrc"],
        below: &[],
    },
    Kind {
        name: "reading the clock",
        side: Some(Side::Library),
        inside: &["vdso", "clock_gettime"],
        below: &[],
    },
    Kind {
        name: "the rest of this stack",
        side: Some(Side::Program),
        inside: &[""],
        below: &[],
    },
    Kind {
        name: "libraries",
        side: Some(Side::Library),
        inside: &[""],
        below: &[],
    },
    Kind {
        name: "kernel: copies of packets from the process",
        side: None,
        inside: &["_copy_from_iter", "xsk_build_skb", "skb_store_bits"],
        below: &[],
    },
    Kind {
        name: "kernel: copies of packets to the process",
        side: None,
        inside: &["_copy_to_iter", "xsk_copy_xdp"],
        below: &[],
    },
    Kind {
        name: "kernel: receiving for the peer, in soft interrupts",
        side: None,
        inside: &[],
        below: &["net_rx_action", "handle_softirqs"],
    },
    Kind {
        name: "kernel: calls that send",
        side: None,
        inside: &[],
        below: &["sendmsg", "sendmmsg", "sendto", "xsk_sendmsg"],
    },
    Kind {
        name: "kernel: calls that receive",
        side: None,
        inside: &[],
        below: &["recvmsg", "recvmmsg", "recvfrom"],
    },
    Kind {
        name: "kernel: waiting (poll)",
        side: None,
        inside: &[],
        below: &["poll", "schedule"],
    },
    Kind {
        name: "kernel: other",
        side: None,
        inside: &[""],
        below: &[],
    },
];

fn kind(stack: &Stack) -> usize {
    let Some(innermost) = stack.last() else {
        return KINDS.len() - 1;
    };
    let fits = |kind: &Kind| {
        kind.side.is_none_or(|side| side == innermost.side)
            && (kind.inside.iter().any(|n| innermost.function.contains(n))
                || kind
                    .below
                    .iter()
                    .any(|n| stack.iter().any(|f| f.function.contains(n))))
    };
    KINDS.iter().position(fits).unwrap_or(KINDS.len() - 1)
}

/// A Markdown table: each kind's share of each end's samples, in percent. Kinds below
/// half a percent at both ends are left out.
pub fn table(sender: &[Stack], receiver: &[Stack]) -> String {
    let [sender, receiver] = [sender, receiver].map(|stacks| {
        let mut shares: BTreeMap<usize, f64> = BTreeMap::new();
        let each = 100.0 / stacks.len().max(1) as f64;
        for stack in stacks {
            *shares.entry(kind(stack)).or_default() += each;
        }
        shares
    });
    let mut out = String::from("| share of the time, in % | sender | receiver |\n|---|---|---|\n");
    for (index, kind) in KINDS.iter().enumerate() {
        let share = |shares: &BTreeMap<usize, f64>| shares.get(&index).copied().unwrap_or(0.0);
        let (here, there) = (share(&sender), share(&receiver));
        if here.max(there) >= 0.5 {
            // Writing to a string does not fail.
            let _ = writeln!(out, "| {} | {here:.0} | {there:.0} |", kind.name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flames::stacks::Frame;

    fn stack(frames: &[(&str, Side)]) -> Stack {
        let frame = |&(function, side): &(&str, Side)| Frame {
            function: function.to_owned(),
            side,
        };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn each_sample_has_one_kind() {
        let main = ("roce::main", Side::Program);
        let send = ("__sys_sendmsg", Side::Kernel);
        let cases = [
            (vec![main], "the rest of this stack"),
            (
                vec![main, ("memmove_avx", Side::Library)],
                "copies between registered memory and packets",
            ),
            (
                vec![
                    main,
                    ("roce_wire::icrc::clmul::copying::fold", Side::Program),
                ],
                "copies to packets that take the ICRC along",
            ),
            (
                vec![main, ("roce_wire::icrc::clmul::fold", Side::Program)],
                "ICRC",
            ),
            (
                vec![main, send, ("_copy_from_iter", Side::Kernel)],
                "kernel: copies of packets from the process",
            ),
            (
                vec![main, send, ("udp_sendmsg", Side::Kernel)],
                "kernel: calls that send",
            ),
            (
                vec![
                    main,
                    send,
                    ("net_rx_action", Side::Kernel),
                    ("udp_rcv", Side::Kernel),
                ],
                "kernel: receiving for the peer, in soft interrupts",
            ),
            (
                vec![main, ("exc_page_fault", Side::Kernel)],
                "kernel: other",
            ),
        ];
        for (frames, name) in cases {
            assert_eq!(KINDS[kind(&stack(&frames))].name, name, "{frames:?}");
        }
    }

    #[test]
    fn the_table_has_shares_of_each_end() {
        let main = stack(&[("roce::main", Side::Program)]);
        let icrc = stack(&[("roce_wire::icrc::seal", Side::Program)]);
        let table = table(&[main.clone(), icrc], &[main]);
        assert!(table.contains("| ICRC | 50 | 0 |"), "{table}");
        assert!(
            table.contains("| the rest of this stack | 50 | 100 |"),
            "{table}"
        );
    }
}
