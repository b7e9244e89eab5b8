//! A peer that sends arbitrary messages, for the fuzz target `rsocket_wire`.

use super::inbox::{Grant, Inbox};
use super::outbox::Outbox;
use crate::wire::{ByteOrder, ConnectData, ELEMENT_LEN, Element, Message};

/// Runs both halves of a stream with a peer's messages and a program's calls from `script`, and checks
/// the invariants.
///
/// # Panics
/// If an invariant does not hold.
pub fn peer_says(data: &ConnectData, script: &[u8]) {
    const HALF: usize = 1000;
    const CREDITS: u16 = 20;
    const SEND_BUFFER: usize = 3000;
    let mut inbox = Inbox::new(HALF, CREDITS);
    let mut outbox = Outbox::new(SEND_BUFFER, 30, data.credits, data.buffer);
    let (mut known, mut announced, mut in_flight) = (HALF, 0, 0_usize);
    for step in script.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..step.len()].copy_from_slice(step);
        let [how, low, high, ..] = bytes;
        let number = usize::from(u16::from_le_bytes([low, high]));
        let [_, _, _, _, i0, i1, i2, i3] = bytes;
        match how % 6 {
            0 => match Message::parse(u32::from_be_bytes([i0, i1, i2, i3])) {
                Ok(Message::Data(len)) => {
                    // Mostly a plausible length.
                    let len = if how & 64 == 0 {
                        len as usize % HALF
                    } else {
                        len as usize
                    };
                    if inbox.announce(len).is_err() {
                        return;
                    }
                    announced += len;
                    assert!(announced <= known, "more than was offered");
                }
                Ok(Message::Credits(granted)) => outbox.set_credits(granted),
                Ok(Message::Mapping(_)) => inbox.count_message(),
                Ok(Message::Control(_)) => {}
                Err(error) => drop(error.to_string()),
            },
            1 => {
                let unread = inbox.unread();
                assert!(unread <= 2 * HALF);
                let [first, second] = inbox.stretches(0, number);
                assert!(first.end <= 2 * HALF && second.end <= 2 * HALF);
                let len = first.len() + second.len();
                assert_eq!(len, number.min(unread));
                inbox.take(len);
                assert_eq!(inbox.unread(), unread - len);
            }
            2 => {
                if let Some(Grant { room, .. }) = inbox.grant()
                    && let Some(room) = room
                {
                    assert!(room.end <= 2 * HALF && room.len() == HALF);
                    known += HALF;
                }
            }
            3 => {
                if outbox.needs_room() {
                    let mut offer = [0; ELEMENT_LEN];
                    offer[..8].copy_from_slice(&bytes);
                    offer[8..].copy_from_slice(&bytes);
                    outbox.set_room(Element::parse(&offer, ByteOrder::NATIVE));
                }
                if let Some(plan) = outbox.plan(number.max(1), usize::from(how >> 4)) {
                    let in_ring = plan.stretches.iter().map(|part| part.len()).sum::<usize>();
                    assert!(plan.len <= number.max(1) && (in_ring == plan.len || in_ring == 0));
                    assert!(plan.stretches.iter().all(|part| part.end <= SEND_BUFFER));
                    in_flight += 1;
                }
            }
            4 => in_flight += usize::from(outbox.plan_control()),
            _ => {
                outbox.complete();
                in_flight = in_flight.saturating_sub(1);
                assert_eq!(outbox.is_idle(), in_flight == 0);
            }
        }
    }
}
