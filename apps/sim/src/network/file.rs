//! The tables of a description, as serde reads them.

use super::options::{Buffer, Ecn, LinkOptions, Pfc, SwitchOptions};
use super::units::{Bytes, Faults, Rate, Time};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) hosts: Option<Spanned<Hosts>>,
    pub(super) topology: Option<Spanned<Topology>>,
    pub(super) leaves: Option<Spanned<usize>>,
    pub(super) spines: Option<Spanned<usize>>,
    pub(super) hosts_per_leaf: Option<Spanned<usize>>,
    pub(super) defaults: Option<Spanned<Defaults>>,
    #[serde(default, rename = "switch")]
    pub(super) switches: Vec<SwitchTable>,
    #[serde(default, rename = "link")]
    pub(super) links: Vec<LinkTable>,
    #[serde(default, rename = "event")]
    pub(super) events: Vec<EventTable>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Topology {
    Star,
    LeafSpine,
    ParkingLot,
}

/// A number of hosts, or their names.
#[derive(Debug)]
pub(super) enum Hosts {
    Count(usize),
    Names(Vec<Spanned<String>>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    rate: Option<Rate>,
    delay: Option<Time>,
    queue: Option<Bytes>,
    max_packet: Option<Bytes>,
    urgent_dscp: Option<u8>,
    faults: Option<Faults>,
    ecn: Option<Ecn>,
    pfc: Option<Pfc>,
    buffer: Option<Buffer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchTable {
    pub(super) name: Spanned<String>,
    ecn: Option<Ecn>,
    pfc: Option<Pfc>,
    buffer: Option<Buffer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub(super) between: Spanned<[Spanned<String>; 2]>,
    rate: Option<Rate>,
    delay: Option<Time>,
    queue: Option<Bytes>,
    max_packet: Option<Bytes>,
    urgent_dscp: Option<u8>,
    faults: Option<Faults>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventTable {
    pub(super) at: Time,
    #[serde(rename = "do")]
    pub(super) what: Spanned<String>,
}

impl Defaults {
    pub(super) fn of_links(&self) -> LinkOptions {
        LinkOptions {
            rate: self.rate,
            delay: self.delay,
            queue: self.queue,
            max_packet: self.max_packet,
            urgent_dscp: self.urgent_dscp,
            faults: self.faults,
        }
    }

    pub(super) fn of_switches(&self) -> SwitchOptions {
        SwitchOptions {
            ecn: self.ecn,
            pfc: self.pfc,
            buffer: self.buffer,
        }
    }
}

impl LinkTable {
    pub(super) fn options(&self) -> LinkOptions {
        LinkOptions {
            rate: self.rate,
            delay: self.delay,
            queue: self.queue,
            max_packet: self.max_packet,
            urgent_dscp: self.urgent_dscp,
            faults: self.faults,
        }
    }
}

impl SwitchTable {
    pub(super) fn options(&self) -> SwitchOptions {
        SwitchOptions {
            ecn: self.ecn,
            pfc: self.pfc,
            buffer: self.buffer,
        }
    }
}

impl<'de> Deserialize<'de> for Hosts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrNames;
        impl<'de> Visitor<'de> for CountOrNames {
            type Value = Hosts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of hosts such as 8, or names such as [\"db\", \"web\"]")
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Hosts, E> {
                let count = usize::try_from(count);
                count.map(Hosts::Count).map_err(|_| {
                    E::invalid_value(serde::de::Unexpected::Other("a negative number"), &self)
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Hosts, A::Error> {
                let mut all = Vec::new();
                while let Some(name) = names.next_element()? {
                    all.push(name);
                }
                Ok(Hosts::Names(all))
            }
        }
        deserializer.deserialize_any(CountOrNames)
    }
}
