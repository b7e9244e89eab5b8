//! Traffic classes and priorities: the settings, and how they apply to packets.

use crate::environment;
use crate::error::OpenError;
use roce_stack::PriorityMap;
use std::fmt;
use std::str::FromStr;

/// The variable that sets the traffic classes and priorities.
const VARIABLE: &str = "ROCE_QOS";

/// The number of service levels that RoCE has, which is that of 802.1Q priorities. Some programs
/// pass larger values: they copy `wc.sl` of a datagram's completion, which, as on ConnectX, holds
/// the type of the packet rather than a service level. Such values have no meaning.
const SERVICE_LEVELS: usize = 8;

/// The traffic classes and priorities of a device's packets.
///
/// The text form has these parts, separated by commas or line ends:
///
/// - `default_roce_tos=104`: the traffic class for requests without one, like `cma_roce_tos` and
///   `/sys/kernel/config/rdma_cm`;
/// - `traffic_class=104`: the traffic class of all packets, whatever the program asks for, like
///   `/sys/class/infiniband/*/tc/1/traffic_class` on ConnectX;
/// - `sl2dscp=3:26`: the DSCP for a service level, for requests without a traffic class;
/// - `dscp-prio=26:3`: the 802.1Q priority of packets with a DSCP, like `dcb app`, or `mlnx_qos`
///   under the name `dscp2prio`;
/// - `trust=dscp`: a packet's priority follows from its DSCP: the upper three bits, unless a
///   `dscp-prio` says otherwise. Any `dscp-prio` implies it.
///
/// `sl2dscp` and `dscp-prio` may appear once for each service level and each DSCP. The lower two
/// bits of a traffic class, ECN, are ignored. A comment begins with `#` and ends with its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrioritySettings {
    /// The traffic class for requests without one.
    pub default_class: Option<u8>,
    /// The traffic class of all packets.
    pub forced_class: Option<u8>,
    /// The DSCP of each service level, for requests without a traffic class.
    pub sl_to_dscp: [Option<u8>; SERVICE_LEVELS],
    /// The priorities of packets. If `None`, the kernel derives a socket's priority from the
    /// traffic class, as for any other socket.
    pub priorities: Option<PriorityMap>,
}

/// The bits of a traffic class that are ECN (RFC 3168, 5); the others are the DSCP.
const ECN: u8 = 3;

impl PrioritySettings {
    /// The traffic class of packets for which a program asks for `service_level` and the traffic
    /// class `asked`. The ECN bits are those of `asked`.
    pub fn traffic_class(&self, service_level: u8, asked: u8) -> u8 {
        let requested = (asked & !ECN != 0).then_some(asked);
        let of_level = || {
            // rule: A17.4.2-service-level
            let dscp = *self.sl_to_dscp.get(usize::from(service_level))?;
            dscp.map(|dscp| dscp << 2)
        };
        let class = self.forced_class.or(requested).or_else(of_level);
        class.or(self.default_class).unwrap_or(0) & !ECN | asked & ECN
    }

    /// Applies one `name=value`.
    fn set(&mut self, part: &str) -> Result<(), PrioritySettingsError> {
        let error = |valid: &'static str| PrioritySettingsError {
            given: part.to_owned(),
            valid,
        };
        let (name, value) = part.split_once('=').ok_or_else(|| error(VALID_NAMES))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "default_roce_tos" | "cma_roce_tos" | "traffic_class" => {
                let slot = match name.as_str() {
                    "traffic_class" => &mut self.forced_class,
                    _ => &mut self.default_class,
                };
                let class = value.parse().map_err(|_| error(VALID_CLASS))?;
                set_once(slot, class).ok_or_else(|| error(VALID_ONCE))
            }
            "sl2dscp" => {
                let (level, dscp) = parse_pair(value, 7, 63).ok_or_else(|| error(VALID_LEVEL))?;
                set_once(&mut self.sl_to_dscp[usize::from(level)], dscp)
                    .ok_or_else(|| error(VALID_ONCE))
            }
            "dscp-prio" | "dscp2prio" => {
                let (dscp, priority) =
                    parse_pair(value, 63, 7).ok_or_else(|| error(VALID_PRIORITY))?;
                let map = self.priorities.get_or_insert_default();
                map.set(dscp, priority);
                Ok(())
            }
            "trust" if value.eq_ignore_ascii_case("dscp") => {
                self.priorities.get_or_insert_default();
                Ok(())
            }
            "trust" => Err(error(VALID_TRUST)),
            _ => Err(error(VALID_NAMES)),
        }
    }
}

const VALID_NAMES: &str =
    "NAME=VALUE, with default_roce_tos, traffic_class, sl2dscp, dscp-prio or trust";
const VALID_CLASS: &str = "a traffic class, 0 to 255: the DSCP times 4";
const VALID_LEVEL: &str = "a service level, 0 to 7, and its DSCP, 0 to 63, as in sl2dscp=3:26";
const VALID_PRIORITY: &str = "a DSCP, 0 to 63, and its priority, 0 to 7, as in dscp-prio=26:3";
const VALID_TRUST: &str = "trust=dscp: priorities follow from DSCPs here, and DSCPs from service \
                     levels by sl2dscp";
const VALID_ONCE: &str = "given only once, but has a value already";

/// Parses `first:second`. The values are at most `max` and `max_second`.
fn parse_pair(text: &str, max: u8, max_second: u8) -> Option<(u8, u8)> {
    let (first, second) = text.split_once(':')?;
    let number = |text: &str, max| text.trim().parse().ok().filter(|n: &u8| *n <= max);
    Some((number(first, max)?, number(second, max_second)?))
}

/// Sets `slot`. Returns `None` if it was already set.
fn set_once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// An error in the text of [`PrioritySettings`].
#[derive(Clone, PartialEq, Eq)]
pub struct PrioritySettingsError {
    /// The part that is wrong.
    pub given: String,
    /// The valid values.
    pub valid: &'static str,
}

impl fmt::Display for PrioritySettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} should be {}", self.given, self.valid)
    }
}

debug_as_display!(PrioritySettingsError);

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

/// The traffic classes and priorities that `ROCE_QOS` sets, if it is set. With `@FILE`, the
/// settings are the file's contents.
///
/// # Errors
/// If the value or the file's contents are malformed, or the file can't be read.
pub fn environment_priorities() -> Result<Option<PrioritySettings>, OpenError> {
    environment::variable(VARIABLE, environment::parse_text_or_file)
}

#[cfg(test)]
mod tests;
