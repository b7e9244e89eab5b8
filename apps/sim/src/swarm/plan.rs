//! The plan of a seed: all parts of a run, as data that can be reduced.

use crate::connect::ConnectSpec;
use crate::fabric::{HostSpec, LinkSpec, SwitchSpec};
use roce_faults::FaultSpec;
use roce_stack::{Access, CongestionSettings, MwType, Notify, QpKind, RateLimit, RoceVersion};

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the plan, which is also that of the fabric.
    pub seed: u64,
    /// The hosts.
    pub hosts: Vec<HostSpec>,
    /// The switches, in a row. Without any, there are two hosts and a cable.
    pub switches: Vec<SwitchSpec>,
    /// The switch that each host is connected to.
    pub attached: Vec<usize>,
    /// The parameters of all cables.
    pub link: LinkSpec,
    /// Whether no packet is lost or late, so that retries must not run out.
    pub lossless: bool,
    /// The shared receive queue of each host.
    pub srqs: Vec<SrqPlan>,
    /// The two XRC shared receive queues of each host, if any.
    pub xrc_srqs: Vec<[SrqPlan; 2]>,
    /// The CQ of each host that some of its QPs share.
    pub cqs: Vec<Option<CqPlan>>,
    /// The congestion settings of each host; the default where there are none.
    pub congestion: Vec<CongestionSettings>,
    /// The CQ of each host for receives of XRC targets.
    pub xrc_cq: CqPlan,
    /// Connections.
    pub pairs: Vec<PairPlan>,
    /// Whether the words for atomics of each host are on demand; none if there are no entries.
    pub on_demand_words: Vec<bool>,
    /// The retries of messages of the connection manager, where packets may be lost.
    pub cm_retries: u8,
    /// Multicast groups.
    pub multicast: MulticastPlan,
    /// Faults of cables, with their times.
    pub faults: Vec<FaultPlan>,
    /// Disruptive actions of applications and hosts.
    pub disruptions: Vec<Disruption>,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct SrqPlan {
    /// The capacity in receives.
    pub depth: usize,
    /// The number of receives to keep posted.
    pub ahead: usize,
    /// Delay before the host posts the next one, in ns.
    pub gap_ns: u64,
    /// The limit for an event when fewer are left; 0 for none.
    pub limit: usize,
}

/// A completion queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqPlan {
    /// The number of entries; `None` for enough entries for all completions.
    pub entries: Option<usize>,
    /// How long completions wait until the application polls them, in ns.
    pub poll_delay_ns: u64,
    /// The completions that raise events, if the application requests any. With [`Notify::Next`] it
    /// sleeps until an event comes.
    pub notify: Option<Notify>,
}

/// A connection between two hosts, and the requests of both ends.
#[derive(Clone, Debug)]
pub struct PairPlan {
    /// Two different hosts.
    pub hosts: [usize; 2],
    /// The service and the parameters of the connection.
    pub connect: ConnectSpec,
    /// Which ends use their host's shared receive queue.
    pub shared: [bool; 2],
    /// The capacity of a queue in requests.
    pub depth: usize,
    /// The maximum number of scatter/gather elements of a request.
    pub max_sge: usize,
    /// The maximum number of bytes of inline data.
    pub max_inline: usize,
    /// Whether every send is signaled.
    pub signal_all: bool,
    /// Whether sends and receives complete in one queue.
    pub one_cq: bool,
    /// The CQs of each end.
    pub cqs: [CqPlan; 2],
    /// Which ends use their host's CQ instead.
    pub in_host_cq: [bool; 2],
    /// The number of receives to keep posted.
    pub recvs_ahead: usize,
    /// Delay before an end posts the next receive, in ns.
    pub recv_gap_ns: u64,
    /// When the connection starts, in ns.
    pub start_ns: u64,
    /// The size of the memory that the peer may WRITE and READ, in bytes.
    pub target_bytes: usize,
    /// The pair that this one replaces after one of the hosts was restarted. Its regions have the
    /// same addresses, and its QPs may have the same numbers.
    pub follows: Option<usize>,
    /// Whether the connection is made by messages of the connection manager.
    pub managed: bool,
    /// Which of each flow's regions are on demand: out, target, inbox.
    pub on_demand: [[bool; 3]; 2],
    /// The memory windows of each end's target, which the other end uses.
    pub windows: [Vec<WindowPlan>; 2],
    /// The requests of each end, in order.
    pub ops: [Vec<Op>; 2],
}

/// A memory window.
#[derive(Clone, Copy, Debug)]
pub struct WindowPlan {
    /// Its type.
    pub kind: MwType,
    /// The access that it is bound for.
    pub access: Access,
    /// Whether the peer addresses it from 0.
    pub zero_based: bool,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operations of the verbs API")]
pub enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    Increment,
    Swap,
    SendInvalidate,
    Flush,
    AtomicWrite,
    Bind,
    LocalInv,
}

impl Kind {
    /// The kinds that need packets.
    pub const REMOTE: [Self; 10] = [
        Self::Send,
        Self::SendImm,
        Self::Write,
        Self::WriteImm,
        Self::Read,
        Self::Increment,
        Self::Swap,
        Self::SendInvalidate,
        Self::Flush,
        Self::AtomicWrite,
    ];

    /// The kinds that are executed locally.
    pub const LOCAL: [Self; 2] = [Self::Bind, Self::LocalInv];

    /// Whether QPs of the service support the operation.
    pub fn is_supported_by(self, service: QpKind) -> bool {
        match service {
            QpKind::Ud => matches!(self, Self::Send | Self::SendImm),
            QpKind::Uc => matches!(
                self,
                Self::Send | Self::SendImm | Self::Write | Self::WriteImm
            ),
            _ => true,
        }
    }

    /// Whether the peer consumes a receive for the operation.
    pub fn consumes_receive(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm | Self::SendInvalidate | Self::WriteImm
        )
    }

    /// Whether the operation is executed locally, without packets.
    pub fn is_local(self) -> bool {
        Self::LOCAL.contains(&self)
    }

    /// Whether the operation works on 8 bytes.
    pub fn is_word(self) -> bool {
        matches!(self, Self::Increment | Self::Swap | Self::AtomicWrite)
    }
}

/// A deliberate fault in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The remote key does not exist.
    RemoteKey,
    /// The remote range exceeds the region.
    Bounds,
    /// The local key does not exist.
    LocalKey,
    /// The message is longer than the receive.
    TooLong,
    /// The Q_Key differs from the peer's.
    QKey,
    /// The XRC shared receive queue does not exist.
    Srq,
    /// The request asks for persistence, which the memory does not have.
    Persistence,
    /// The remote key was invalidated. Never drawn; it results from other actions.
    Invalidated,
    /// The window or the region does not allow it. Never drawn; it results from other actions.
    AccessRight,
    /// The region was moved to another address. Never drawn; it results from other actions.
    StaleAddress,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Its operation.
    pub kind: Kind,
    /// Its length; for a binding, the length of the window.
    pub len: usize,
    /// The offset in the target, or the index of the word.
    pub at: usize,
    /// The window of the target. A remote request accesses memory through it if it is bound. A
    /// local request binds or invalidates it.
    pub window: Option<usize>,
    /// Whether it uses or revokes a key without waiting for requests in flight.
    pub hasty: bool,
    /// The XRC shared receive queue that it names.
    pub srq: usize,
    /// The number of elements that the local memory is split into.
    pub elements: usize,
    /// Whether it is signaled.
    pub signaled: bool,
    /// Whether it waits for earlier READs and atomics.
    pub fence: bool,
    /// Whether its bytes are sent inline, if they are few enough.
    pub inline: bool,
    /// Whether it raises a solicited event.
    pub solicited: bool,
    /// Delay before the application posts it, in ns.
    pub gap_ns: u64,
    /// Its fault, if any.
    pub fault: Option<RequestFault>,
}

/// The start or end of a fault on a cable.
#[derive(Clone, Copy, Debug)]
pub struct FaultPlan {
    /// The time, in ns.
    pub at_ns: u64,
    /// The cable.
    pub cable: usize,
    /// The fault.
    pub what: CableFault,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub enum CableFault {
    /// Packets are subject to these faults from now on.
    Packets(FaultSpec),
    /// The cable is cut, or reconnected.
    Down(bool),
}

/// A disruptive action of an application or a host.
#[derive(Clone, Copy, Debug)]
pub struct Disruption {
    /// The time, in ns.
    pub at_ns: u64,
    /// The action.
    pub what: Action,
}

/// An action. A pair and a side identify a QP.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Destroys a QP.
    Destroy(usize, usize),
    /// Moves a QP to the error state.
    Break(usize, usize),
    /// Moves a QP to SQD, and back after this many ns.
    Drain(usize, usize, u64),
    /// Deregisters the memory that the QP's sends use.
    DropOut(usize, usize),
    /// Deregisters the memory at the peer that the QP's requests WRITE and READ.
    DropTarget(usize, usize),
    /// Deregisters the memory at the peer that receives the QP's messages.
    DropInbox(usize, usize),
    /// Frees a memory window of the peer that the QP uses.
    DropWindow(usize, usize, usize),
    /// Resizes a host's shared receive queue to this many receives.
    Resize(usize, usize),
    /// Requests an event when a host's shared receive queue has fewer than this many receives.
    Limit(usize, usize),
    /// Resizes the CQs of a QP to this many entries.
    ResizeCq(usize, usize, usize),
    /// Ends a connection by messages of the connection manager.
    Disconnect(usize, usize),
    /// Unmaps the pages of a flow's out (0), target (1) or inbox (2), if it is on demand.
    Unmap(usize, usize, usize),
    /// Registers the memory at the peer that the QP's requests WRITE and READ again.
    Reregister(usize, usize, Change),
    /// Limits the rate of a QP, or changes or removes the limit.
    LimitRate(usize, usize, RateLimit),
    /// Stops a host for this many ns.
    Pause(usize, u64),
    /// Restarts a host: all its QPs and regions are gone.
    Restart(usize),
    /// Restarts a host with a new NIC that assigns the same numbers and keys as the last one.
    RestartWithSameSeed(usize),
}

/// A change of a region that is registered again with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has these rights.
    Access(Access),
    /// It is asked for rights that no region can have, and stays as it is.
    Invalid,
    /// It moves to another protection domain than the QP's.
    OtherPd,
    /// It moves back to the protection domain of the QP.
    OwnPd,
    /// It consists of other memory.
    Memory {
        /// Whether it has another address, too. Only the first such change has an effect.
        shift: bool,
    },
}

/// Multicast groups: the QPs that join them, and those that send to them.
#[derive(Clone, Debug, Default)]
pub struct MulticastPlan {
    /// The QPs that join groups.
    pub members: Vec<MemberPlan>,
    /// The QPs that send to groups.
    pub senders: Vec<SenderPlan>,
}

impl MulticastPlan {
    /// The number of groups.
    pub(super) fn groups(&self) -> usize {
        let joined = self.members.iter().flat_map(|member| &member.memberships);
        joined
            .map(|membership| membership.group + 1)
            .max()
            .unwrap_or(0)
    }
}

/// A UD QP that joins groups.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    /// Its host.
    pub host: usize,
    /// The groups that it joins.
    pub memberships: Vec<Membership>,
    /// The number of receives to keep posted.
    pub ahead: usize,
    /// Delay before it posts the next receive, in ns.
    pub gap_ns: u64,
}

/// The time that a QP is attached to a group.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    /// The number of the group.
    pub group: usize,
    /// When the QP is attached, in ns.
    pub from_ns: u64,
    /// When it is detached, in ns; `None` if it stays.
    pub until_ns: Option<u64>,
    /// Whether it is attached twice, which has no effect.
    pub twice: bool,
}

/// A UD QP that sends to groups.
#[derive(Clone, Debug)]
pub struct SenderPlan {
    /// Its host.
    pub host: usize,
    /// The version of RoCE that carries its datagrams.
    pub version: RoceVersion,
    /// The capacity of its send queue in requests.
    pub depth: usize,
    /// Its datagrams, in order.
    pub datagrams: Vec<DatagramPlan>,
}

/// A datagram to a group.
#[derive(Clone, Copy, Debug)]
pub struct DatagramPlan {
    /// The number of the group.
    pub group: usize,
    /// Its length.
    pub len: usize,
    /// Whether it has immediate data.
    pub imm: bool,
    /// Whether its Q_Key differs from the members'.
    pub wrong_key: bool,
    /// Delay before the application posts it, in ns.
    pub gap_ns: u64,
}
