//! What a seed stands for: everything that a run does, as data that can be cut down.

use crate::connect::ConnectSpec;
use crate::fabric::{HostSpec, LinkSpec, SwitchSpec};
use roce_port::fault::FaultSpec;
use roce_stack::{Access, QpKind, WindowType};

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from; also the seed of the fabric.
    pub seed: u64,
    /// The hosts.
    pub hosts: Vec<HostSpec>,
    /// The switches, in a row; without any, there are two hosts and a cable.
    pub switches: Vec<SwitchSpec>,
    /// The switch that each host is connected to.
    pub attached: Vec<usize>,
    /// All cables.
    pub link: LinkSpec,
    /// Nothing is lost and nothing late: retries may not run out.
    pub lossless: bool,
    /// The shared receive queue of each host.
    pub srqs: Vec<SrqPlan>,
    /// The two XRC shared receive queues of each host, if there are any.
    pub xrc_srqs: Vec<[SrqPlan; 2]>,
    /// The CQ of each host that some of its QPs share.
    pub cqs: Vec<Option<CqPlan>>,
    /// The CQ of each host for what XRC targets receive.
    pub xrc_cq: CqPlan,
    /// Connections.
    pub pairs: Vec<PairPlan>,
    /// What goes wrong on cables, and when.
    pub faults: Vec<FaultPlan>,
    /// What applications and hosts do at bad moments.
    pub mischief: Vec<Mischief>,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct SrqPlan {
    /// Receives that it holds.
    pub depth: usize,
    /// Receives that are kept posted.
    pub ahead: usize,
    /// How long the host waits before it posts the next one, in ns.
    pub gap_ns: u64,
    /// The host wants to hear when fewer are left; 0 if it does not.
    pub limit: usize,
}

/// A completion queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqPlan {
    /// How many entries it has; `None` if there are enough for everything.
    pub room: Option<usize>,
    /// How long completions wait until the application takes them, in ns.
    pub lazy_ns: u64,
}

/// A connection between two hosts, and what both ends do with it.
#[derive(Clone, Debug)]
pub struct PairPlan {
    /// Two hosts, not the same.
    pub hosts: [usize; 2],
    /// Of which service it is, and how it is connected.
    pub connect: ConnectSpec,
    /// Which ends take their receives from their host's shared queue.
    pub shared: [bool; 2],
    /// Requests that a queue holds.
    pub depth: usize,
    /// Scatter/gather elements of a request.
    pub max_sge: usize,
    /// Bytes that a request may carry in itself.
    pub max_inline: usize,
    /// Every send asks for a completion.
    pub signal_all: bool,
    /// Sends and receives complete in one queue.
    pub one_cq: bool,
    /// The queues of each end,
    pub cqs: [CqPlan; 2],
    /// or it uses that of its host.
    pub in_host_cq: [bool; 2],
    /// Receives that are kept posted.
    pub recvs_ahead: usize,
    /// How long an end waits before it posts the next receive, in ns.
    pub recv_gap_ns: u64,
    /// When it begins, in ns.
    pub start_ns: u64,
    /// The size of the memory that the peer may WRITE and READ.
    pub target_bytes: usize,
    /// It takes the place of that pair after one of the hosts was restarted: its regions
    /// have the same addresses, and its QPs may have the same numbers.
    pub follows: Option<usize>,
    /// The memory windows of the target of each end, which the other end binds.
    pub windows: [Vec<WindowPlan>; 2],
    /// What each end does, in order.
    pub ops: [Vec<Op>; 2],
}

/// A memory window.
#[derive(Clone, Copy, Debug)]
pub struct WindowPlan {
    /// Of which type.
    pub kind: WindowType,
    /// What it is bound for.
    pub access: Access,
    /// The peer counts from its first byte.
    pub zero_based: bool,
}

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operations that everybody knows")]
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
    /// Those that packets are sent for.
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

    /// Those that are done where they are posted.
    pub const LOCAL: [Self; 2] = [Self::Bind, Self::LocalInv];

    /// Whether QPs of the service do it.
    pub fn is_of(self, service: QpKind) -> bool {
        match service {
            QpKind::Ud => matches!(self, Self::Send | Self::SendImm),
            QpKind::Uc => matches!(
                self,
                Self::Send | Self::SendImm | Self::Write | Self::WriteImm
            ),
            _ => true,
        }
    }

    /// Whether the peer consumes a receive for it.
    pub fn consumes_receive(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm | Self::SendInvalidate | Self::WriteImm
        )
    }

    /// Whether it needs no packet.
    pub fn is_local(self) -> bool {
        Self::LOCAL.contains(&self)
    }

    /// Whether it is about 8 bytes.
    pub fn is_word(self) -> bool {
        matches!(self, Self::Increment | Self::Swap | Self::AtomicWrite)
    }
}

/// What is wrong with a request on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The remote key is nobody's.
    RemoteKey,
    /// The remote range reaches beyond the region.
    Bounds,
    /// The local key is nobody's.
    LocalKey,
    /// The message is longer than the receive.
    TooLong,
    /// The Q_Key is not the peer's.
    QKey,
    /// The XRC shared receive queue is nobody's.
    Srq,
    /// What is asked for is persistence, which no memory has.
    Persistence,
    /// The remote key was taken away. Never drawn: it comes of itself.
    Invalidated,
    /// The window does not allow it. Never drawn: it comes of itself.
    Right,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What it does.
    pub kind: Kind,
    /// How long it is; of a binding, how long the window is.
    pub len: usize,
    /// Where in the target; or which word.
    pub at: usize,
    /// It uses this window of the target, if that is bound; or is about it.
    pub window: Option<usize>,
    /// It uses or takes away a key without regard for what is under way.
    pub hasty: bool,
    /// Which XRC shared receive queue it names.
    pub srq: usize,
    /// Into how many elements the local memory is split.
    pub elements: usize,
    /// It asks for a completion.
    pub signaled: bool,
    /// It waits for READs and atomics before it.
    pub fence: bool,
    /// Its bytes are copied when it is posted, if they are few enough.
    pub inline: bool,
    /// It raises a solicited event.
    pub solicited: bool,
    /// How long the application thinks before it posts it, in ns.
    pub gap_ns: u64,
    /// What is wrong with it.
    pub wrong: Option<Wrong>,
}

/// Something goes wrong on a cable, or ends to do so.
#[derive(Clone, Copy, Debug)]
pub struct FaultPlan {
    /// When, in ns.
    pub at_ns: u64,
    /// Which cable.
    pub cable: usize,
    /// What.
    pub what: Fault,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// From now on, packets suffer this.
    Packets(FaultSpec),
    /// The cable is cut, or mended.
    Down(bool),
}

/// Something that an application or a host does at a bad moment.
#[derive(Clone, Copy, Debug)]
pub struct Mischief {
    /// When, in ns.
    pub at_ns: u64,
    /// What.
    pub what: Act,
}

/// What is done. A pair and a side name a QP.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Destroys a QP.
    Destroy(usize, usize),
    /// Moves a QP to the error state.
    Break(usize, usize),
    /// Moves a QP to SQD, and after so many ns back.
    Drain(usize, usize, u64),
    /// Deregisters the memory that the QP's sends use.
    DropOut(usize, usize),
    /// Deregisters the memory at the peer that they WRITE and READ.
    DropTarget(usize, usize),
    /// Deregisters the memory at the peer that receives them.
    DropInbox(usize, usize),
    /// Frees a memory window of the peer's memory that the QP uses.
    DropWindow(usize, usize, usize),
    /// Gives a host's shared receive queue room for so many receives.
    Resize(usize, usize),
    /// Asks for an event when a host's shared receive queue has fewer receives.
    Limit(usize, usize),
    /// Gives the CQs of a QP so many entries.
    ResizeCq(usize, usize, usize),
    /// Stops a host for so many ns.
    Pause(usize, u64),
    /// Restarts a host: all its QPs and regions are gone.
    Restart(usize),
    /// The same, and the new NIC gives the numbers and keys again that the last one gave.
    RestartAlike(usize),
}
