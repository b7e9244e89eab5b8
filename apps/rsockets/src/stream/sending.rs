//! The sending half of a stream.

use super::endpoint::ELEMENTS;
use super::inbox::Grant;
use super::outbox::{LARGEST_TRANSFER, Transfer};
use super::{End, Gather, Link, MAX_UNSIGNALED, Stream};
use crate::wire::{ByteOrder, Control, ELEMENT_LEN, Element, Message};
use nix::errno::Errno;
use roce_verbs::RemoteAddr;
use roce_verbs::work::{Payload, SendOp, SendRequest};
use std::ops::Range;

/// The longest inline data.
const MAX_INLINE: usize = 512;

impl Stream {
    /// Sends bytes of `data`, as many as the peer and the send buffer have room for.
    pub(crate) fn send(&mut self, data: &mut Gather<'_>) -> Result<usize, Errno> {
        if !self.may_speak() {
            return Ok(0);
        }
        let before = data.left();
        while data.left() > 0 {
            self.take_offer();
            let wanted = data.left().min(LARGEST_TRANSFER);
            let inline = usize::from(self.endpoint.sizes.inline);
            let Some(plan) = self.outbox.plan(wanted, inline) else {
                break;
            };
            self.post_data(&plan, data)?;
        }
        Ok(before - data.left())
    }

    fn post_data(&mut self, plan: &Transfer, data: &mut Gather<'_>) -> Result<(), Errno> {
        let imm = Message::Data(plan.len as u32).encode();
        let to = RemoteAddr {
            addr: plan.address,
            rkey: plan.key,
        };
        if plan.stretches[0].is_empty() {
            let mut bytes = [0; MAX_INLINE];
            let bytes = &mut bytes[..plan.len];
            data.copy_to(bytes);
            let signaled = self.unsignaled + 1 >= MAX_UNSIGNALED;
            let request = SendRequest::new(0, SendOp::WriteImm(to, imm), Payload::Inline(bytes));
            return self.post_request(&request.signaled(signaled), signaled);
        }
        self.post_from_ring(SendOp::WriteImm(to, imm), &plan.stretches, data)
    }

    /// Copies the next bytes of `data` into stretches of the send buffer, and posts a request that
    /// sends them.
    pub(super) fn post_from_ring(
        &mut self,
        op: SendOp,
        stretches: &[Range<usize>; 2],
        data: &mut Gather<'_>,
    ) -> Result<(), Errno> {
        let region = &self.endpoint.send;
        let element = |stretch: &Range<usize>| {
            let element = region.slice(stretch.start, stretch.len());
            element.map_err(|_| Errno::EINVAL)
        };
        for stretch in stretches {
            data.copy_to_region(region, stretch.clone());
        }
        let [first, second] = stretches;
        let elements = [element(first)?, element(second)?];
        let used = if second.is_empty() { 1 } else { 2 };
        self.post(op, Payload::Elements(&elements[..used]))
    }

    pub(super) fn post(&mut self, op: SendOp, payload: Payload<'_>) -> Result<(), Errno> {
        self.post_request(&SendRequest::new(0, op, payload), true)
    }

    fn post_request(&mut self, request: &SendRequest<'_>, signaled: bool) -> Result<(), Errno> {
        let Some(qp) = self.qp() else {
            return Err(Errno::ECONNRESET);
        };
        let posted = qp.post_send(request);
        self.unsignaled += 1;
        if signaled {
            self.signaled
                .push_back(std::mem::take(&mut self.unsignaled));
        }
        posted.map_err(|_| {
            // The places in the send queue are counted, so the QP is in ERR. A completion that
            // has not been handled yet may say why.
            self.break_off(Errno::ECONNRESET);
            Errno::ECONNRESET
        })
    }

    /// Takes the next stretch that the peer has offered, once the one before it is full.
    pub(super) fn take_offer(&mut self) {
        if !self.outbox.needs_room() {
            return;
        }
        let mut bytes = [0; ELEMENT_LEN];
        let place = self.next_offer * ELEMENT_LEN;
        // The places lie in the region.
        let _ = self.endpoint.offers.read(place, &mut bytes);
        let offer = Element::parse(&bytes, ByteOrder::NATIVE);
        if offer.len > 0 {
            let _ = self.endpoint.offers.write(place, &[0; ELEMENT_LEN]);
            self.next_offer = (self.next_offer + 1) % ELEMENTS;
            self.outbox.set_room(offer);
        }
    }

    /// Sends a message about the connection, as soon as there is a place in the send queue.
    pub(super) fn say(&mut self, control: Control) {
        if self.end == End::Open {
            self.unsent = Some(control);
            self.speak();
        }
    }

    /// Sends the messages that are due.
    pub(super) fn speak(&mut self) {
        if !self.may_speak() {
            return;
        }
        // Data that wait in the send queue go first, and there is always a place for this.
        if self.unsent.is_some() && self.outbox.plan_control() {
            let control = self.unsent.take();
            if let Some(control) = control {
                self.say_now(control);
            }
        }
        while self.end == End::Open && self.reads_or_drains() && self.outbox.plan_control() {
            let Some(grant) = self.inbox.grant() else {
                self.outbox.unplan_control();
                break;
            };
            self.post_grant(&grant);
        }
    }

    /// Sends a message that the peer's NIC acknowledges, and that says nothing. Returns whether the
    /// connection goes on.
    pub(crate) fn ask_peer(&mut self) -> bool {
        if self.may_speak() && self.outbox.plan_control() {
            self.say_now(Control::KeepAlive);
        }
        self.end == End::Open
    }

    /// Whether the peer still has use for credits.
    fn reads_or_drains(&self) -> bool {
        self.reads && !matches!(self.link, Link::Gone)
    }

    fn say_now(&mut self, control: Control) {
        let imm = Message::Control(control).encode();
        // If this fails, the connection is over, which is what the message would have said.
        let _ = self.post(SendOp::WriteImm(NOWHERE, imm), Payload::Elements(&[]));
        if control == Control::Disconnect && self.end == End::Open {
            self.end = End::Disconnected;
        }
    }

    fn post_grant(&mut self, grant: &Grant) {
        let imm = Message::Credits(grant.credits).encode();
        let Some(room) = &grant.room else {
            // The connection is over if this fails, and the program is told so.
            let _ = self.post(SendOp::WriteImm(NOWHERE, imm), Payload::Elements(&[]));
            return;
        };
        let here = self.endpoint.receive.remote(room.start as u64);
        let element = Element {
            address: here.addr,
            key: here.rkey,
            len: room.len() as u32,
        };
        let place = u64::from(self.next_element) * ELEMENT_LEN as u64;
        self.next_element = (self.next_element + 1) % self.peer.elements.len;
        let to = RemoteAddr {
            addr: self.peer.elements.address.wrapping_add(place),
            rkey: self.peer.elements.key,
        };
        let bytes = element.encode(self.peer.order);
        let _ = self.post(SendOp::WriteImm(to, imm), Payload::Inline(&bytes));
    }

    /// Whether a program that wants to send need not wait: for room, or for an error.
    pub(crate) fn is_writable(&self) -> bool {
        self.sends_nothing() || self.may_speak() && self.outbox.is_writable()
    }

    /// Whether the peer gets no further bytes of this end.
    pub(crate) fn sends_nothing(&self) -> bool {
        !self.writes || self.end != End::Open
    }
}

/// Where a message without bytes goes. No memory is accessed, so any address does.
const NOWHERE: RemoteAddr = RemoteAddr { addr: 0, rkey: 0 };
