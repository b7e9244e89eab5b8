//! Descriptions that name a topology.

use super::{Placed, Usual, add_hosts, count, missing, no_leaves, placed};
use crate::fabric::CableId;
use crate::network::file::{File, Hosts, LinkTable, Topology};
use crate::network::{MAX_HOSTS, MAX_LINKS, MAX_SWITCHES, Network, NetworkError};
use toml::Spanned;

/// A network of a usual shape, whose parts the tables change.
pub(super) fn shape(file: &File, topology: &Spanned<Topology>, usual: &Usual) -> Placed<Network> {
    let (link, switch) = (usual.link.spec, usual.switch);
    let mut network = match topology.get_ref() {
        Topology::Star => {
            no_leaves(file)?;
            let hosts = file.hosts.as_ref().ok_or_else(|| {
                missing(
                    topology,
                    "a star needs its number of hosts, such as hosts = 8",
                )
            })?;
            Network::star(count(hosts)?, link, switch)
        }
        Topology::ParkingLot => {
            no_leaves(file)?;
            Network::parking_lot(link, switch)
        }
        Topology::LeafSpine => {
            let number = |said: &Option<Spanned<usize>>, name: &str, most: usize| match said {
                None => Err(missing(topology, &format!("a leaf-spine needs {name}"))),
                Some(said) => within(said, name, most),
            };
            let leaves = number(&file.leaves, "leaves", MAX_SWITCHES / 2)?;
            let spines = number(&file.spines, "spines", MAX_SWITCHES / 2)?;
            let hosts = number(&file.hosts_per_leaf, "hosts_per_leaf", MAX_HOSTS / leaves)?;
            if leaves * (spines + hosts) > MAX_LINKS {
                let what = format!("{leaves} leaves and {spines} spines need too many links: ");
                return Err(missing(topology, &format!("{what}at most {MAX_LINKS}")));
            }
            Network::leaf_spine((leaves, spines), hosts, link, switch)
        }
    };
    rename_hosts(&mut network, file.hosts.as_ref())?;
    for link in &mut network.links {
        link.faults = usual.link.faults;
    }
    for table in &file.switches {
        let name = &table.name;
        let switches = &mut network.switches;
        match switches.iter_mut().find(|s| s.name == *name.get_ref()) {
            Some(switch) => table.options().change(switch).map_err(placed(name))?,
            None => {
                let what = format!(
                    "{:?} should be one of the topology's switches",
                    name.get_ref()
                );
                return Err(placed(name)(NetworkError::new(what)));
            }
        }
    }
    for table in &file.links {
        let link = existing_link(&network, table)?;
        let change = table.options().change(&mut network.links[link.0]);
        change.map_err(placed(&table.between))?;
    }
    Ok(network)
}

/// Gives the hosts of a topology the names of the description, if it has any.
fn rename_hosts(network: &mut Network, hosts: Option<&Spanned<Hosts>>) -> Placed<()> {
    let Some(hosts) = hosts else {
        return Ok(());
    };
    let expected = network.hosts.len();
    if count(hosts)? != expected {
        let what = format!("hosts should be {expected}, as the topology says, or be left out");
        return Err(missing(hosts, &what));
    }
    if let Hosts::Names(names) = hosts.get_ref() {
        network.hosts.clear();
        add_hosts(network, names)?;
    }
    Ok(())
}

fn existing_link(network: &Network, table: &LinkTable) -> Placed<CableId> {
    let [a, b] = table.between.get_ref();
    let node = |name: &Spanned<String>| network.known_node(name.get_ref()).map_err(placed(name));
    network.link_between(node(a)?, node(b)?).ok_or_else(|| {
        let what = format!(
            "the topology has no link between {} and {}",
            a.get_ref(),
            b.get_ref()
        );
        missing(&table.between, &what)
    })
}

fn within(said: &Spanned<usize>, name: &str, most: usize) -> Placed<usize> {
    let number = *said.get_ref();
    match (1..=most).contains(&number) {
        true => Ok(number),
        false => Err(missing(
            said,
            &format!("{name} = {number} should be 1 to {most}"),
        )),
    }
}
