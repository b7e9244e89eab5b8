//! Descriptions that list switches and links.

use super::{Placed, Usual, add_hosts, count, missing, no_leaves, placed};
use crate::fabric::{HostId, NodeId};
use crate::network::file::{File, Hosts, LinkTable, SwitchTable};
use crate::network::{Link, MAX_LINKS, MAX_SWITCHES, Network, NetworkError, Switch};
use toml::Spanned;

/// Stands for all hosts that no other link names.
const ALL_HOSTS: &str = "*";

/// A network that the tables describe.
pub(super) fn free(file: &File, usual: &Usual) -> Placed<Network> {
    no_leaves(file)?;
    let Some(hosts) = &file.hosts else {
        let what = "a network needs hosts, such as hosts = 8, or a topology: star, leaf-spine or \
                    parking-lot";
        return Err((0..0, NetworkError::new(what)));
    };
    let mut network = Network::default();
    match hosts.get_ref() {
        Hosts::Count(_) => network = Network::of_hosts(count(hosts)?),
        Hosts::Names(names) => {
            count(hosts)?;
            add_hosts(&mut network, names)?;
        }
    }
    for table in &file.switches {
        add_switch(&mut network, table, usual)?;
    }
    for table in &file.links {
        add_links(&mut network, table, &file.links, usual)?;
    }
    check_connected(&network).map_err(placed(hosts))?;
    Ok(network)
}

fn add_switch(network: &mut Network, table: &SwitchTable, usual: &Usual) -> Placed<()> {
    let name = &table.name;
    network
        .check_new_name(name.get_ref())
        .map_err(placed(name))?;
    if network.switches.len() >= MAX_SWITCHES {
        return Err(missing(
            name,
            &format!("there should be at most {MAX_SWITCHES} switches"),
        ));
    }
    let mut switch = Switch {
        name: name.get_ref().clone(),
        spec: usual.switch,
    };
    table.options().change(&mut switch).map_err(placed(name))?;
    network.switches.push(switch);
    Ok(())
}

/// Adds the link of a table, or one for each host that no table names.
fn add_links(
    network: &mut Network,
    table: &LinkTable,
    all: &[LinkTable],
    usual: &Usual,
) -> Placed<()> {
    let between = &table.between;
    let names = between.get_ref();
    let mut link = usual.link;
    table.options().change(&mut link).map_err(placed(between))?;
    if !names.iter().any(|name| name.get_ref() == ALL_HOSTS) {
        let node =
            |name: &Spanned<String>| network.known_node(name.get_ref()).map_err(placed(name));
        link.ends = [node(&names[0])?, node(&names[1])?];
        return add_link(network, link).map_err(placed(between));
    }
    let mut others = names.iter().filter(|name| name.get_ref() != ALL_HOSTS);
    let Some(other) = others.next() else {
        return Err(missing(
            between,
            "[\"*\", \"*\"] should have a switch instead of one *",
        ));
    };
    let other = network.known_node(other.get_ref()).map_err(placed(other))?;
    let named = |host: &str| {
        let names = all.iter().flat_map(|table| table.between.get_ref());
        names.into_iter().any(|name| name.get_ref() == host)
    };
    let unnamed = (0..network.hosts.len()).filter(|host| !named(&network.hosts[*host]));
    let unnamed: Vec<HostId> = unnamed.map(HostId).collect();
    if unnamed.is_empty() {
        return Err(missing(
            between,
            "\"*\" should stand for some hosts: other links name all",
        ));
    }
    for host in unnamed {
        link.ends = names
            .each_ref()
            .map(|name| match name.get_ref() == ALL_HOSTS {
                true => NodeId::Host(host),
                false => other,
            });
        add_link(network, link).map_err(placed(between))?;
    }
    Ok(())
}

fn add_link(network: &mut Network, link: Link) -> Result<(), NetworkError> {
    let [a, b] = link.ends;
    let names = || link.ends.map(|end| network.name(end)).join("-");
    if a == b {
        let name = network.name(a);
        return Err(NetworkError::new(format!(
            "{name} should not be linked to itself"
        )));
    }
    if network.link_between(a, b).is_some() {
        return Err(NetworkError::new(format!(
            "the link {} should be given once",
            names()
        )));
    }
    for end in link.ends {
        if let NodeId::Host(host) = end
            && let Some((other, _)) = network.link_of(host)
        {
            let (name, other) = (network.name(end), network.link_name(other));
            return Err(NetworkError::new(format!(
                "the host {name} should have one link: it has {other} and {}",
                names()
            )));
        }
    }
    if network.links.len() >= MAX_LINKS {
        return Err(NetworkError::new(format!(
            "there should be at most {MAX_LINKS} links"
        )));
    }
    network.links.push(link);
    Ok(())
}

/// Checks that each host can reach all others.
fn check_connected(network: &Network) -> Result<(), NetworkError> {
    for host in (0..network.hosts.len()).map(HostId) {
        if network.link_of(host).is_none() {
            return Err(NetworkError::new(format!(
                "the host {} should have a link, such as between = [\"*\", \"{}\"], or a topology \
                 should be given",
                network.name(host.into()),
                network.switches.first().map_or("s1", |s| s.name.as_str())
            )));
        }
    }
    let mut reached = vec![NodeId::Host(HostId(0))];
    let mut next = 0;
    while let Some(node) = reached.get(next).copied() {
        next += 1;
        for link in network
            .links
            .iter()
            .filter(|link| link.ends.contains(&node))
        {
            let new = link.ends.into_iter().filter(|end| !reached.contains(end));
            let new: Vec<NodeId> = new.collect();
            reached.extend(new);
        }
    }
    let mut hosts = (0..network.hosts.len()).map(|host| NodeId::Host(HostId(host)));
    match hosts.find(|host| !reached.contains(host)) {
        None => Ok(()),
        Some(host) => Err(NetworkError::new(format!(
            "{} should be able to reach {}: links between their switches are missing",
            network.name(NodeId::Host(HostId(0))),
            network.name(host)
        ))),
    }
}
