use super::*;
use crate::dice::Dice;

/// A reference queue: unordered, with a search for the next event each time.
#[derive(Default)]
struct Model(Vec<(Instant, u64, Event)>);

impl Model {
    fn pop(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let key = |(at, number, _): &(Instant, u64, Event)| (*at, *number);
        let first = (0..self.0.len()).min_by_key(|&index| key(&self.0[index]))?;
        if self.0[first].0 > until {
            return None;
        }
        let (at, _, event) = self.0.swap_remove(first);
        Some((at, event))
    }
}

/// Queues the same events in both queues: a call; or an arrival, which may overtake others; or an
/// arrival, and then an event at a position that was reserved before it.
fn push(dice: &mut Dice, now: Instant, events: &mut Events, model: &mut Model) {
    let at = Instant::from_nanos(now.as_nanos() + dice.below(8));
    let number = events.count + 1;
    let link = EgressId(dice.index(3));
    let packet = PacketId::test(number as u32);
    match dice.below(4) {
        0 => {
            events.push(at, Event::Call(number));
            model.0.push((at, number, Event::Call(number)));
        }
        1 => {
            let position = events.reserve(at);
            events.push_arrival(at, link, packet);
            events.push_at(position, Event::Sent(link));
            model.0.push((at, number, Event::Sent(link)));
            model.0.push((at, number + 1, Event::Arrive(link, packet)));
        }
        _ => {
            events.push_arrival(at, link, packet);
            model.0.push((at, number, Event::Arrive(link, packet)));
        }
    }
}

#[test]
fn events_are_ordered_by_time_and_then_by_insertion() {
    for seed in 0..50 {
        let mut dice = Dice::new(seed);
        let (mut events, mut model) = (Events::new(3), Model::default());
        let mut now = Instant::ZERO;
        for _ in 0..400 {
            if dice.below(9) < 4 {
                push(&mut dice, now, &mut events, &mut model);
            } else {
                let until = Instant::from_nanos(now.as_nanos() + dice.below(4));
                let popped = events.pop(until);
                assert_eq!(popped, model.pop(until), "seed {seed}");
                now = popped.map_or(now, |(at, _)| at);
            }
            assert_eq!(events.len(), model.0.len(), "seed {seed}");
        }
    }
}

#[test]
fn a_reserved_position_is_pending_until_a_later_event_is_handled() {
    let mut events = Events::new(1);
    let at = Instant::from_nanos(5);
    events.push(at, Event::Call(1));
    let position = events.reserve(at);
    events.push(at, Event::Call(2));
    assert!(events.is_pending(position));
    assert_eq!(events.pop(at), Some((at, Event::Call(1))));
    assert!(events.is_pending(position));
    assert_eq!(events.pop(at), Some((at, Event::Call(2))));
    assert!(!events.is_pending(position));
}
