//! Events drawn from a seed.

use super::{Change, Event, HostChange, LinkChange, Network};
use crate::dice::Dice;
use crate::fabric::{CableId, HostId, SwitchId};
use roce_faults::{Chance, FaultSpec};
use roce_stack::Duration;

impl Network {
    /// Draws `count` troubles from `seed`, each with its end: at the time `over`, all is as it was.
    /// Links are cut, slow down or lose packets, hosts freeze, and switches forget their routes. No
    /// host is killed. Returns the events in order of time.
    pub fn events_from(&self, seed: u64, count: usize, over: Duration) -> Vec<Event> {
        let mut dice = Dice::new(seed);
        let mut events = Vec::new();
        for _ in 0..count {
            let Some(trouble) = self.draw_trouble(&mut dice) else {
                break;
            };
            let mut at = [(); 2].map(|()| draw_time(&mut dice, over));
            at.sort_unstable();
            let pair = at.into_iter().zip(trouble);
            events.extend(pair.map(|(at, change)| Event { at, change }));
        }
        events.sort_by_key(|event| event.at);
        events
    }

    /// A trouble and its end.
    fn draw_trouble(&self, dice: &mut Dice) -> Option<[Change; 2]> {
        let link = CableId(dice.index(self.links.len()));
        let usual = self.links.get(link.0)?;
        let of_link = |changes: [LinkChange; 2]| changes.map(|change| Change::Link(link, change));
        Some(
            match dice.below(if self.switches.is_empty() { 4 } else { 5 }) {
                0 => of_link([LinkChange::Down, LinkChange::Up]),
                1 => {
                    let usual = usual.spec.bits_per_sec;
                    let slow = usual / (2 + dice.below(9));
                    of_link([slow.max(1), usual].map(LinkChange::Rate))
                }
                2 => {
                    let loss = Chance::per_million(1000 * (1 + dice.below(100) as u32));
                    let lossy = FaultSpec {
                        loss,
                        ..usual.faults
                    };
                    of_link([lossy, usual.faults].map(LinkChange::Faults))
                }
                3 => {
                    let host = HostId(dice.index(self.hosts.len()));
                    [HostChange::Freeze, HostChange::Thaw].map(|change| Change::Host(host, change))
                }
                _ => {
                    let switch = SwitchId(dice.index(self.switches.len()));
                    [false, true].map(|present| Change::Routes(switch, present))
                }
            },
        )
    }
}

/// A whole number of microseconds before `over`.
fn draw_time(dice: &mut Dice, over: Duration) -> Duration {
    let us = u64::try_from(over.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(dice.below(us))
}
