//! The text form of changes: `h1-s1 down`.

use super::units::{self, rate_text};
use super::{Change, HostChange, LinkChange, Network, NetworkError};
use crate::fabric::{CableId, HostId, NodeId};
use roce_faults::FaultSpec;

const HOST_WORDS: &str = "freeze, thaw, kill, cut or join";
const SWITCH_WORDS: &str = "forget or remember";
const LINK_WORDS: &str = "down, up, heal, rate=RATE such as rate=100M, or faults such as loss=1%";
const ONE_WAY_WORDS: &str = "heal, or faults such as loss=1%: the rest is about both directions";

impl Network {
    /// Reads a change from a text such as `h1-s1 down`. The [module](crate::network) lists all.
    ///
    /// # Errors
    /// If nothing has this name, or it can't change in this way.
    pub fn change(&self, text: &str) -> Result<Change, NetworkError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[target, what] = &words[..] else {
            return Err(NetworkError::new(format!(
                "{text:?} should be the name of a link, host or switch and what happens to it, \
                 such as \"{} down\"",
                self.link_name(CableId(0))
            )));
        };
        let change = match self.node(target) {
            Some(NodeId::Host(host)) => self.host_change(host, target, what),
            Some(NodeId::Switch(switch)) => match what {
                "forget" => Ok(Change::Routes(switch, false)),
                "remember" => Ok(Change::Routes(switch, true)),
                _ => Err(wrong(what, "the switch", target, SWITCH_WORDS)),
            },
            None => self.change_of_link(target, what),
        };
        change.map(|change| self.slowdown.apply(change))
    }

    fn host_change(&self, host: HostId, name: &str, what: &str) -> Result<Change, NetworkError> {
        let of_link = |change| match self.link_of(host) {
            Some((link, _)) => Ok(Change::Link(link, change)),
            None => Err(NetworkError::new(format!("{name} has no link"))),
        };
        match what {
            "freeze" => Ok(Change::Host(host, HostChange::Freeze)),
            "thaw" => Ok(Change::Host(host, HostChange::Thaw)),
            "kill" => Ok(Change::Host(host, HostChange::Kill)),
            "cut" => of_link(LinkChange::Down),
            "join" => of_link(LinkChange::Up),
            _ => Err(wrong(what, "the host", name, HOST_WORDS)),
        }
    }

    fn change_of_link(&self, name: &str, what: &str) -> Result<Change, NetworkError> {
        let unknown = || {
            NetworkError::new(format!(
                "{name:?} should be a host or switch ({}), or a link such as {}",
                self.known_names(),
                self.link_name(CableId(0))
            ))
        };
        let (ends, one_way) = match name.split_once("->") {
            Some(ends) => (ends, true),
            None => (name.split_once('-').ok_or_else(unknown)?, false),
        };
        let [from, to] = [self.known_node(ends.0)?, self.known_node(ends.1)?];
        let link = self.link_between(from, to).ok_or_else(|| {
            NetworkError::new(format!(
                "there is no link between {} and {}",
                ends.0, ends.1
            ))
        })?;
        let change = match what {
            _ if one_way => LinkChange::FaultsFrom(from, faults(what, name, ONE_WAY_WORDS)?),
            "down" => LinkChange::Down,
            "up" => LinkChange::Up,
            _ => match what.strip_prefix("rate=") {
                Some(rate) => LinkChange::Rate(units::rate(rate).map_err(NetworkError::new)?),
                None => LinkChange::Faults(faults(what, name, LINK_WORDS)?),
            },
        };
        Ok(Change::Link(link, change))
    }

    /// The text of a change, which [`Network::change`] reads.
    pub fn describe(&self, change: &Change) -> String {
        let of_faults = |faults: &FaultSpec| match faults == &FaultSpec::default() {
            true => "heal".to_owned(),
            false => faults.to_string(),
        };
        match &self.slowdown.undo(*change) {
            Change::Host(host, change) => {
                let what = match change {
                    HostChange::Freeze => "freeze",
                    HostChange::Thaw => "thaw",
                    HostChange::Kill => "kill",
                };
                format!("{} {what}", self.name(NodeId::Host(*host)))
            }
            Change::Routes(switch, present) => {
                let what = if *present { "remember" } else { "forget" };
                format!("{} {what}", self.name(NodeId::Switch(*switch)))
            }
            Change::Link(link, LinkChange::FaultsFrom(from, faults)) => {
                let ends = self.links.get(link.0).map(|link| link.ends);
                let to = ends.and_then(|ends| ends.into_iter().find(|end| end != from));
                let to = to.map_or("", |to| self.name(to));
                format!("{}->{to} {}", self.name(*from), of_faults(faults))
            }
            Change::Link(link, change) => {
                let what = match change {
                    LinkChange::Down => "down".to_owned(),
                    LinkChange::Up => "up".to_owned(),
                    LinkChange::Rate(rate) => format!("rate={}", rate_text(*rate)),
                    LinkChange::Faults(faults) | LinkChange::FaultsFrom(_, faults) => {
                        of_faults(faults)
                    }
                };
                format!("{} {what}", self.link_name(*link))
            }
        }
    }
}

/// Faults, or `heal` for none. A text without `=` is no fault at all: the error then lists `words`.
fn faults(what: &str, link: &str, words: &str) -> Result<FaultSpec, NetworkError> {
    match what {
        "heal" => Ok(FaultSpec::default()),
        _ if !what.contains('=') || what.starts_with("rate=") => {
            Err(wrong(what, "the link", link, words))
        }
        _ => units::faults(what).map_err(NetworkError::new),
    }
}

fn wrong(what: &str, kind: &str, name: &str, words: &str) -> NetworkError {
    NetworkError::new(format!("{what:?} for {kind} {name} should be {words}"))
}
