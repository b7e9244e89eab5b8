//! The names of hosts, switches and links.

use super::{Network, NetworkError};
use crate::fabric::{CableId, HostId, NodeId, SwitchId};

/// Longer names do not fit into the name of an interface.
const MAX_NAME: usize = 15;

impl Network {
    /// The host of a name.
    pub fn host(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host == name).map(HostId)
    }

    /// The switch of a name.
    pub fn switch(&self, name: &str) -> Option<SwitchId> {
        let mut switches = self.switches.iter();
        switches.position(|s| s.name == name).map(SwitchId)
    }

    /// The host or switch of a name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        let host = self.host(name).map(NodeId::Host);
        host.or_else(|| self.switch(name).map(NodeId::Switch))
    }

    /// The name of a host or switch. Empty if there is none.
    pub fn name(&self, node: NodeId) -> &str {
        match node {
            NodeId::Host(HostId(number)) => self.hosts.get(number).map_or("", String::as_str),
            NodeId::Switch(SwitchId(number)) => {
                self.switches.get(number).map_or("", |s| s.name.as_str())
            }
        }
    }

    /// The name of a link: those of its ends, with `-` in between. Empty if there is no such link.
    pub fn link_name(&self, link: CableId) -> String {
        let link = self.links.get(link.0);
        let name = link.map(|link| link.ends.map(|end| self.name(end)).join("-"));
        name.unwrap_or_default()
    }

    /// The link between two nodes.
    pub fn link_between(&self, a: NodeId, b: NodeId) -> Option<CableId> {
        let mut links = self.links.iter();
        links
            .position(|link| link.ends == [a, b] || link.ends == [b, a])
            .map(CableId)
    }

    /// A host's link, and the node at its other end.
    pub fn link_of(&self, host: HostId) -> Option<(CableId, NodeId)> {
        let host = NodeId::Host(host);
        self.links
            .iter()
            .enumerate()
            .find_map(|(number, link)| match link.ends {
                [a, other] | [other, a] if a == host => Some((CableId(number), other)),
                _ => None,
            })
    }

    /// The node of a name.
    pub(super) fn known_node(&self, name: &str) -> Result<NodeId, NetworkError> {
        self.node(name).ok_or_else(|| {
            let known = self.known_names();
            NetworkError::new(format!("{name:?} should be a host or switch: {known}"))
        })
    }

    /// Some of the names, for messages.
    pub(super) fn known_names(&self) -> String {
        const SHOWN: usize = 4;
        let some = |names: Vec<&str>| {
            let shown = names[..names.len().min(SHOWN)].join(", ");
            match names.last() {
                Some(last) if names.len() > SHOWN => format!("{shown} … {last}"),
                _ => shown,
            }
        };
        let hosts = some(self.hosts.iter().map(String::as_str).collect());
        let switches = some(self.switches.iter().map(|s| s.name.as_str()).collect());
        let both = [hosts, switches];
        let known: Vec<&str> = both
            .iter()
            .map(String::as_str)
            .filter(|s| !s.is_empty())
            .collect();
        known.join(", ")
    }

    /// Whether a new node may have this name.
    pub(super) fn check_new_name(&self, name: &str) -> Result<(), NetworkError> {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let fits = (1..=MAX_NAME).contains(&name.len());
        if !fits
            || !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !name.chars().all(letters)
        {
            return Err(NetworkError::new(format!(
                "{name:?} should be a name: a letter, then letters, digits or _, at most {MAX_NAME}"
            )));
        }
        match self.node(name) {
            None => Ok(()),
            Some(_) => Err(NetworkError::new(format!(
                "{name:?} is the name of two nodes: it should differ from all others"
            ))),
        }
    }
}
