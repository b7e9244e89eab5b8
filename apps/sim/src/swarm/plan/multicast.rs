//! The part of a plan about multicast groups.

use roce_stack::RoceVersion;

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
    pub(in crate::swarm) fn groups(&self) -> usize {
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
