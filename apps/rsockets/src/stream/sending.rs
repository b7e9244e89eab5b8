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

/// Maximum number of inline bytes.
const MAX_INLINE: usize = 512;

impl Stream {
    /// Sends as many bytes of `data` as the peer and the send buffer have room for.
    pub(crate) fn send(&mut self, data: &mut Gather<'_>) -> Result<usize, Errno> {
        if !self.can_send() {
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

    /// Copies the next bytes of `data` into stretches of the send buffer and posts a request for them.
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
            // The send queue cannot be full, so the QP is in ERR. A completion that has not been handled
            // yet may have the cause.
            self.abort(Errno::ECONNRESET);
            Errno::ECONNRESET
        })
    }

    /// Takes the peer's next offer once the current stretch is full.
    pub(super) fn take_offer(&mut self) {
        if !self.outbox.needs_room() {
            return;
        }
        let mut bytes = [0; ELEMENT_LEN];
        let place = self.next_offer * ELEMENT_LEN;
        // Cannot fail: the places lie in the region.
        let _ = self.endpoint.offers.read(place, &mut bytes);
        let offer = Element::parse(&bytes, ByteOrder::NATIVE);
        if offer.len > 0 {
            let _ = self.endpoint.offers.write(place, &[0; ELEMENT_LEN]);
            self.next_offer = (self.next_offer + 1) % ELEMENTS;
            self.outbox.set_room(offer);
        }
    }

    /// Sends a control message as soon as there is a place in the send queue.
    pub(super) fn queue_control(&mut self, control: Control) {
        if self.end == End::Open {
            self.unsent = Some(control);
            self.send_pending();
        }
    }

    /// Sends pending control messages and grants.
    pub(super) fn send_pending(&mut self) {
        if !self.can_send() {
            return;
        }
        // Control messages have places of their own, behind any data in the send queue.
        if self.unsent.is_some() && self.outbox.plan_control() {
            let control = self.unsent.take();
            if let Some(control) = control {
                self.post_control(control);
            }
        }
        while self.end == End::Open && self.peer_needs_credits() && self.outbox.plan_control() {
            let Some(grant) = self.inbox.grant() else {
                self.outbox.undo_plan_control();
                break;
            };
            self.post_grant(&grant);
        }
    }

    /// Sends a keepalive probe, which the peer's NIC acknowledges. Returns whether the connection is still
    /// open.
    pub(crate) fn send_keepalive_probe(&mut self) -> bool {
        if self.can_send() && self.outbox.plan_control() {
            self.post_control(Control::KeepAlive);
        }
        self.end == End::Open
    }

    /// Whether credits are still of use to the peer.
    fn peer_needs_credits(&self) -> bool {
        self.reads && !matches!(self.link, Link::Gone)
    }

    fn post_control(&mut self, control: Control) {
        let imm = Message::Control(control).encode();
        // If this fails, the connection is over anyway.
        let _ = self.post(SendOp::WriteImm(NOWHERE, imm), Payload::Elements(&[]));
        if control == Control::Disconnect && self.end == End::Open {
            self.end = End::Disconnected;
        }
    }

    fn post_grant(&mut self, grant: &Grant) {
        let imm = Message::Credits(grant.credits).encode();
        let Some(room) = &grant.room else {
            // If this fails, the connection is over, which is reported to the program.
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

    /// Whether a send would not block: there is room, or an error.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_write_closed() || self.can_send() && self.outbox.is_writable()
    }

    /// Whether no further bytes can be sent.
    pub(crate) fn is_write_closed(&self) -> bool {
        !self.writes || self.end != End::Open
    }
}

/// The address of a message without bytes, which accesses no memory.
const NOWHERE: RemoteAddr = RemoteAddr { addr: 0, rkey: 0 };
