//! Multicast groups: QPs that join them and leave, and QPs that send to them.

use super::memory::{Region, pattern};
use super::paths::network_header;
use super::plan::{DatagramPlan, MemberPlan, Membership, SenderPlan};
use super::state::{DatagramQp, Member, Run, Sender, Token};
use crate::connect::QKEY;
use crate::fabric::HostId;
use crate::oracle::{
    Causes, GroupDatagram, HEADER_BYTES, Network, PostedRecv, Verdict, Violation, about, violated,
};
use roce_stack::{
    AddressHandle, Completion, CompletionQueue, CqId, Destination, Duration, Instant, PostError,
    QpAttributes, QpInit, QpKind, QpState, QueueLimits, RecvRequest, SendFlags, SendOp,
    SendRequest, TxMeta, WcStatus,
};
use roce_wire::{Psn, Qpn};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The maximum number of memberships of a member, for the numbers of calls.
const MAX_MEMBERSHIPS: usize = 16;

/// How long an application waits if its queue is full, or its host is paused.
const RETRY: Duration = Duration::from_micros(50);

/// The names of regions of members and senders begin here.
const FIRST_REGION: usize = 4000;

/// Bytes between two ranges, which must stay unchanged.
const GAP: usize = 16;

impl Run<'_> {
    /// Makes the QPs of all groups, and schedules what they do.
    pub(super) fn make_groups(&mut self) -> Verdict {
        let plan = &self.plan.multicast;
        let causes = self.causes_of_packets();
        self.oracle.multicast_causes(Causes {
            lossy: !self.plan.lossless,
            ..causes
        });
        for (number, member) in plan.members.iter().enumerate() {
            self.make_member(number, member)?;
        }
        for (number, sender) in plan.senders.iter().enumerate() {
            self.make_sender(number, sender)?;
        }
        Ok(())
    }

    fn make_member(&mut self, number: usize, plan: &MemberPlan) -> Verdict {
        let all = self.plan.multicast.senders.iter();
        let longest = all
            .flat_map(|sender| &sender.datagrams)
            .map(|d| d.len)
            .max();
        let len = HEADER_BYTES + longest.unwrap_or(0);
        let region = (FIRST_REGION + number, plan.ahead * (len + GAP));
        let qp = self.make_datagram_qp(HostId(plan.host), plan.ahead, region)?;
        self.oracle.member_created(qp.region.area());
        self.groups.members.push(Member {
            qp,
            len,
            next: 0,
            refill_at: Instant::ZERO,
            left: BTreeSet::new(),
        });
        for (index, membership) in plan.memberships.iter().enumerate() {
            let name = number * MAX_MEMBERSHIPS + index;
            let at = Instant::from_nanos(membership.from_ns);
            match membership.from_ns {
                0 => self.join_group(name)?,
                _ => self.call_at(at, Token::JoinGroup(name)),
            }
            if let Some(until) = membership.until_ns {
                let at = Instant::from_nanos(until);
                self.call_at(at, Token::LeaveGroup(name));
            }
        }
        self.post_member_receives(number)
    }

    fn make_sender(&mut self, number: usize, plan: &SenderPlan) -> Verdict {
        let mut len = 0;
        let mut at = Vec::new();
        for datagram in &plan.datagrams {
            at.push(len);
            len += datagram.len + GAP;
        }
        let region = (FIRST_REGION + 100 + number, len);
        let qp = self.make_datagram_qp(HostId(plan.host), plan.depth, region)?;
        self.groups.senders.push(Sender {
            qp,
            at,
            posted: 0,
            completed: 0,
            send_at: Instant::ZERO,
        });
        self.call_at(Instant::from_nanos(1), Token::SendDatagrams(number));
        Ok(())
    }

    fn make_datagram_qp(
        &mut self,
        host: HostId,
        depth: usize,
        (name, len): (usize, usize),
    ) -> Result<DatagramQp, Violation> {
        let failed = |what: String| Violation(format!("a QP for multicasts: {what}"));
        let pd = self.hosts[host.0].pd;
        // These CQs are not among those of pairs, and never overrun.
        let cq = Arc::new(CompletionQueue::new(CqId(u64::MAX), 2 * depth));
        let limits = QueueLimits { depth, max_sge: 1 };
        let init = QpInit {
            kind: QpKind::Ud,
            pd,
            send_cq: Arc::clone(&cq),
            recv_cq: Arc::clone(&cq),
            send: limits,
            recv: limits,
            max_inline: 0,
            signal_all: true,
        };
        let now = self.fabric.now();
        let nic = self.fabric.nic(host);
        let qpn = nic.create_qp(init).map_err(|e| failed(e.to_string()))?;
        for attributes in transitions() {
            nic.modify_qp(now, qpn, &attributes)
                .map_err(|e| failed(e.to_string()))?;
        }
        let region = Region::new(nic, pd, name, len, false)?;
        Ok(DatagramQp {
            host,
            qpn,
            cq,
            region,
            alive: true,
        })
    }

    /// The address of a group.
    fn group_address(&self, group: usize) -> IpAddr {
        let last = group as u8 + 1;
        match self.fabric.address(HostId(0)) {
            IpAddr::V4(_) => Ipv4Addr::new(239, 1, 0, last).into(),
            IpAddr::V6(_) => Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, last.into()).into(),
        }
    }

    fn membership(&self, name: usize) -> (usize, Membership) {
        let (number, index) = (name / MAX_MEMBERSHIPS, name % MAX_MEMBERSHIPS);
        let member = &self.plan.multicast.members[number];
        (number, member.memberships[index])
    }

    /// Attaches a member to a group, unless its host is paused: then later.
    pub(super) fn join_group(&mut self, name: usize) -> Verdict {
        let (number, membership) = self.membership(name);
        let DatagramQp {
            host, qpn, alive, ..
        } = self.groups.members[number].qp;
        // A host that was paused may come to both at the same time.
        if !alive || self.groups.members[number].left.contains(&name) {
            return Ok(());
        }
        if self.paused[host.0] {
            let later = self.fabric.now() + RETRY;
            self.call_at(later, Token::JoinGroup(name));
            return Ok(());
        }
        let group = self.group_address(membership.group);
        let is_empty = self.fabric.nic(host).multicast_members(group).is_empty();
        let attached = self.fabric.nic(host).attach_multicast(qpn, group);
        if attached != Ok(is_empty) {
            return violated(format!("member {number} joins {group}: {attached:?}"));
        }
        // The port joins the group for its first member.
        if attached == Ok(true) {
            self.fabric.join(host, group);
        }
        if membership.twice {
            let again = self.fabric.nic(host).attach_multicast(qpn, group);
            if again != Ok(false) {
                return violated(format!("member {number} joins {group} again: {again:?}"));
            }
        }
        self.oracle.member_attached(number, membership.group);
        Ok(())
    }

    /// Detaches a member from a group, unless its host is paused: then later.
    pub(super) fn leave_group(&mut self, name: usize) -> Verdict {
        let (number, membership) = self.membership(name);
        let DatagramQp {
            host, qpn, alive, ..
        } = self.groups.members[number].qp;
        if !alive {
            return Ok(());
        }
        if self.paused[host.0] {
            let later = self.fabric.now() + RETRY;
            self.call_at(later, Token::LeaveGroup(name));
            return Ok(());
        }
        self.poll_member(number)?;
        self.groups.members[number].left.insert(name);
        let group = self.group_address(membership.group);
        let members = self.fabric.nic(host).multicast_members(group);
        if !members.contains(&qpn) {
            return Ok(());
        }
        let others = self.fabric.nic(host).multicast_members(group).len() > 1;
        let detached = self.fabric.nic(host).detach_multicast(qpn, group);
        if detached != Ok(!others) {
            return violated(format!("member {number} leaves {group}: {detached:?}"));
        }
        if detached == Ok(true) {
            self.fabric.leave(host, group);
        }
        self.oracle.member_detached(number, membership.group);
        Ok(())
    }

    /// Posts as many receives of a member as planned.
    pub(super) fn post_member_receives(&mut self, number: usize) -> Verdict {
        let plan = &self.plan.multicast.members[number];
        loop {
            let now = self.fabric.now();
            let member = &mut self.groups.members[number];
            let host = member.qp.host;
            if !member.qp.alive || self.paused[host.0] {
                return Ok(());
            }
            if self.oracle.outstanding_of_member(number) >= plan.ahead {
                return Ok(());
            }
            if member.refill_at > now {
                let at = member.refill_at;
                self.call_at(at, Token::PostMemberReceives(number));
                return Ok(());
            }
            let wr_id = member.next;
            // Receives complete in order, so the slot is free.
            let at = wr_id as usize % plan.ahead * (member.len + GAP);
            let len = member.len;
            let (region, qpn) = (&member.qp.region, member.qp.qpn);
            let sges = region.sges(at, len, 1, region.key);
            let wr = RecvRequest { wr_id, sges: &sges };
            member.next += 1;
            member.refill_at = now + Duration::from_nanos(plan.gap_ns);
            let posted = self.fabric.nic(host).post_recv(now, qpn, &wr);
            posted.map_err(about(format_args!("member {number}, receive {wr_id}")))?;
            let at = Region::buffer_offset(at);
            self.outcome.counts.receives += 1;
            self.oracle
                .member_posted(number, wr_id, PostedRecv { at, len });
        }
    }

    /// Posts as many datagrams of a sender as possible.
    pub(super) fn send_datagrams(&mut self, number: usize) -> Verdict {
        let plan = &self.plan.multicast.senders[number];
        let host = HostId(plan.host);
        let mut next = None;
        while let Some(datagram) = plan.datagrams.get(self.groups.senders[number].posted) {
            let now = self.fabric.now();
            let sender = &self.groups.senders[number];
            if !sender.qp.alive {
                break;
            }
            if sender.send_at > now {
                next = Some(sender.send_at);
                break;
            }
            if self.paused[host.0] || !self.post_datagram(number, plan, datagram)? {
                next = Some(now + RETRY);
                break;
            }
            let sender = &mut self.groups.senders[number];
            sender.posted += 1;
            let gap = plan.datagrams.get(sender.posted).map_or(0, |d| d.gap_ns);
            sender.send_at = now + Duration::from_nanos(gap);
        }
        if let Some(at) = next {
            self.call_at(at, Token::SendDatagrams(number));
        }
        self.drive(host);
        self.poll_groups(host)
    }

    /// Posts a datagram. Returns whether the queue had space.
    fn post_datagram(
        &mut self,
        number: usize,
        plan: &SenderPlan,
        datagram: &DatagramPlan,
    ) -> Result<bool, Violation> {
        let failed = |what: String| Violation(format!("sender {number}: {what}"));
        let now = self.fabric.now();
        let sender = &self.groups.senders[number];
        let (host, qpn, id) = (sender.qp.host, sender.qp.qpn, sender.posted);
        let group = self.group_address(datagram.group);
        let salt = 0x6d63 << 40 | (number as u64) << 32 | id as u64;
        let bytes = pattern(salt, datagram.len);
        let imm = datagram.imm.then_some((number << 16 | id) as u32);
        let at = sender.at[id];
        let (region, buffer) = (&sender.qp.region, &sender.qp.region.buffer);
        buffer
            .write(Region::buffer_offset(at), &bytes)
            .map_err(|e| failed(e.to_string()))?;
        let sges = region.sges(at, datagram.len, 1, region.key);
        let path = TxMeta {
            src: self.fabric.address(host),
            dst: group,
            traffic_class: 2,
            hop_limit: 64,
            version: plan.version,
        };
        let pd = self.hosts[host.0].pd;
        let ah = self.fabric.nic(host).create_ah(pd, path);
        let to = group_destination(ah.map_err(|e| failed(e.to_string()))?, datagram);
        let op = imm.map_or(SendOp::Send, SendOp::SendImm);
        let request = SendRequest::new(id as u64, op, &sges)
            .with_flags(SendFlags::SIGNALED)
            .to(to);
        match self.fabric.nic(host).post_send(now, qpn, &request) {
            Ok(()) => {}
            Err(PostError::QueueFull { .. }) => return Ok(false),
            Err(error) => return Err(failed(format!("{datagram:?} refused: {error}"))),
        }
        self.outcome.counts.sends += 1;
        self.outcome.counts.multicasts += 1;
        self.oracle.datagram_posted(GroupDatagram {
            sender: number,
            qpn: qpn.get(),
            group: datagram.group,
            network: Network {
                header: network_header(plan.version, group),
                from: path.src,
                to: group,
            },
            bytes,
            imm,
            has_key: !datagram.wrong_key,
        });
        Ok(true)
    }

    /// Polls the members and senders of a host.
    pub(super) fn poll_groups(&mut self, host: HostId) -> Verdict {
        for number in 0..self.groups.members.len() {
            if self.groups.members[number].qp.host == host {
                self.poll_member(number)?;
                self.post_member_receives(number)?;
            }
        }
        for number in 0..self.groups.senders.len() {
            if self.groups.senders[number].qp.host == host {
                self.poll_sender(number)?;
            }
        }
        Ok(())
    }

    fn poll_member(&mut self, number: usize) -> Verdict {
        let cq = Arc::clone(&self.groups.members[number].qp.cq);
        while let Some(done) = poll(&cq)? {
            self.outcome.counts.multicast_arrivals += 1;
            self.count_completion(&done);
            self.oracle.datagram_arrived(number, &done)?;
        }
        Ok(())
    }

    fn poll_sender(&mut self, number: usize) -> Verdict {
        let cq = Arc::clone(&self.groups.senders[number].qp.cq);
        while let Some(done) = poll(&cq)? {
            self.count_completion(&done);
            let sender = &mut self.groups.senders[number];
            if (done.wr_id, done.status) != (sender.completed, WcStatus::Success) {
                return violated(format!(
                    "sender {number}: datagram {} should complete: {done:?}",
                    sender.completed
                ));
            }
            sender.completed += 1;
        }
        Ok(())
    }

    /// A host restarts: its members and senders are gone.
    pub(super) fn forget_groups(&mut self, host: HostId) -> Verdict {
        self.poll_groups(host)?;
        for number in 0..self.groups.members.len() {
            let qp = &mut self.groups.members[number].qp;
            if qp.host == host && core::mem::replace(&mut qp.alive, false) {
                self.oracle.member_destroyed(number)?;
            }
        }
        for sender in &mut self.groups.senders {
            sender.qp.alive &= sender.qp.host != host;
        }
        Ok(())
    }

    /// Checks the members and senders at the end of a run.
    pub(super) fn check_groups(&mut self) -> Verdict {
        for host in 0..self.hosts.len() {
            self.poll_groups(HostId(host))?;
        }
        for (number, sender) in self.groups.senders.iter().enumerate() {
            let planned = self.plan.multicast.senders[number].datagrams.len();
            let is_done = sender.posted == planned && sender.completed == planned as u64;
            if sender.qp.alive && !is_done {
                return violated(format!(
                    "sender {number} has posted {} of {planned} datagrams, {} have completed",
                    sender.posted, sender.completed
                ));
            }
        }
        self.oracle.check_multicast_idle()
    }

    /// Destroys the members and senders.
    pub(super) fn destroy_groups(&mut self) -> Verdict {
        let groups = core::mem::take(&mut self.groups);
        let members = groups.members.into_iter().map(|member| member.qp);
        let senders = groups.senders.into_iter().map(|sender| sender.qp);
        for qp in members.chain(senders).filter(|qp| qp.alive) {
            let nic = self.fabric.nic(qp.host);
            if !nic.destroy_qp(qp.qpn) || !nic.deregister(qp.region.key) {
                return violated(format!("QP {} of a group is not there", qp.qpn));
            }
        }
        for group in 0..self.plan.multicast.groups() {
            let group = self.group_address(group);
            for host in 0..self.hosts.len() {
                let left = self.fabric.nic(HostId(host)).multicast_members(group);
                if !left.is_empty() {
                    return violated(format!("QPs {left:?} are still in {group}"));
                }
            }
        }
        Ok(())
    }
}

fn poll(cq: &CompletionQueue) -> Result<Option<Completion>, Violation> {
    cq.poll().map_err(|error| Violation(error.to_string()))
}

fn group_destination(ah: AddressHandle, datagram: &DatagramPlan) -> Destination {
    let mut to = ah.to(Qpn::MULTICAST, QKEY);
    to.qkey.0 ^= u32::from(datagram.wrong_key);
    to
}

/// The attributes for INIT, RTR and RTS.
fn transitions() -> [QpAttributes; 3] {
    let state = |state| QpAttributes {
        state: Some(state),
        ..QpAttributes::default()
    };
    [
        QpAttributes {
            qkey: Some(QKEY),
            ..state(QpState::Init)
        },
        state(QpState::Rtr),
        QpAttributes {
            sq_psn: Some(Psn::new(0)),
            ..state(QpState::Rts)
        },
    ]
}
