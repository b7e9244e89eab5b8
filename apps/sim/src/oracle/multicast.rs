//! Datagrams to multicast groups: each attached QP gets each of them once (IBTA 1.7, 10.5).

use super::area::{Area, Bytes, Content};
use super::arrive::MAX_COPIES;
use super::datagram::{HEADER_BYTES, Network};
use super::request::PostedRecv;
use super::{Causes, Oracle, Verdict, Violation, about, violated};
use roce_stack::{Completion, WcOpcode, WcStatus};
use std::collections::{BTreeMap, BTreeSet};

/// A datagram to a group.
#[derive(Clone, Debug)]
pub struct GroupDatagram {
    /// The number of its sender.
    pub sender: usize,
    /// The sender's QP.
    pub qpn: u32,
    /// The number of the group.
    pub group: usize,
    /// The network layer.
    pub network: Network,
    /// The bytes.
    pub bytes: Bytes,
    /// The immediate data, which no other datagram has.
    pub imm: Option<u32>,
    /// Whether it has the Q_Key of the members. Otherwise it never arrives.
    pub has_key: bool,
}

/// A QP that joins groups, and its receives.
#[derive(Debug)]
struct Member {
    area: Area,
    posted: BTreeMap<u64, PostedRecv>,
    /// The groups that it is attached to.
    groups: BTreeSet<usize>,
    /// The groups that it has ever been attached to.
    known: BTreeSet<usize>,
    /// The number of arrivals of each datagram.
    arrived: BTreeMap<usize, u8>,
    /// The newest datagram from each sender.
    newest: BTreeMap<usize, usize>,
    /// Datagrams that must arrive and have not arrived yet.
    due: BTreeSet<usize>,
    closed: bool,
}

/// All members and datagrams.
#[derive(Debug, Default)]
pub(super) struct Multicast {
    causes: Causes,
    members: Vec<Member>,
    datagrams: Vec<GroupDatagram>,
}

impl Member {
    /// The oldest receive, which has completed.
    fn take(&mut self, wr_id: u64) -> Result<PostedRecv, Violation> {
        let first = self.posted.first_key_value().map(|(id, _)| *id);
        match self.posted.remove(&wr_id) {
            Some(recv) if first == Some(wr_id) => Ok(recv),
            _ => violated(format!("receive {wr_id} instead of {first:?}")),
        }
    }

    /// Whether a receive has the bytes of a datagram.
    fn holds(&self, recv: PostedRecv, bytes: &[u8]) -> bool {
        let from = recv.at + HEADER_BYTES;
        let to = from + bytes.len();
        to <= recv.at + recv.len && self.area.actual(from..to) == bytes
    }

    /// Whether nothing follows the datagram in its receive.
    fn ends_after(&self, recv: PostedRecv, len: usize) -> bool {
        let rest = recv.at + HEADER_BYTES + len..recv.at + recv.len;
        self.area.actual(rest.clone()) == self.area.image(rest)
    }

    fn close(&mut self) -> Verdict {
        self.closed = true;
        self.due.clear();
        self.groups.clear();
        self.area.freeze()
    }
}

impl Multicast {
    /// The datagrams that may still arrive at a member.
    fn unresolved(&self, member: &Member) -> usize {
        let open = |(id, datagram): &(usize, &GroupDatagram)| {
            member.known.contains(&datagram.group) && !member.arrived.contains_key(id)
        };
        self.datagrams.iter().enumerate().filter(open).count()
    }

    fn post(&mut self, datagram: GroupDatagram) {
        let id = self.datagrams.len();
        let has_receive = |member: &Member| member.posted.len() > self.unresolved(member);
        let has_receive: Vec<bool> = self.members.iter().map(has_receive).collect();
        for (member, has_receive) in self.members.iter_mut().zip(has_receive) {
            if !datagram.has_key || !member.known.contains(&datagram.group) {
                continue;
            }
            if !has_receive {
                // It may take the receive that another sender's datagram would have found.
                let same = |id: &usize| self.datagrams[*id].sender == datagram.sender;
                member.due.retain(same);
            } else if !self.causes.lossy && member.groups.contains(&datagram.group) {
                member.due.insert(id);
            }
        }
        self.datagrams.push(datagram);
    }

    /// The datagram that a receive holds.
    fn find(&self, member: &Member, recv: PostedRecv, done: &Completion) -> Option<usize> {
        let is_it = |datagram: &GroupDatagram| {
            let len = HEADER_BYTES + datagram.bytes.len();
            (datagram.imm, len as u32) == (done.imm, done.byte_len)
                && done.source.map(|source| source.qpn.get()) == Some(datagram.qpn)
                && member.holds(recv, &datagram.bytes)
        };
        self.datagrams.iter().position(is_it)
    }

    fn arrive(&mut self, number: usize, done: &Completion) -> Verdict {
        if (done.status, done.opcode) != (WcStatus::Success, WcOpcode::Recv) {
            return violated("a receive of a member has no reason to fail".to_owned());
        }
        let recv = self.members[number].take(done.wr_id)?;
        let member = &self.members[number];
        let Some(id) = self.find(member, recv, done) else {
            return violated("no datagram to a group matches".to_owned());
        };
        let datagram = &self.datagrams[id];
        let header = member.area.actual(recv.at..recv.at + HEADER_BYTES);
        let kind = done.source.map(|source| source.network);
        if kind != Some(datagram.network.header) || !datagram.network.has_header(&header) {
            return violated(format!("it lacks the header of {:?}", datagram.network));
        }
        if !datagram.has_key {
            return violated(format!("datagram {id} has another Q_Key"));
        }
        if !member.groups.contains(&datagram.group) {
            return violated(format!("datagram {id} is to a group without this member"));
        }
        if !member.ends_after(recv, datagram.bytes.len()) {
            return violated(format!("the receive holds more than datagram {id}"));
        }
        let sender = datagram.sender;
        self.members[number].area.settle(done.wr_id as usize);
        self.check_order(number, sender, id)
    }

    /// Checks how often, and after which others, a datagram arrived.
    fn check_order(&mut self, number: usize, sender: usize, id: usize) -> Verdict {
        let Causes {
            duplicates,
            reorders,
            ..
        } = self.causes;
        let member = &mut self.members[number];
        member.due.remove(&id);
        let copies = member.arrived.entry(id).or_default();
        *copies += 1;
        if *copies > if duplicates { MAX_COPIES } else { 1 } {
            return violated(format!("datagram {id} arrived {copies} times"));
        }
        let newest = member.newest.entry(sender).or_insert(id);
        if *newest > id && !duplicates && !reorders {
            return violated(format!("datagram {id} arrived after {newest}"));
        }
        *newest = id.max(*newest);
        Ok(())
    }
}

impl Oracle {
    /// The permitted fates of datagrams to groups.
    pub fn multicast_causes(&mut self, causes: Causes) {
        self.multicast.causes = causes;
    }

    /// A QP was made that joins groups, and receives in `area`. Returns its number.
    pub fn member_created(&mut self, area: Area) -> usize {
        self.multicast.members.push(Member {
            area,
            posted: BTreeMap::new(),
            groups: BTreeSet::new(),
            known: BTreeSet::new(),
            arrived: BTreeMap::new(),
            newest: BTreeMap::new(),
            due: BTreeSet::new(),
            closed: false,
        });
        self.multicast.members.len() - 1
    }

    /// A receive of a member was accepted; later ones have higher numbers.
    pub fn member_posted(&mut self, member: usize, wr_id: u64, recv: PostedRecv) {
        let member = &mut self.multicast.members[member];
        let anything = Content::Anything(recv.len);
        member.area.begin(wr_id as usize, recv.at, anything);
        member.posted.insert(wr_id, recv);
    }

    /// The number of a member's receives that have not completed.
    pub fn outstanding_of_member(&self, member: usize) -> usize {
        self.multicast.members[member].posted.len()
    }

    /// A member was attached to a group.
    pub fn member_attached(&mut self, member: usize, group: usize) {
        let member = &mut self.multicast.members[member];
        member.groups.insert(group);
        if member.known.insert(group) {
            // Datagrams that are already on their way to the group may take any receive.
            member.due.clear();
        }
    }

    /// A member was detached from a group, after its completions were polled.
    pub fn member_detached(&mut self, member: usize, group: usize) {
        let Multicast {
            members, datagrams, ..
        } = &mut self.multicast;
        let member = &mut members[member];
        member.groups.remove(&group);
        member.due.retain(|id| datagrams[*id].group != group);
    }

    /// A member's QP was destroyed, after its completions were polled.
    ///
    /// # Errors
    /// If the contents of memory break a promise.
    pub fn member_destroyed(&mut self, member: usize) -> Verdict {
        self.multicast.members[member].close()
    }

    /// A datagram to a group was accepted.
    pub fn datagram_posted(&mut self, datagram: GroupDatagram) {
        self.multicast.post(datagram);
    }

    /// A receive of a member has completed.
    ///
    /// # Errors
    /// If the datagram breaks a promise.
    pub fn datagram_arrived(&mut self, member: usize, done: &Completion) -> Verdict {
        let arrived = self.multicast.arrive(member, done);
        arrived.map_err(|Violation(what)| Violation(format!("member {member}: {what} ({done:?})")))
    }

    /// Checks the members of groups when the network is idle.
    ///
    /// # Errors
    /// If a datagram is missing, or the contents of memory break a promise.
    pub fn check_multicast_idle(&self) -> Verdict {
        for (number, member) in self.multicast.members.iter().enumerate() {
            if let Some(id) = member.due.first() {
                return violated(format!("member {number}: datagram {id} never arrived"));
            }
            member
                .area
                .check_all()
                .map_err(about(format_args!("member {number}")))?;
        }
        Ok(())
    }
}
