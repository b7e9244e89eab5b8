//! The datapath options that the environment sets.

use super::{DatapathOptions, UdpSplice};
use crate::environment;
use crate::error::OpenError;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The options that `ROCE_DATAPATH`, `ROCE_UDP_BUFFER_MIB`, `ROCE_UDP_FLOWS`, `ROCE_UDP_SPLICE`,
/// `ROCE_LOCAL`, `ROCE_XDP_MODE`, `ROCE_XDP_QUEUES`,
/// `ROCE_XDP_CHECKSUM`, `ROCE_XDP_PRIORITY_TAG` and `ROCE_V1` set.
///
/// # Errors
/// If a value is malformed. The error names the variable and its valid values.
pub fn environment_datapath() -> Result<DatapathOptions, OpenError> {
    from_variables(|variable| {
        let value = environment::value(variable)?;
        Some(value.to_string_lossy().into_owned())
    })
}

/// Reads the variables through `lookup`.
fn from_variables(
    lookup: impl Fn(&'static str) -> Option<String>,
) -> Result<DatapathOptions, OpenError> {
    // No interface has more than 1024 queues.
    let queues = |text: &str| number(text, 1, 1024, "queues").map(NonZeroU32::new);
    let mebibytes = |text: &str| number(text, 1, 1024, "MiB").map(|count| (count as usize) << 20);
    let flows = |text: &str| number(text, 0, 4096, "sockets").map(|count| count as usize);
    let splice = |text: &str| match text {
        "auto" => Ok(UdpSplice::Auto),
        "off" => Ok(UdpSplice::Off),
        _ => {
            let bytes = text.parse().ok().filter(|bytes| *bytes <= 65_535);
            let bytes = bytes.map(UdpSplice::From);
            bytes.ok_or_else(|| "it must be auto, off or a number of bytes, 0 to 65535".to_owned())
        }
    };
    let lanes = |text: &str| match text {
        "auto" => Ok(false),
        "off" => Ok(true),
        _ => Err("it must be auto or off".to_owned()),
    };
    let yes_or_no = |text: &str| match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("it must be 0 or 1".to_owned()),
    };
    Ok(DatapathOptions {
        datapath: read(&lookup, "ROCE_DATAPATH", FromStr::from_str)?.unwrap_or_default(),
        udp_receive_buffer_bytes: read(&lookup, "ROCE_UDP_BUFFER_MIB", mebibytes)?,
        udp_flows: read(&lookup, "ROCE_UDP_FLOWS", flows)?,
        udp_splice: read(&lookup, "ROCE_UDP_SPLICE", splice)?.unwrap_or_default(),
        sockets_only: read(&lookup, "ROCE_LOCAL", lanes)?.unwrap_or_default(),
        xdp_mode: read(&lookup, "ROCE_XDP_MODE", FromStr::from_str)?.unwrap_or_default(),
        xdp_queues: read(&lookup, "ROCE_XDP_QUEUES", queues)?.flatten(),
        roce_v1: read(&lookup, "ROCE_V1", yes_or_no)?.unwrap_or_default(),
        xdp_priority_tag: read(&lookup, "ROCE_XDP_PRIORITY_TAG", yes_or_no)?.unwrap_or_default(),
        xdp_checksum: read(&lookup, "ROCE_XDP_CHECKSUM", FromStr::from_str)?.unwrap_or_default(),
    })
}

fn number(text: &str, least: u32, most: u32, of: &str) -> Result<u32, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("it must be a number of {of}, {least} to {most}"))
}

fn read<T>(
    lookup: impl Fn(&'static str) -> Option<String>,
    variable: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, OpenError> {
    environment::parse_value(variable, lookup(variable), parse)
}

#[cfg(test)]
mod tests {
    use super::super::{DatapathChoice, XdpChecksum, XdpMode};
    use super::*;

    fn with(set: &[(&str, &str)]) -> Result<DatapathOptions, String> {
        let lookup = |variable: &'static str| {
            let found = set.iter().find(|(name, _)| *name == variable);
            found.map(|(_, value)| (*value).to_owned())
        };
        from_variables(lookup).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_is_auto() {
        assert_eq!(with(&[]), Ok(DatapathOptions::default()));
        assert_eq!(DatapathOptions::default().datapath, DatapathChoice::Auto);
    }

    #[test]
    fn valid_values_are_applied() {
        for (text, datapath) in [
            ("auto", DatapathChoice::Auto),
            ("udp", DatapathChoice::Udp),
            ("xdp", DatapathChoice::Xdp),
        ] {
            let read = with(&[("ROCE_DATAPATH", text)]).map(|options| options.datapath);
            assert_eq!(read, Ok(datapath));
        }
        for (text, mode) in [
            ("auto", XdpMode::Auto),
            ("native", XdpMode::Native),
            ("generic", XdpMode::Generic),
        ] {
            let read = with(&[("ROCE_XDP_MODE", text)]).map(|options| options.xdp_mode);
            assert_eq!(read, Ok(mode));
        }
        for (text, checksum) in [
            ("none", XdpChecksum::None),
            ("auto", XdpChecksum::Auto),
            ("software", XdpChecksum::Software),
        ] {
            let read = with(&[("ROCE_XDP_CHECKSUM", text)]).map(|options| options.xdp_checksum);
            assert_eq!(read, Ok(checksum));
        }
        for (text, bytes) in [("1", 1 << 20), ("1024", 1 << 30)] {
            let read = with(&[("ROCE_UDP_BUFFER_MIB", text)]);
            let read = read.map(|options| options.udp_receive_buffer_bytes);
            assert_eq!(read, Ok(Some(bytes)));
        }
        for (text, flows) in [("0", 0), ("4096", 4096)] {
            let read = with(&[("ROCE_UDP_FLOWS", text)]).map(|options| options.udp_flows);
            assert_eq!(read, Ok(Some(flows)));
        }
        for (text, splice) in [
            ("auto", UdpSplice::Auto),
            ("off", UdpSplice::Off),
            ("0", UdpSplice::From(0)),
            ("65535", UdpSplice::From(65_535)),
        ] {
            let read = with(&[("ROCE_UDP_SPLICE", text)]).map(|options| options.udp_splice);
            assert_eq!(read, Ok(splice));
        }
        let read = with(&[("ROCE_XDP_QUEUES", "2")]).map(|options| options.xdp_queues);
        assert_eq!(read, Ok(NonZeroU32::new(2)));
        for (text, only) in [("auto", false), ("off", true)] {
            let read = with(&[("ROCE_LOCAL", text)]).map(|options| options.sockets_only);
            assert_eq!(read, Ok(only));
        }
        for (text, enabled) in [("0", false), ("1", true)] {
            let read = with(&[("ROCE_V1", text)]).map(|options| options.roce_v1);
            assert_eq!(read, Ok(enabled));
            let read = with(&[("ROCE_XDP_PRIORITY_TAG", text)]);
            assert_eq!(read.map(|options| options.xdp_priority_tag), Ok(enabled));
        }
    }

    #[test]
    fn an_error_lists_the_valid_values() {
        for (variable, value, expected) in [
            ("ROCE_DATAPATH", "dpdk", "auto, udp or xdp"),
            ("ROCE_DATAPATH", "", "auto, udp or xdp"),
            ("ROCE_XDP_MODE", "fast", "auto, native or generic"),
            ("ROCE_XDP_CHECKSUM", "yes", "none, auto or software"),
            ("ROCE_XDP_QUEUES", "0", "1 to 1024"),
            ("ROCE_XDP_QUEUES", "all", "1 to 1024"),
            ("ROCE_XDP_QUEUES", "1025", "1 to 1024"),
            ("ROCE_UDP_FLOWS", "-1", "0 to 4096"),
            ("ROCE_UDP_FLOWS", "4097", "0 to 4096"),
            ("ROCE_UDP_SPLICE", "on", "auto, off or"),
            ("ROCE_UDP_SPLICE", "65536", "0 to 65535"),
            ("ROCE_LOCAL", "0", "auto or off"),
            ("ROCE_UDP_BUFFER_MIB", "0", "1 to 1024"),
            ("ROCE_UDP_BUFFER_MIB", "64M", "1 to 1024"),
            ("ROCE_UDP_BUFFER_MIB", "1025", "1 to 1024"),
            ("ROCE_V1", "yes", "0 or 1"),
            ("ROCE_XDP_PRIORITY_TAG", "5", "0 or 1"),
        ] {
            let error = with(&[(variable, value)]).expect_err("it is wrong");
            let named = error.contains(variable) && error.contains(&format!("{value:?}"));
            assert!(named && error.contains(expected), "{error}");
        }
    }
}
