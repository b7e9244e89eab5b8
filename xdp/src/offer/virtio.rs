//! Checks whether virtio_net refuses XDP programs for a device.
//!
//! The kernel lists virtio_net among the drivers with native XDP. But attaching a program fails
//! with EOPNOTSUPP if the hypervisor may coalesce packets or leave out their checksums, and the
//! device offers no way to turn that off. The program would see frames that do not exist on the
//! wire. The features of a device are in sysfs.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The bit numbers of device features (`linux/virtio_net.h`).
const GUEST_CSUM: usize = 1;
const CTRL_GUEST_OFFLOADS: usize = 2;
const GUEST_TSO4: usize = 7;
const GUEST_TSO6: usize = 8;
const GUEST_ECN: usize = 9;
const GUEST_UFO: usize = 10;
const GUEST_USO4: usize = 54;
const GUEST_USO6: usize = 55;

const OFFLOADS: [usize; 7] = [
    GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, GUEST_ECN, GUEST_UFO, GUEST_USO4, GUEST_USO6,
];

const FIXED_OFFLOADS: &str = "the hypervisor joins packets or leaves out their checksums, and virtio_net can't turn \
                              that off (it lacks VIRTIO_NET_F_CTRL_GUEST_OFFLOADS), so it refuses XDP programs";

/// Why the driver of an interface refuses XDP programs, if it is virtio_net and its device shows a
/// reason.
pub(super) fn refusal(interface: &OsStr, index: u32) -> Option<&'static str> {
    let folder = Path::new("/sys/class/net").join(interface);
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    // The mounted sysfs may belong to another network namespace.
    if read("ifindex")?.trim().parse() != Ok(index) {
        return None;
    }
    let driver = fs::read_link(folder.join("device/driver")).ok()?;
    if driver.file_name()? != "virtio_net" {
        return None;
    }
    refusal_of(&read("device/features")?)
}

/// Evaluates the features, given as one digit for each bit, starting at bit 0.
fn refusal_of(features: &str) -> Option<&'static str> {
    let has = |bit: &usize| features.as_bytes().get(*bit) == Some(&b'1');
    (!has(&CTRL_GUEST_OFFLOADS) && OFFLOADS.iter().any(has)).then_some(FIXED_OFFLOADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(bits: &[usize]) -> String {
        let digit = |bit| if bits.contains(&bit) { '1' } else { '0' };
        (0..128).map(digit).collect()
    }

    #[test]
    fn offloads_that_cannot_be_turned_off_cause_a_refusal() {
        assert_eq!(refusal_of(&with(&[])), None);
        for offload in OFFLOADS {
            assert!(refusal_of(&with(&[0, offload])).is_some(), "bit {offload}");
            let controlled = [0, offload, CTRL_GUEST_OFFLOADS];
            assert_eq!(refusal_of(&with(&controlled)), None, "bit {offload}");
        }
        assert_eq!(refusal_of(""), None);
        // A device that answered EOPNOTSUPP.
        let seen = "1100010110111011000000000000010010000000000000000000000000000000";
        assert!(refusal_of(seen).is_some());
    }

    #[test]
    fn other_devices_have_no_virtio_refusal() {
        assert_eq!(refusal(OsStr::new("lo"), 1), None);
        assert_eq!(refusal(OsStr::new("no such interface"), 1), None);
    }
}
