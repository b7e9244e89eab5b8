//! Descriptions in TOML.

mod free;
mod shape;

use super::file::{Defaults, EventTable, File, Hosts};
use super::options::DEFAULT_LINK;
use super::units::Time;
use super::{Event, Link, MAX_EVENTS, MAX_HOSTS, Network, NetworkError, Switch};
use crate::fabric::{HostId, NodeId, SwitchSpec};
use core::ops::Range;
use roce_faults::FaultSpec;
use toml::Spanned;

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
        Some(topology) => shape::shape(file, topology, &usual)?,
        None => free::free(file, &usual)?,
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

/// Adds the place of a value to an error about it.
fn placed<T>(value: &Spanned<T>) -> impl FnOnce(NetworkError) -> (Range<usize>, NetworkError) {
    let place = value.span();
    move |error| (place, error)
}

fn missing<T>(value: &Spanned<T>, what: &str) -> (Range<usize>, NetworkError) {
    placed(value)(NetworkError::new(what))
}
