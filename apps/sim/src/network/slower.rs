//! Networks that are slowed down, so that a machine can emulate them.

use super::{Change, LinkChange, Network};
use roce_faults::{FaultSpec, ReorderBy};
use roce_stack::Duration;

/// By how much a network is slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slowdown(u32);

impl Default for Slowdown {
    fn default() -> Self {
        Self(1)
    }
}

impl Network {
    /// The same network with all rates divided by `factor`, and all times of links and faults
    /// multiplied by it. Changes that [`Network::change`] reads later are slowed down likewise, and
    /// [`Network::describe`] writes them as they are read. Events keep their time since the start. A
    /// factor of 0 counts as 1.
    #[must_use]
    pub fn slower(mut self, factor: u32) -> Self {
        let slowdown = Slowdown(factor.max(1));
        for link in &mut self.links {
            link.spec.bits_per_sec = slowdown.rate(link.spec.bits_per_sec);
            link.spec.delay = slowdown.time(link.spec.delay);
            link.faults = with_times(link.faults, |time| slowdown.time(time));
        }
        for event in &mut self.events {
            event.change = slowdown.apply(event.change);
        }
        self.slowdown = Slowdown(self.slowdown.0.saturating_mul(slowdown.0));
        self
    }
}

impl Slowdown {
    fn rate(self, rate: u64) -> u64 {
        (rate / u64::from(self.0)).max(1)
    }

    fn time(self, time: Duration) -> Duration {
        time.saturating_mul(self.0)
    }

    /// A change of the network as it is, from one of the network as it is described.
    pub(super) fn apply(self, change: Change) -> Change {
        convert(change, |rate| self.rate(rate), |time| self.time(time))
    }

    /// A change from which [`Slowdown::apply`] makes this one.
    pub(super) fn undo(self, change: Change) -> Change {
        convert(change, |rate| self.described(rate), |time| time / self.0)
    }

    /// The roundest of the rates that become this one: 500M, although a third of it is no whole
    /// number.
    fn described(self, rate: u64) -> u64 {
        let least = rate.saturating_mul(u64::from(self.0));
        let units = [1_000_000_000, 1_000_000, 1000];
        let round = units.map(|unit: u64| least.div_ceil(unit).saturating_mul(unit));
        let mut fits = round.into_iter().filter(|round| self.rate(*round) == rate);
        fits.next().unwrap_or(least)
    }
}

/// A change with another rate, or other times.
fn convert(
    change: Change,
    rate: impl FnOnce(u64) -> u64,
    time: impl Fn(Duration) -> Duration,
) -> Change {
    let Change::Link(link, of_link) = change else {
        return change;
    };
    let converted = match of_link {
        LinkChange::Down | LinkChange::Up => of_link,
        LinkChange::Rate(bits_per_sec) => LinkChange::Rate(rate(bits_per_sec)),
        LinkChange::Faults(faults) => LinkChange::Faults(with_times(faults, time)),
        LinkChange::FaultsFrom(from, faults) => {
            LinkChange::FaultsFrom(from, with_times(faults, time))
        }
    };
    Change::Link(link, converted)
}

/// Faults with other times. Where no packet is held back, the time for that stays the usual one, so
/// that no faults stay none.
fn with_times(faults: FaultSpec, time: impl Fn(Duration) -> Duration) -> FaultSpec {
    let reorder_by = match faults.reorder.is_never() {
        true => faults.reorder_by,
        false => ReorderBy(time(faults.reorder_by.0)),
    };
    FaultSpec {
        reorder_by,
        delay: time(faults.delay),
        jitter: time(faults.jitter),
        ..faults
    }
}
