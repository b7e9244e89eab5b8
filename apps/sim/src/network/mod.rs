//! Descriptions of networks: named hosts and switches, links, and a timetable of events. One
//! description serves for virtual time and for real time.
//!
//! [`Network::star`], [`Network::leaf_spine`] and [`Network::parking_lot`] make the usual shapes.
//! [`Network::parse`] reads a description in TOML:
//!
//! ```
//! # let text = r#"
//! hosts = 8                          # h1 to h8; or their names: ["db", "web"]
//!
//! [defaults]                         # of all links and switches; each may be left out
//! rate = "200M"                      # bits per second: K is 1000, M, G
//! delay = "10us"                     # from one end to the other
//! queue = "256K"                     # at each end, in bytes: K is 1024, M, G
//! max_packet = 4200                  # the largest transport packet, BTH to ICRC, in bytes
//! urgent_dscp = 48                   # packets of this DSCP have priority and are never paused
//! faults = "loss=0.01%"              # as in ROCE_FAULTS: loss, burst, dup, reorder, corrupt, delay
//! ecn = { kmin = "20K", kmax = "80K", pmax = "10%" }
//! pfc = { pause = "40K", resume = "20K" }
//!
//! [[switch]]
//! name = "s1"                        # and ecn, pfc or buffer, if they differ from the defaults
//! buffer = { bytes = "12M", headroom = "5M", hysteresis = "3K" }   # see `BufferSpec`
//!
//! [[link]]
//! between = ["h1", "s1"]             # and rate, delay, …, if they differ from the defaults
//! rate = "100M"
//! faults = "loss=1%,reorder=0.5%:200us"
//!
//! [[link]]
//! between = ["*", "s1"]              # all hosts that no other link names
//!
//! [[event]]
//! at = "2s"                          # since the start
//! do = "h1-s1 down"                  # see below
//! # "#;
//! # let network = roce_sim::network::Network::parse(text).unwrap();
//! # assert_eq!(network.links.len(), 8);
//! ```
//!
//! Instead of switches and links, a description may name a topology. Its links and switches are
//! changed by `[[link]]` and `[[switch]]` tables:
//!
//! ```
//! # let text = r#"
//! topology = "leaf-spine"            # hosts h1 …, switches leaf1 … and spine1 …
//! leaves = 2
//! spines = 4
//! hosts_per_leaf = 4
//!
//! [[link]]
//! between = ["leaf1", "spine3"]
//! rate = "50M"
//! # "#;
//! # let network = roce_sim::network::Network::parse(text).unwrap();
//! # assert_eq!(network.hosts.len(), 8);
//! ```
//!
//! `star` takes `hosts`, and has the switch s1. `parking-lot` has h1 and h2 at s1, and h3 to h5 at
//! s2.
//!
//! [`Network::slower`] divides all rates and multiplies all times by the same factor.
//!
//! Changes of a link, a host or a switch, in an event and in [`Network::change`]:
//!
//! | text | what happens |
//! |---|---|
//! | `h1-s1 down`, `h1-s1 up` | the link is cut, or reconnected |
//! | `h1-s1 rate=100M` | the link's rate changes |
//! | `h1-s1 loss=5%,dup=1%` | these replace the link's faults |
//! | `h1->s1 loss=5%` | the same in one direction |
//! | `h1-s1 heal` | the link has no faults from now on |
//! | `h1 cut`, `h1 join` | the same as `down` and `up` for the host's link |
//! | `h1 freeze`, `h1 thaw` | the host's programs stop, or go on |
//! | `h1 kill` | the host's programs are killed |
//! | `s1 forget`, `s1 remember` | the switch drops all packets, because it has no routes, or has them again |

mod build;
mod change;
mod error;
mod file;
mod names;
mod options;
mod parse;
mod schedule;
mod shapes;
mod slower;
pub mod units;

#[cfg(test)]
mod tests;

pub use error::NetworkError;
pub use roce_faults::FaultSpec;

use crate::fabric::{CableId, HostId, LinkSpec, NodeId, SwitchId, SwitchSpec};
use roce_stack::Duration;
use slower::Slowdown;

/// The most hosts of a description.
pub const MAX_HOSTS: usize = 250;

/// The most switches of a description.
pub const MAX_SWITCHES: usize = 100;

/// The most links of a description.
pub const MAX_LINKS: usize = 2000;

/// The most events of a description.
pub const MAX_EVENTS: usize = 10_000;

/// A network and what happens to it. Host `i` is `HostId(i)`, and so on for switches and links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// The names of the hosts. A host has one link.
    pub hosts: Vec<String>,
    /// The switches.
    pub switches: Vec<Switch>,
    /// The links.
    pub links: Vec<Link>,
    /// The events, in order of time.
    pub events: Vec<Event>,
    /// How much slower it is than described.
    slowdown: Slowdown,
}

impl Network {
    /// Whether a switch marks packets "congestion experienced".
    pub fn marks(&self) -> bool {
        self.switches.iter().any(|switch| switch.spec.ecn.is_some())
    }

    /// Checks that it is as large as a description may make it.
    ///
    /// # Errors
    /// If it has no host, or has more hosts, switches or links than that.
    pub fn check_size(&self) -> Result<(), NetworkError> {
        let (hosts, switches, links) = (self.hosts.len(), self.switches.len(), self.links.len());
        let refused = |what: String| Err(NetworkError::new(what));
        if !(1..=MAX_HOSTS).contains(&hosts) {
            return refused(format!("{hosts} hosts should be 1 to {MAX_HOSTS}"));
        }
        if switches > MAX_SWITCHES {
            return refused(format!(
                "{switches} switches should be at most {MAX_SWITCHES}"
            ));
        }
        if links > MAX_LINKS {
            return refused(format!("{links} links should be at most {MAX_LINKS}"));
        }
        Ok(())
    }
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its behaviour.
    pub spec: SwitchSpec,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The two ends.
    pub ends: [NodeId; 2],
    /// Rate, delay and queues, the same for both directions.
    pub spec: LinkSpec,
    /// Faults of both directions.
    pub faults: FaultSpec,
}

/// A change at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time since the start.
    pub at: Duration,
    /// The change.
    pub change: Change,
}

/// A change of a part of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A link changes.
    Link(CableId, LinkChange),
    /// Something happens to a host's programs.
    Host(HostId, HostChange),
    /// A switch has no routes (`false`), or has them again.
    Routes(SwitchId, bool),
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// It is cut.
    Down,
    /// It is reconnected.
    Up,
    /// It has another rate, in bits per second.
    Rate(u64),
    /// Both directions have other faults.
    Faults(FaultSpec),
    /// The direction on which this node sends has other faults.
    FaultsFrom(NodeId, FaultSpec),
}

/// A change of a host's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostChange {
    /// They stop.
    Freeze,
    /// They go on.
    Thaw,
    /// They are killed.
    Kill,
}
