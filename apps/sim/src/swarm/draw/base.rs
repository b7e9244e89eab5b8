//! The first layer of a plan: hosts, links, pairs and their requests.

use crate::connect::ConnectSpec;
use crate::dice::Dice;
use crate::fabric::{EcnSpec, HostSpec, Ip, LinkSpec, PfcSpec, SwitchSpec};
use crate::swarm::plan::{
    Action, CableFault, CqPlan, Disruption, FaultPlan, Kind, MulticastPlan, Op, PairPlan, Plan,
    RequestFault, SrqPlan,
};
use roce_faults::{Burst, Chance, FaultSpec, ReorderBy};
use roce_stack::{Duration, QpKind, largest_path_mtu};
use roce_wire::PathMtu;

/// The time in which faults and disruptions start, in ns.
pub(super) const HORIZON_NS: u64 = 3_000_000;

impl Plan {
    pub(super) fn draw_base(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let lossless = dice.one_in(5);
        let ip = dice.pick(&[Ip::V4, Ip::V4, Ip::V6, Ip::V4Hidden]);
        let count = dice.pick(&[2, 2, 2, 3, 4, 6]);
        let mut plan = Self {
            seed,
            hosts: (0..count).map(|_| host(&mut dice, ip, lossless)).collect(),
            switches: Vec::new(),
            attached: Vec::new(),
            link: link(&mut dice, lossless),
            lossless,
            srqs: (0..count).map(|_| srq(&mut dice)).collect(),
            xrc_srqs: Vec::new(),
            cqs: Vec::new(),
            congestion: Vec::new(),
            xrc_cq: CqPlan::default(),
            pairs: Vec::new(),
            on_demand_words: Vec::new(),
            cm_retries: 15,
            multicast: MulticastPlan::default(),
            faults: Vec::new(),
            disruptions: Vec::new(),
        };
        let least = usize::from(count > 2);
        let switches = dice.pick(&[least, 1, 1, 2]);
        let switch = switch(&mut dice, plan.link.queue_bytes);
        plan.switches = vec![switch; switches];
        plan.attached = (0..count).map(|_| dice.index(switches)).collect();
        let pairs = dice.pick(&[1, 1, 2, 3, 5]);
        let kinds = kinds(&mut dice);
        let services = services(&mut dice);
        let shares = dice.one_in(3);
        let has_faults = dice.one_in(3);
        for _ in 0..pairs {
            let service = dice.pick(services);
            let common = Common {
                hosts: count,
                kinds: &kinds,
                service,
                shares,
                has_faults,
                lossless,
            };
            let largest = largest_path_mtu(plan.link.max_packet_bytes);
            let pair = pair(&mut dice, &common, largest);
            plan.pairs.push(pair);
        }
        if !lossless {
            plan.draw_faults(&mut dice, ip);
        }
        plan.draw_disruptions(&mut dice);
        plan
    }

    /// The number of cables: one for each host and those between switches.
    pub fn cables(&self) -> usize {
        match self.switches.len() {
            0 => 1,
            switches => self.hosts.len() + switches - 1,
        }
    }

    fn draw_faults(&mut self, dice: &mut Dice, ip: Ip) {
        for cable in 0..self.cables() {
            if dice.one_in(4) {
                continue;
            }
            let what = CableFault::Packets(faults(dice, ip));
            self.faults.push(FaultPlan {
                at_ns: 0,
                cable,
                what,
            });
        }
        for _ in 0..dice.pick(&[0, 0, 1, 3]) {
            let (at_ns, cable) = (dice.below(HORIZON_NS), dice.index(self.cables()));
            let duration_ns = dice.pick(&[10_000, 300_000, 3_000_000, 40_000_000]);
            let (begin, end) = if dice.one_in(2) {
                (CableFault::Down(true), CableFault::Down(false))
            } else {
                let quiet = CableFault::Packets(FaultSpec::default());
                (CableFault::Packets(faults(dice, ip)), quiet)
            };
            for (at_ns, what) in [(at_ns, begin), (at_ns + duration_ns, end)] {
                self.faults.push(FaultPlan { at_ns, cable, what });
            }
        }
    }

    fn draw_disruptions(&mut self, dice: &mut Dice) {
        for _ in 0..dice.pick(&[0, 0, 1, 2, 4]) {
            let (pair, side) = (dice.index(self.pairs.len()), dice.index(2));
            let host = dice.index(self.hosts.len());
            let duration_ns = dice.below(500_000);
            let actions = [
                Action::Destroy(pair, side),
                Action::Break(pair, side),
                Action::Drain(pair, side, duration_ns),
                Action::Drain(pair, side, duration_ns),
                Action::DropOut(pair, side),
                Action::DropTarget(pair, side),
                Action::DropInbox(pair, side),
                Action::Resize(host, dice.pick(&[1, 3, 8, 40])),
                Action::Limit(host, dice.index(9)),
                Action::Pause(host, duration_ns * 10),
                Action::Restart(host),
            ];
            // Without loss, hosts are never stopped or restarted.
            let some = if self.lossless {
                &actions[..9]
            } else {
                &actions[..]
            };
            let what = dice.pick(some);
            let at_ns = dice.below(HORIZON_NS) / dice.pick(&[1, 10, 100]);
            self.disruptions.push(Disruption { at_ns, what });
        }
    }
}

fn host(dice: &mut Dice, ip: Ip, lossless: bool) -> HostSpec {
    HostSpec {
        ip,
        seed: dice.number(),
        window_bytes: dice.pick(&[0, 4 << 10, 64 << 10, 1 << 20]),
        poll_every: Duration::from_nanos(dice.pick(&[0, 0, 500, 20_000])),
        ring_packets: match lossless {
            true => usize::MAX,
            false => dice.pick(&[8, 256, 4096]),
        },
        port_bytes: None,
        outside: false,
        keeps: false,
    }
}

fn link(dice: &mut Dice, lossless: bool) -> LinkSpec {
    LinkSpec {
        bits_per_sec: dice.pick(&[1_000_000_000, 10_000_000_000, 100_000_000_000]),
        delay: Duration::from_nanos(dice.pick(&[100, 1_000, 10_000])),
        max_packet_bytes: dice.pick(&[1100, 2200, 4200, 8300]),
        queue_bytes: match lossless {
            true => 1 << 30,
            false => dice.pick(&[9_000, 32 << 10, 256 << 10]),
        },
        urgent_dscp: None,
    }
}

fn switch(dice: &mut Dice, queue_bytes: usize) -> SwitchSpec {
    let ecn = EcnSpec {
        kmin_bytes: queue_bytes.min(1 << 20) / 8,
        kmax_bytes: queue_bytes.min(1 << 20) / 2,
        pmax_percent: dice.pick(&[1, 20, 100]),
    };
    let pfc = PfcSpec {
        pause_bytes: queue_bytes.min(1 << 20) / 4,
        resume_bytes: queue_bytes.min(1 << 20) / 8,
    };
    SwitchSpec {
        ecn: dice.one_in(2).then_some(ecn),
        pfc: dice.one_in(3).then_some(pfc),
        buffer: None,
    }
}

fn faults(dice: &mut Dice, ip: Ip) -> FaultSpec {
    let burst = Burst {
        begin: Chance::per_million(dice.pick(&[100, 1_000, 5_000])),
        packets: dice.pick(&[3, 20]),
        loss: dice.pick(&[Chance::ALWAYS, Chance::per_million(500_000)]),
    };
    FaultSpec {
        loss: Chance::per_million(dice.pick(&[0, 1_000, 10_000, 50_000, 200_000])),
        burst: dice.one_in(4).then_some(burst),
        duplicate: Chance::per_million(dice.pick(&[0, 0, 10_000, 50_000])),
        reorder: Chance::per_million(dice.pick(&[0, 0, 10_000, 50_000])),
        reorder_by: ReorderBy(Duration::from_micros(dice.pick(&[5, 50, 1_000]))),
        // If the IPv4 identification is hidden, only 15 bits of the ICRC check remain, and one
        // flipped bit in some 30,000 goes undetected.
        corrupt: match ip {
            Ip::V4Hidden => Chance::NEVER,
            _ => Chance::per_million(dice.pick(&[0, 0, 10_000, 30_000])),
        },
        delay: Duration::from_micros(dice.pick(&[0, 0, 10, 300])),
        jitter: Duration::from_micros(dice.pick(&[0, 0, 10, 300])),
        seed: None,
    }
}

/// The operations of a run: a random subset.
pub(super) fn kinds(dice: &mut Dice) -> Vec<Kind> {
    let all = Kind::REMOTE.into_iter();
    let some: Vec<_> = all.filter(|_| dice.one_in(2)).collect();
    if some.is_empty() {
        Kind::REMOTE.to_vec()
    } else {
        some
    }
}

/// The transport services of one run.
fn services(dice: &mut Dice) -> &'static [QpKind] {
    dice.pick(&[
        &[QpKind::Rc][..],
        &[QpKind::Rc],
        &[QpKind::Rc, QpKind::Uc, QpKind::Ud],
        &[QpKind::Uc],
        &[QpKind::Ud],
    ])
}

pub(super) fn srq(dice: &mut Dice) -> SrqPlan {
    let depth = dice.pick(&[1, 2, 8, 64]);
    SrqPlan {
        depth,
        ahead: dice.pick(&[1, 4, 64]).min(depth),
        gap_ns: dice.pick(&[0, 0, 0, 30_000]),
        limit: dice.pick(&[0, 1, 3]).min(depth),
    }
}

/// The parameters that the pairs of a run share.
pub(super) struct Common<'a> {
    pub(super) hosts: usize,
    pub(super) kinds: &'a [Kind],
    pub(super) service: QpKind,
    /// Whether receives may be shared.
    pub(super) shares: bool,
    pub(super) has_faults: bool,
    pub(super) lossless: bool,
}

pub(super) fn pair(dice: &mut Dice, common: &Common<'_>, largest_mtu: PathMtu) -> PairPlan {
    let &Common {
        hosts,
        service,
        lossless,
        ..
    } = common;
    let first = dice.index(hosts);
    let second = (first + 1 + dice.index(hosts - 1)) % hosts;
    let path_mtu = dice.pick(&PathMtu::ALL).min(largest_mtu);
    let psn = |dice: &mut Dice| match dice.below(3) {
        0 => 0xff_fff0 + dice.below(16) as u32,
        _ => dice.below(1 << 24) as u32,
    };
    let connect = ConnectSpec {
        kind: service,
        path_mtu,
        psn: [psn(dice), psn(dice)],
        rd_atomic: dice.pick(&[1, 2, 4, 16]),
        // 67 ms where nothing may be lost, 0.5 to 8 ms otherwise.
        timeout: match lossless {
            true => 14,
            false => dice.pick(&[7, 8, 9, 11]),
        },
        retry_cnt: match lossless {
            true => 7,
            false => dice.pick(&[1, 3, 7, 7, 7]),
        },
        rnr_retry: dice.pick(&[0, 2, 7, 7, 7]),
        rnr_timer: dice.pick(&[1, 5, 12]),
        ..ConnectSpec::default()
    };
    let depth = dice.pick(&[1, 2, 4, 16, 64]);
    let mtu = path_mtu.bytes();
    let target_bytes = dice.pick(&[2, 6, 20]) * mtu.max(512);
    let largest = match service {
        QpKind::Ud => largest_mtu.bytes(),
        _ => dice.pick(&[2, 6, 16]) * mtu,
    };
    let shared = [0, 1].map(|_| common.shares && dice.one_in(2));
    let mut kinds: Vec<Kind> = common.kinds.to_vec();
    kinds.retain(|kind| kind.is_supported_by(service));
    if kinds.is_empty() {
        kinds.push(Kind::Send);
    }
    let ops = [0, 1].map(|side: usize| {
        // A receive has a length of its own only in an RC QP's own receive queue.
        let exact = service == QpKind::Rc && !shared[1 - side];
        let count = dice.pick(&[0, 8, 30, 100]);
        let max_gap_ns = dice.pick(&[0, 0, 10_000, 100_000]);
        (0..count)
            .map(|_| {
                let longest = largest.min(target_bytes);
                let mut op = op(dice, &kinds, mtu, longest, max_gap_ns);
                if common.has_faults && op.len > 0 && dice.one_in(40) {
                    op.fault = draw_request_fault(dice, op.kind, service, exact);
                }
                op
            })
            .collect()
    });
    PairPlan {
        hosts: [first, second],
        connect,
        shared,
        depth,
        max_sge: dice.pick(&[1, 2, 5]),
        max_inline: dice.pick(&[0, 64, 512]),
        signal_all: dice.one_in(3),
        one_cq: dice.one_in(2),
        cqs: [CqPlan::default(); 2],
        in_host_cq: [false; 2],
        recvs_ahead: dice.pick(&[1, 4, 64]).min(depth),
        recv_gap_ns: dice.pick(&[0, 0, 0, 30_000]),
        start_ns: dice.pick(&[0, 0, 100_000]),
        target_bytes,
        follows: None,
        managed: false,
        on_demand: [[false; 3]; 2],
        windows: [Vec::new(), Vec::new()],
        ops,
    }
}

/// Draws a fault for a request; `None` if the request can't have the drawn fault.
fn draw_request_fault(
    dice: &mut Dice,
    kind: Kind,
    service: QpKind,
    exact: bool,
) -> Option<RequestFault> {
    let sends = matches!(kind, Kind::Send | Kind::SendImm);
    let drawn = match dice.below(7) {
        0 => RequestFault::LocalKey,
        1 => RequestFault::TooLong,
        2 | 3 => RequestFault::Bounds,
        4 => RequestFault::RemoteKey,
        5 => RequestFault::Persistence,
        _ => RequestFault::QKey,
    };
    let fits = match drawn {
        RequestFault::LocalKey => kind != Kind::Flush,
        RequestFault::TooLong => sends && exact,
        RequestFault::Bounds => !sends && kind != Kind::SendInvalidate,
        RequestFault::RemoteKey => !sends,
        RequestFault::Persistence => kind == Kind::Flush,
        RequestFault::QKey => service == QpKind::Ud,
        RequestFault::Invalidated
        | RequestFault::AccessRight
        | RequestFault::StaleAddress
        | RequestFault::Srq => false,
    };
    fits.then_some(drawn)
}

fn op(dice: &mut Dice, kinds: &[Kind], mtu: usize, largest: usize, max_gap_ns: u64) -> Op {
    let kind = match dice.pick(kinds) {
        // One SEND with invalidate is enough to make all later requests fail.
        Kind::SendInvalidate if !dice.one_in(10) => Kind::Send,
        kind => kind,
    };
    let len = match dice.below(4) {
        _ if kind.is_word() => 8,
        0 => dice
            .pick(&[0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu])
            .min(largest),
        1 => dice.index(64),
        _ => dice.index(largest + 1),
    };
    Op {
        kind,
        len,
        at: dice.index(1 << 20),
        window: None,
        hasty: false,
        srq: 0,
        elements: 1 + dice.index(5),
        signaled: !dice.one_in(3),
        fence: dice.one_in(6),
        inline: dice.one_in(2),
        solicited: dice.one_in(4),
        gap_ns: match max_gap_ns {
            0 => 0,
            most => dice.below(most),
        },
        fault: None,
    }
}
