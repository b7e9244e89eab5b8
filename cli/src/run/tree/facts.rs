//! The facts about a device and its interface.

use roce_verbs::Device;
use roce_verbs::datapath::DatapathOptions;
use roce_verbs::device::GidEntry;
use std::fs;
use std::path::{Path, PathBuf};

/// The facts that determine a device's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) interface: String,
    /// The interface's index, which is also its number among the devices.
    pub(crate) index: u32,
    /// The interface's hardware address; zeros if it has none.
    pub(crate) mac: [u8; 6],
    /// Whether the interface is up and has a link.
    pub(crate) running: bool,
    pub(crate) gids: Vec<GidEntry>,
    /// The interface in sysfs, with all links followed.
    pub(crate) net: PathBuf,
    /// The underlying hardware, with all links resolved, if there is any.
    pub(crate) hardware: Option<PathBuf>,
    /// The processors of this machine, as sysfs lists them: `0-3,8`.
    pub(crate) processors: String,
}

impl Facts {
    /// The facts about a device of this machine, as if a program opened it now with these options.
    pub(crate) fn of(device: &Device, options: &DatapathOptions) -> Self {
        let interface = &device.interface().name;
        let folder = Path::new("/sys/class/net").join(interface);
        let mac = fs::read_to_string(folder.join("address")).ok();
        let mac = mac.and_then(|text| parse_mac(text.trim()));
        let processors = fs::read_to_string("/sys/devices/system/cpu/online");
        Self {
            name: device.name(),
            interface: interface.clone(),
            index: device.interface().index,
            mac: mac.unwrap_or_default(),
            running: device.is_running(),
            gids: device.gids_with(options),
            hardware: folder.join("device").canonicalize().ok(),
            net: folder.canonicalize().unwrap_or(folder),
            processors: processors.unwrap_or_default().trim().to_owned(),
        }
    }

    /// The interface's EUI-64, which identifies the device. Like the kernel's, it is derived from
    /// the hardware address (the "universal" bit flipped, ff:fe in the middle). Without an address,
    /// it is derived from the interface's index, as in the library.
    pub(crate) fn guid(&self) -> [u8; 8] {
        let [.., high, low] = self.index.to_be_bytes();
        let [a, b, c, d, e, f] = match self.mac {
            [0, 0, 0, 0, 0, 0] => [2, 0, 0, 0, high, low],
            mac => mac,
        };
        [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
    }
}

/// Parses six hexadecimal bytes with colons. Addresses of other lengths are not Ethernet's.
fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    bytes?.try_into().ok()
}

/// Converts a list such as `0-3,8` to sysfs's mask format: words of 32 bits, the highest first.
pub(super) fn processor_mask(list: &str) -> String {
    let mut words = vec![0_u32];
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
            continue;
        };
        for number in first..=last {
            let word = usize::from(number / 32);
            if word >= words.len() {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << (number % 32);
        }
    }
    let mut text = format!("{:x}", words[words.len() - 1]);
    for word in words.iter().rev().skip(1) {
        text.push_str(&format!(",{word:08x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_those_of_ethernet() {
        assert_eq!(
            parse_mac("52:54:00:4d:00:02"),
            Some([0x52, 0x54, 0, 0x4d, 0, 2])
        );
        for text in ["", "52:54:00:4d:00", "52:54:00:4d:00:02:03", "0x:0:0:0:0:0"] {
            assert_eq!(parse_mac(text), None, "{text}");
        }
    }

    #[test]
    fn processors_become_a_mask() {
        for (list, mask) in [
            ("0", "1"),
            ("0-1", "3"),
            ("0-3,8", "10f"),
            ("0-31", "ffffffff"),
            ("0-35", "f,ffffffff"),
            ("", "0"),
            ("nonsense", "0"),
        ] {
            assert_eq!(processor_mask(list), mask, "{list}");
        }
    }
}
