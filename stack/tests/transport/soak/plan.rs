//! The plan of a seed: a set-up, the wire's faults, and each end's work.

use crate::sim::{Faults, Ip, Setup};
use roce_stack::{Access, Duration, QueueLimits};
use roce_wire::PathMtu;
use testkit::Dice;

/// The operation; its values are drawn when it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    CompareSwap,
    FetchAdd,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Send,
        Kind::SendImm,
        Kind::Write,
        Kind::WriteImm,
        Kind::Read,
        Kind::CompareSwap,
        Kind::FetchAdd,
    ];

    pub(super) fn consumes_receive(self) -> bool {
        matches!(self, Kind::Send | Kind::SendImm | Kind::WriteImm)
    }

    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Kind::CompareSwap | Kind::FetchAdd)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) len: usize,
    /// The number of elements into which the local memory is split.
    pub(super) elements: usize,
    pub(super) signaled: bool,
    pub(super) fence: bool,
    pub(super) solicited: bool,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) setup: Setup,
    pub(super) faults: [Faults; 2],
    /// The requests of each end, in order.
    pub(super) work: [Vec<Request>; 2],
    /// Receives are posted late and few at a time.
    pub(super) stingy: bool,
    /// The number of packets at which each port is full.
    pub(super) room: usize,
}

impl Plan {
    pub(super) fn draw(seed: u64, dice: &mut Dice) -> Self {
        let mtu = dice.pick(&PathMtu::ALL);
        let ip = dice.pick(&Ip::ROCE_V2);
        let rd_atomic = dice.pick(&[1, 2, 4, 16]);
        let psn = |dice: &mut Dice| match dice.below(3) {
            0 => 0xff_fff0 + dice.below(16) as u32,
            _ => dice.below(1 << 24) as u32,
        };
        let setup = Setup {
            kind: roce_stack::QpKind::Rc,
            seed,
            ip,
            mtu,
            psn: [psn(dice), psn(dice)],
            access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
            queue: QueueLimits {
                depth: dice.pick(&[1, 3, 16]),
                max_sge: 4,
            },
            cq_entries: 256,
            max_inline: 0,
            signal_all: dice.one_in(2),
            window_bytes: dice.pick(&[0, 4 << 10, 64 << 10, 1 << 20]),
            rd_atomic,
            dest_rd_atomic: rd_atomic,
            // About 0.5 ms: 100 round trips.
            timeout: 7,
            retry_cnt: 7,
            rnr_retry: 7,
            rnr_timer: dice.pick(&[1, 5, 12]),
            // Drawn without the dice, so that the plans of seeds stay as they are.
            records: seed % 2 == 1,
            max_packets: 400_000,
            max_time: Duration::from_secs(600),
        };
        let faults = Faults {
            drop: dice.pick(&[0, 10, 100, 500, 1000]),
            duplicate: dice.pick(&[0, 0, 100, 500]),
            reorder: dice.pick(&[0, 0, 100, 500]),
            // If the identification is hidden, 15 bits of the check remain, and one flipped bit in
            // some 30,000 is not detected.
            corrupt: match ip {
                Ip::V4Hidden => 0,
                Ip::V4 | Ip::V6 | Ip::Grh => dice.pick(&[0, 0, 100, 300]),
            },
        };
        // A wire may be good in one direction.
        let quiet = Faults::default();
        let faults = match dice.below(4) {
            0 => [faults, quiet],
            1 => [quiet, faults],
            _ => [faults, faults],
        };
        let kinds = kinds(dice);
        let largest = dice.pick(&[4, 8, 40]) * mtu.bytes();
        let work = [0, 1].map(|_| {
            let count = dice.pick(&[0, 10, 40]);
            (0..count)
                .map(|_| request(dice, &kinds, mtu.bytes(), largest))
                .collect()
        });
        Self {
            setup,
            faults,
            work,
            stingy: dice.one_in(3),
            room: dice.pick(&[1, 7, usize::MAX, usize::MAX]),
        }
    }
}

/// The operations of one run: a subset of all.
fn kinds(dice: &mut Dice) -> Vec<Kind> {
    let some: Vec<_> = Kind::ALL.into_iter().filter(|_| dice.one_in(2)).collect();
    if some.is_empty() {
        Kind::ALL.to_vec()
    } else {
        some
    }
}

fn request(dice: &mut Dice, kinds: &[Kind], mtu: usize, largest: usize) -> Request {
    let kind = dice.pick(kinds);
    let len = match dice.below(4) {
        _ if kind.is_atomic() => 8,
        0 => dice.pick(&[0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu]),
        1 => dice.below(64),
        _ => dice.below(largest + 1),
    };
    Request {
        kind,
        len,
        elements: 1 + dice.below(4),
        signaled: !dice.one_in(3),
        fence: dice.one_in(6),
        solicited: dice.one_in(4),
    }
}
