//! Settings of NCCL without which it fails on devices that are not an RNIC's.
//!
//! Seen with NCCL 2.28.9, which PyTorch 2.11 brings, on a GPU.

use std::ffi::OsString;

/// A setting: a variable, its value, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The variable's name.
    pub(crate) name: &'static str,
    /// Its value.
    pub(crate) value: &'static str,
    /// What happens without it.
    pub(crate) without: &'static str,
}

impl Setting {
    /// The variable and its value.
    pub(crate) fn variable(self) -> (&'static str, OsString) {
        (self.name, self.value.into())
    }
}

const GIN_TYPE: Setting = Setting {
    name: "NCCL_GIN_TYPE",
    value: "2",
    without: "NCCL 2.28 crashes in ncclCommInitRank, since it finds no device for GPU-initiated \
              networking",
};
const MERGE_NICS: Setting = Setting {
    name: "NCCL_IB_MERGE_NICS",
    value: "0",
    without: "NCCL takes several devices for the ports of one NIC, and finds no path to it",
};
const HCA: Setting = Setting {
    name: "NCCL_IB_HCA",
    value: "^=roce_lo",
    without: "NCCL also uses the loopback's device, by which it reaches no other host",
};
const GDR_LEVEL: Setting = Setting {
    name: "NCCL_NET_GDR_LEVEL",
    value: "LOC",
    without: "NCCL registers a GPU's memory if the kernel has nvidia_peermem, which fails",
};

/// The settings that are lacking. `devices` are the names of the devices, and `is_set` says whether
/// the user has set a variable.
pub(crate) fn lacking<'a>(
    devices: impl IntoIterator<Item = &'a str>,
    is_set: impl Fn(&str) -> bool,
) -> Vec<Setting> {
    let (loopback, other): (Vec<&str>, Vec<&str>) =
        devices.into_iter().partition(|name| *name == "roce_lo");
    let count = loopback.len() + other.len();
    let needed = [
        (count > 0, GIN_TYPE),
        (count > 0, GDR_LEVEL),
        (count > 1, MERGE_NICS),
        (!loopback.is_empty() && !other.is_empty(), HCA),
    ];
    let needed = needed.into_iter().filter_map(|(is, it)| is.then_some(it));
    needed.filter(|setting| !is_set(setting.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(devices: &[&str], set: &str) -> Vec<&'static str> {
        let lacking = lacking(devices.iter().copied(), |name| name == set);
        lacking.iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn only_settings_that_the_devices_need_and_the_user_has_not_made() {
        assert!(names(&[], "").is_empty());
        assert_eq!(
            names(&["roce_lo"], ""),
            ["NCCL_GIN_TYPE", "NCCL_NET_GDR_LEVEL"]
        );
        assert_eq!(
            names(&["roce_eth0"], ""),
            ["NCCL_GIN_TYPE", "NCCL_NET_GDR_LEVEL"]
        );
        assert_eq!(
            names(&["roce_eth0", "roce_eth1"], ""),
            ["NCCL_GIN_TYPE", "NCCL_NET_GDR_LEVEL", "NCCL_IB_MERGE_NICS"]
        );
        assert_eq!(
            names(&["roce_eth0", "roce_lo"], ""),
            [
                "NCCL_GIN_TYPE",
                "NCCL_NET_GDR_LEVEL",
                "NCCL_IB_MERGE_NICS",
                "NCCL_IB_HCA"
            ]
        );
        assert_eq!(
            names(&["roce_eth0", "roce_lo"], "NCCL_IB_HCA"),
            ["NCCL_GIN_TYPE", "NCCL_NET_GDR_LEVEL", "NCCL_IB_MERGE_NICS"]
        );
    }
}
