//! Traffic classes and priorities: what the environment asks for, and what becomes of packets.

use crate::environment;
use crate::error::OpenError;
use roce_stack::PriorityMap;
use std::fmt;
use std::str::FromStr;

/// The variable that says how.
const VARIABLE: &str = "ROCE_QOS";

/// The service levels that RoCE has: as many as 802.1Q has priorities. Programs give larger ones
/// that mean none, since they copy the type of a packet that a completion has in that place.
const SERVICE_LEVELS: usize = 8;

/// Which traffic class a device's packets have, and which priority.
///
/// As text, separated by commas or on lines of their own:
///
/// - `default_roce_tos=104`: the traffic class of who asks for none, as `cma_roce_tos` and
///   `/sys/kernel/config/rdma_cm` take it;
/// - `traffic_class=104`: that of everybody, whatever they ask for, as
///   `/sys/class/infiniband/*/tc/1/traffic_class` takes it for ConnectX;
/// - `sl2dscp=3:26`: the DSCP of who asks for a service level and no traffic class;
/// - `dscp-prio=26:3`: the 802.1Q priority of packets with a DSCP, as `dcb app` takes it, and
///   `mlnx_qos` under the name `dscp2prio`;
/// - `trust=dscp`: packets have priorities by their DSCP, its upper three bits where nothing
///   else is said. Any `dscp-prio` implies it.
///
/// `sl2dscp` and `dscp-prio` can be there for each service level and each DSCP. Of a traffic
/// class, the lower two bits, ECN, are left aside. What follows a `#` up to the end of its
/// line is no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrioritySettings {
    /// The traffic class of who asks for none.
    pub default_class: Option<u8>,
    /// The traffic class of everybody.
    pub forced_class: Option<u8>,
    /// The DSCP of who asks for a service level and no traffic class.
    pub sl_to_dscp: [Option<u8>; SERVICE_LEVELS],
    /// Priorities of packets. Without, the kernel's sockets make of a traffic class what they
    /// make of any.
    pub priorities: Option<PriorityMap>,
}

/// The bits of a traffic class that are ECN (RFC 3168, 5); the others are the DSCP.
const ECN: u8 = 3;

impl PrioritySettings {
    /// The traffic class of packets for which this service level and this traffic class are
    /// asked for. Its ECN bits are those that are asked for.
    pub fn traffic_class(&self, service_level: u8, asked: u8) -> u8 {
        let own = (asked & !ECN != 0).then_some(asked);
        let of_level = || {
            let dscp = *self.sl_to_dscp.get(usize::from(service_level))?;
            dscp.map(|dscp| dscp << 2)
        };
        let class = self.forced_class.or(own).or_else(of_level);
        class.or(self.default_class).unwrap_or(0) & !ECN | asked & ECN
    }

    /// Takes `name=value`.
    fn set(&mut self, part: &str) -> Result<(), PrioritySettingsError> {
        let wrong = |valid: &'static str| PrioritySettingsError {
            given: part.to_owned(),
            valid,
        };
        let (name, value) = part.split_once('=').ok_or_else(|| wrong(NAMES))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "default_roce_tos" | "cma_roce_tos" => {
                let place = &mut self.default_class;
                once(place, class(value).ok_or_else(|| wrong(CLASS))?).ok_or_else(|| wrong(ONCE))
            }
            "traffic_class" => {
                let place = &mut self.forced_class;
                once(place, class(value).ok_or_else(|| wrong(CLASS))?).ok_or_else(|| wrong(ONCE))
            }
            "sl2dscp" => {
                let (level, dscp) = pair(value, 7, 63).ok_or_else(|| wrong(LEVEL))?;
                once(&mut self.sl_to_dscp[usize::from(level)], dscp).ok_or_else(|| wrong(ONCE))
            }
            "dscp-prio" | "dscp2prio" => {
                let (dscp, priority) = pair(value, 63, 7).ok_or_else(|| wrong(PRIORITY))?;
                let map = self.priorities.get_or_insert_default();
                map.set(dscp, priority);
                Ok(())
            }
            "trust" if value.eq_ignore_ascii_case("dscp") => {
                self.priorities.get_or_insert_default();
                Ok(())
            }
            "trust" => Err(wrong(TRUST)),
            _ => Err(wrong(NAMES)),
        }
    }
}

const NAMES: &str = "NAME=VALUE, with default_roce_tos, traffic_class, sl2dscp, dscp-prio or trust";
const CLASS: &str = "a traffic class, 0 to 255: the DSCP times 4";
const LEVEL: &str = "a service level, 0 to 7, and its DSCP, 0 to 63, as in sl2dscp=3:26";
const PRIORITY: &str = "a DSCP, 0 to 63, and its priority, 0 to 7, as in dscp-prio=26:3";
const TRUST: &str = "trust=dscp: priorities follow from DSCPs here, and DSCPs from service \
                     levels by sl2dscp";
const ONCE: &str = "there once: its value was said before";

fn class(text: &str) -> Option<u8> {
    text.parse().ok()
}

/// `first:second`, neither more than so much.
fn pair(text: &str, most: u8, most_of_second: u8) -> Option<(u8, u8)> {
    let (first, second) = text.split_once(':')?;
    let number = |text: &str, most| text.trim().parse().ok().filter(|n: &u8| *n <= most);
    Some((number(first, most)?, number(second, most_of_second)?))
}

/// Puts a value where there is none yet.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// What is wrong with the text of [`PrioritySettings`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrioritySettingsError {
    /// The part that can't be understood.
    pub given: String,
    /// What would be right there.
    pub valid: &'static str,
}

impl fmt::Display for PrioritySettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} should be {}", self.given, self.valid)
    }
}

impl std::error::Error for PrioritySettingsError {}

impl FromStr for PrioritySettings {
    type Err = PrioritySettingsError;

    fn from_str(text: &str) -> Result<Self, PrioritySettingsError> {
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""));
        let parts = lines.flat_map(|line| line.split(',')).map(str::trim);
        let mut settings = Self::default();
        for part in parts.filter(|part| !part.is_empty()) {
            settings.set(part)?;
        }
        Ok(settings)
    }
}

/// What `ROCE_QOS` says of traffic classes and priorities, if it is set. `@FILE` is what the
/// file says.
///
/// # Errors
/// If the value, or what the file says, is malformed, or the file can't be read.
pub fn environment_priorities() -> Result<Option<PrioritySettings>, OpenError> {
    environment::variable(VARIABLE, environment::text_or_file)
}

#[cfg(test)]
mod tests;
