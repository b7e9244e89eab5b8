//! Descriptions in TOML.

use super::file::{Defaults, EventTable, File, Hosts, LinkTable, SwitchTable, Topology};
use super::options::DEFAULT_LINK;
use super::units::Time;
use super::{
    Event, Link, MAX_EVENTS, MAX_HOSTS, MAX_LINKS, MAX_SWITCHES, Network, NetworkError, Switch,
};
use crate::fabric::{CableId, HostId, NodeId, SwitchSpec};
use core::ops::Range;
use roce_port::fault::FaultSpec;
use toml::Spanned;

/// Stands for all hosts that no other link names.
const ALL_HOSTS: &str = "*";

/// A result whose error has a place in the text.
type Placed<T> = Result<T, (Range<usize>, NetworkError)>;

impl Network {
    /// Reads a description. The [module](crate::network) has the format.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(text: &str) -> Result<Self, NetworkError> {
        let file: File = toml::from_str(text).map_err(|error| {
            let place = error.span().unwrap_or(0..0);
            NetworkError::new(error.message()).at(text, &place)
        })?;
        read(&file).map_err(|(place, error)| error.at(text, &place))
    }
}

fn read(file: &File) -> Placed<Network> {
    let usual = Usual::new(file.defaults.as_ref())?;
    let mut network = match &file.topology {
        Some(topology) => shape(file, topology, &usual)?,
        None => free(file, &usual)?,
    };
    for event in &file.events {
        add_event(&mut network, event)?;
    }
    network.events.sort_by_key(|event| event.at);
    Ok(network)
}

/// Links and switches about which a description says nothing more.
struct Usual {
    link: Link,
    switch: SwitchSpec,
}

impl Usual {
    fn new(defaults: Option<&Spanned<Defaults>>) -> Placed<Self> {
        let mut link = Link {
            ends: [NodeId::Host(HostId(0)); 2],
            spec: DEFAULT_LINK,
            faults: FaultSpec::default(),
        };
        let mut switch = Switch {
            name: String::new(),
            spec: SwitchSpec::default(),
        };
        if let Some(defaults) = defaults {
            let said = defaults.get_ref();
            let read = said.of_links().change(&mut link);
            let read = read.and_then(|()| said.of_switches().change(&mut switch));
            read.map_err(placed(defaults))?;
        }
        Ok(Self {
            link,
            switch: switch.spec,
        })
    }
}

/// A network of a usual shape, whose parts the tables change.
fn shape(file: &File, topology: &Spanned<Topology>, usual: &Usual) -> Placed<Network> {
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

fn no_leaves(file: &File) -> Placed<()> {
    match [&file.leaves, &file.spines, &file.hosts_per_leaf]
        .into_iter()
        .flatten()
        .next()
    {
        None => Ok(()),
        Some(said) => Err(missing(
            said,
            "leaves, spines and hosts_per_leaf should be given with topology = \"leaf-spine\" only",
        )),
    }
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

/// A network that the tables describe.
fn free(file: &File, usual: &Usual) -> Placed<Network> {
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

/// The number of hosts.
fn count(hosts: &Spanned<Hosts>) -> Placed<usize> {
    let count = match hosts.get_ref() {
        Hosts::Count(count) => *count,
        Hosts::Names(names) => names.len(),
    };
    match (1..=MAX_HOSTS).contains(&count) {
        true => Ok(count),
        false => Err(missing(
            hosts,
            &format!("{count} hosts should be 1 to {MAX_HOSTS}"),
        )),
    }
}

fn add_hosts(network: &mut Network, names: &[Spanned<String>]) -> Placed<()> {
    for name in names {
        network
            .check_new_name(name.get_ref())
            .map_err(placed(name))?;
        network.hosts.push(name.get_ref().clone());
    }
    Ok(())
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

fn add_event(network: &mut Network, table: &EventTable) -> Placed<()> {
    let what = &table.what;
    if network.events.len() >= MAX_EVENTS {
        return Err(missing(
            what,
            &format!("there should be at most {MAX_EVENTS} events"),
        ));
    }
    let change = network.change(what.get_ref()).map_err(placed(what))?;
    let Time(at) = table.at;
    network.events.push(Event { at, change });
    Ok(())
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

/// Adds the place of a value to an error about it.
fn placed<T>(value: &Spanned<T>) -> impl FnOnce(NetworkError) -> (Range<usize>, NetworkError) {
    let place = value.span();
    move |error| (place, error)
}

fn missing<T>(value: &Spanned<T>, what: &str) -> (Range<usize>, NetworkError) {
    placed(value)(NetworkError::new(what))
}
