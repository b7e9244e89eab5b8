//! A host that is attacked, and the ends of its connections.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, RangeInclusive};
use std::thread;

use roce_tests::veth::End;
use roce_verbs::datapath::{DatapathChoice, DatapathOptions};
use roce_verbs::device::RoceVersion;
use roce_verbs::observation::{DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::qp::{PathMtu, QpState};
use roce_verbs::roce_cm::Counters as CmCounters;
use roce_verbs::settings::OpenOptions;

use super::scene::TIMEOUT;

/// Bytes that a transfer moves in each direction.
pub(super) const LEN: usize = 65536;
/// Packets of a transfer: of a WRITE and of a READ.
pub(super) const PACKETS_OF_TRANSFER: u32 = 2 * LEN as u32 / 1024;

/// A host that is attacked.
pub(super) struct Victim<'a> {
    pub(super) end: &'a End,
    pub(super) context: Context,
}

impl<'a> Victim<'a> {
    pub(super) fn open(end: &'a End, datapath: DatapathChoice) -> Self {
        let options = DatapathOptions {
            datapath,
            ..DatapathOptions::default()
        };
        let context = end.enter(|| {
            let device = Device::with_address(end.ip4.into()).expect("its own");
            OpenOptions::new().datapath(options).open(&device)
        });
        Self {
            end,
            context: context.expect("opened"),
        }
    }

    /// A QP with memory for transfers, in a protection domain of its own.
    pub(super) fn half(&self, kind: QpKind, ipv6: bool) -> Half<'a> {
        let pd = self.context.alloc_pd();
        self.half_in(&pd, kind, ipv6)
    }

    pub(super) fn half_in(&self, pd: &ProtectionDomain, kind: QpKind, ipv6: bool) -> Half<'a> {
        self.end.enter(|| {
            let cq = self.context.create_cq(64);
            let options = QpOptions {
                kind,
                ..QpOptions::default()
            };
            let at = self.end.address(ipv6);
            let gids = self.context.gids();
            let gid = gids
                .iter()
                .find(|entry| entry.gid.ip() == at && entry.version == RoceVersion::V2);
            Half {
                end: self.end,
                context: self.context.clone(),
                at,
                gid_index: gid.expect("its address has a GID").index,
                qp: Qp::Own(pd.create_qp(&cq, &cq, &options).expect("a QP")),
                region: pd.allocate(2 * LEN, Access::ANY_MEMORY).expect("memory"),
                pd: pd.clone(),
                cq,
            }
        })
    }
}

/// A QP, of the test or of a connection.
pub(super) enum Qp {
    Own(QueuePair),
    Of(Connection),
}

impl Deref for Qp {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        match self {
            Self::Own(qp) => qp,
            Self::Of(connection) => connection,
        }
    }
}

/// One end of a connection.
pub(super) struct Half<'a> {
    pub(super) end: &'a End,
    pub(super) context: Context,
    pub(super) at: IpAddr,
    gid_index: u8,
    pub(super) pd: ProtectionDomain,
    pub(super) cq: CompletionQueue,
    pub(super) qp: Qp,
    /// A block to be sent or received, and a block that was read.
    pub(super) region: MemoryRegion,
}

/// Connects two QPs, without the connection manager.
pub(super) fn connect(near: &Half<'_>, far: &Half<'_>) {
    let options = ConnectOptions {
        path_mtu: Some(PathMtu::Mtu1024),
        ..ConnectOptions::default()
    };
    let endpoint = |half: &Half<'_>| half.end.enter(|| half.qp.endpoint(half.gid_index));
    let [of_near, of_far] = [near, far].map(|half| endpoint(half).expect("a GID"));
    for (half, remote) in [(near, of_far), (far, of_near)] {
        let connected = half
            .end
            .enter(|| half.qp.connect(half.gid_index, &remote, &options));
        connected.expect("connected");
    }
}

/// A connection of two QPs of these hosts.
pub(super) fn connected<'a>(
    near: &Victim<'a>,
    far: &Victim<'a>,
    kind: QpKind,
    ipv6: bool,
) -> [Half<'a>; 2] {
    let halves = [near, far].map(|victim| victim.half(kind, ipv6));
    connect(&halves[0], &halves[1]);
    halves
}

/// Connects a QP of `near` with one of the program that listens at `far`, which `accept` accepts.
pub(super) fn connected_by_manager<'a>(
    near: &Victim<'a>,
    far: &Victim<'a>,
    port: u16,
    accept: impl FnOnce(QueuePair) -> Connection + Send,
) -> [Half<'a>; 2] {
    let [asking, asked] = [near, far].map(|victim| victim.half(QpKind::Rc, false));
    let to = SocketAddr::new(asked.at, port);
    thread::scope(|scope| {
        let accepting = scope.spawn(|| far.end.enter(|| asked.with_connection(accept)));
        let asking = near.end.enter(|| {
            asking.with_connection(|qp| {
                let connection = Connection::connect(qp, to, &ConnectOptions::default(), b"");
                connection.expect("accepted")
            })
        });
        [asking, accepting.join().expect("accepted")]
    })
}

fn pattern(round: u32) -> Vec<u8> {
    let round = round.wrapping_mul(0x9e37_79b9);
    (0..LEN as u32)
        .map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ round >> (at % 24)) as u8)
        .collect()
}

impl<'a> Half<'a> {
    /// The same with a connection of its QP.
    fn with_connection(self, connect: impl FnOnce(QueuePair) -> Connection) -> Half<'a> {
        let Qp::Own(qp) = self.qp else {
            panic!("it has a connection");
        };
        Half {
            qp: Qp::Of(connect(qp)),
            ..self
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        let Qp::Of(connection) = &self.qp else {
            panic!("it has no connection");
        };
        connection
    }

    /// The counters of the connection manager.
    pub(super) fn cm_counters(&self) -> CmCounters {
        let manager = self.context.connection_manager().expect("it runs");
        manager.with(|agent, _| *agent.counters())
    }

    pub(super) fn state(&self) -> QpState {
        self.qp.query().0
    }

    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.context.counters().drops(reason)
    }

    pub(super) fn stat(&self, stat: Stat) -> u64 {
        self.context.counters().stat(stat)
    }

    /// The PSN that it expects next, and the one that it sends next.
    pub(super) fn psns(&self) -> [u32; 2] {
        let config = self.qp.query().1;
        [config.rq_psn.get(), config.sq_psn.get()]
    }

    pub(super) fn bytes(&self, from: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.region.read(from, &mut bytes).expect("in range");
        bytes
    }

    /// Posts a request with `len` bytes of the region, or with no memory.
    pub(super) fn post(&self, op: SendOp, from: usize, len: usize) {
        let sges = [self.region.slice(from, len).expect("in range")];
        let request = SendRequest::new(1, op, &sges[..usize::from(len > 0)]);
        // The port may open a socket for it.
        let posted = self.end.enter(|| self.qp.post_send(&request));
        posted.expect("posted");
    }

    /// The status of the next completion.
    pub(super) fn status(&self) -> WcStatus {
        let done = self.end.enter(|| self.cq.poll_for(TIMEOUT));
        done.expect("no overrun").expect("completed").status
    }

    pub(super) fn perform(&self, op: SendOp, from: usize, len: usize) -> WcStatus {
        self.post(op, from, len);
        self.status()
    }

    /// WRITEs eight bytes: one packet, and one answer.
    pub(super) fn write(&self, to: &Half<'_>) {
        let written = self.perform(SendOp::Write(to.region.remote(0)), 0, 8);
        assert_eq!(written, WcStatus::Success, "a small WRITE");
    }

    /// WRITEs a block to `far`, READs it, and compares both with what was sent.
    pub(super) fn transfer(&self, far: &Half<'_>, round: u32) {
        let block = pattern(round);
        self.region.write(0, &block).expect("in range");
        self.region.write(LEN, &vec![0; LEN]).expect("in range");
        let there = far.region.remote(0);
        let written = self.perform(SendOp::Write(there), 0, LEN);
        assert_eq!(written, WcStatus::Success, "WRITE, round {round}");
        let read = self.perform(SendOp::Read(there), LEN, LEN);
        assert_eq!(read, WcStatus::Success, "READ, round {round}");
        assert!(far.bytes(0, LEN) == block, "what arrived in round {round}");
        assert!(
            self.bytes(LEN, LEN) == block,
            "what was read in round {round}"
        );
    }

    /// Transfers `rounds` times and, beyond that, until `attack` ends, which runs at the same time.
    pub(super) fn transfer_during(
        &self,
        far: &Half<'_>,
        rounds: RangeInclusive<u32>,
        attack: impl FnOnce() + Send,
    ) {
        thread::scope(|scope| {
            let attack = scope.spawn(attack);
            let mut round = 0;
            while round < *rounds.start() || (!attack.is_finished() && round < *rounds.end()) {
                self.transfer(far, round);
                round += 1;
            }
        });
    }
}
