//! Settings of NCCL, UCX and Open MPI without which they fail on this stack's devices, or leave them alone.
//!
//! Seen with NCCL 2.28.9, which PyTorch 2.11 brings, on a GPU; with UCX 1.13.1, and in the sources of UCX 1.16 to
//! 1.20; and with Open MPI 4.1.4.

use roce_trust::environment;
use roce_verbs::Device;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs};

/// A library that has settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framework {
    /// NVIDIA's collectives.
    Nccl,
    /// Unified Communication X.
    Ucx,
    OpenMpi,
}

/// A device, as these libraries name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedDevice {
    pub(crate) name: String,
    /// The name of its interface, which UCX uses for TCP.
    pub(crate) interface: String,
    pub(crate) is_loopback: bool,
}

impl From<&Device> for NamedDevice {
    fn from(device: &Device) -> Self {
        Self {
            name: device.name(),
            interface: device.interface().name.clone(),
            is_loopback: device.is_loopback(),
        }
    }
}

/// A setting: a variable, its value, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The library that reads it.
    pub(crate) framework: Framework,
    /// The variable's name.
    pub(crate) name: &'static str,
    pub(crate) value: Cow<'static, str>,
    /// The consequence of leaving it unset.
    pub(crate) without: &'static str,
}

impl Setting {
    const fn new(
        framework: Framework,
        name: &'static str,
        value: &'static str,
        without: &'static str,
    ) -> Self {
        Self {
            framework,
            name,
            value: Cow::Borrowed(value),
            without,
        }
    }

    /// The variable and its value.
    pub(crate) fn variable(self) -> (&'static str, OsString) {
        (self.name, self.value.into_owned().into())
    }
}

const GIN_TYPE: Setting = Setting::new(
    Framework::Nccl,
    "NCCL_GIN_TYPE",
    "2",
    "NCCL 2.28 crashes in ncclCommInitRank, since it finds no device for GPU-initiated networking",
);
const GDR_LEVEL: Setting = Setting::new(
    Framework::Nccl,
    "NCCL_NET_GDR_LEVEL",
    "LOC",
    "NCCL registers a GPU's memory if the kernel has nvidia_peermem, which fails",
);
const MERGE_NICS: Setting = Setting::new(
    Framework::Nccl,
    "NCCL_IB_MERGE_NICS",
    "0",
    "NCCL takes several devices for the ports of one NIC, and finds no path to it",
);
/// Its value depends on the loopback's device.
const HCA: Setting = Setting::new(
    Framework::Nccl,
    "NCCL_IB_HCA",
    "",
    "NCCL also uses the loopback's device, by which it reaches no other host",
);
/// Its value depends on the devices.
const NET_DEVICES: Setting = Setting::new(
    Framework::Ucx,
    "UCX_NET_DEVICES",
    "",
    "UCX also reads long messages by the loopback's device, by which it reaches no other host, and \
     waits for ever",
);
const FENCE_MODE: Setting = Setting::new(
    Framework::Ucx,
    "UCX_FENCE_MODE",
    "weak",
    "a fence of UCX 1.16 or newer sends a READ whose key is valid only on mlx5, and the peer ends \
     the connection",
);
const UCX_DEVICES: Setting = Setting::new(
    Framework::OpenMpi,
    "OMPI_MCA_opal_common_ucx_devices",
    "any",
    "Open MPI prefers UCX only for devices named mlx5, and otherwise silently moves data over shared \
     memory or TCP",
);

/// The settings that are lacking. `has_fence_mode` says whether UCX knows its variable, and `is_set`
/// whether the user has set a variable.
pub(crate) fn lacking(
    devices: &[NamedDevice],
    has_fence_mode: bool,
    is_set: impl Fn(&str) -> bool,
) -> Vec<Setting> {
    let (loopback, other): (Vec<_>, Vec<_>) = devices.iter().partition(|it| it.is_loopback);
    let count = devices.len();
    let has_both = !loopback.is_empty() && !other.is_empty();
    let loopback = loopback.iter().map(|it| format!("={}", it.name));
    let hca = Setting {
        value: format!("^{}", loopback.collect::<Vec<_>>().join(",")).into(),
        ..HCA
    };
    let net_devices = Setting {
        value: net_devices(&other).into(),
        ..NET_DEVICES
    };
    let needed = [
        (count > 0, GIN_TYPE),
        (count > 0, GDR_LEVEL),
        (count > 1, MERGE_NICS),
        (has_both, hca),
        (has_both, net_devices),
        (count > 0 && has_fence_mode, FENCE_MODE),
        (count > 0, UCX_DEVICES),
    ];
    let needed = needed.into_iter().filter_map(|(is, it)| is.then_some(it));
    needed.filter(|setting| !is_set(setting.name)).collect()
}

/// The devices by UCX's names, with their interfaces, which UCX uses for TCP. It can't leave out a single
/// device.
fn net_devices(devices: &[&NamedDevice]) -> String {
    let both = devices
        .iter()
        .map(|it| format!("{}:1,{}", it.name, it.interface));
    both.collect::<Vec<_>>().join(",")
}

/// The variable's name in UCX's library.
const FENCE_MODE_IN_LIBRARY: &[u8] = b"\0FENCE_MODE\0";

/// Whether the UCX that programs load here knows `UCX_FENCE_MODE`. UCX warns of variables that it does not
/// know, and only the library itself says which it is. A UCX that a program brings along is not found.
pub(crate) fn has_fence_mode() -> bool {
    const FOLDERS: [&str; 6] = [
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/lib",
    ];
    let search = environment::variable("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders = env::split_paths(&search).chain(FOLDERS.map(PathBuf::from));
    let library = folders.find_map(|folder| fs::read(folder.join("libucp.so.0")).ok());
    library.is_some_and(|library| mentions_fence_mode(&library))
}

/// Whether a library of UCX has the variable.
pub(crate) fn mentions_fence_mode(library: &[u8]) -> bool {
    memchr::memmem::find(library, FENCE_MODE_IN_LIBRARY).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The devices of these interfaces, with their usual names.
    fn devices(interfaces: &[&str]) -> Vec<NamedDevice> {
        let device = |interface: &&str| NamedDevice {
            name: format!("roce_{interface}"),
            interface: (*interface).to_owned(),
            is_loopback: *interface == "lo",
        };
        interfaces.iter().map(device).collect()
    }

    fn made(interfaces: &[&str], set: &str) -> Vec<String> {
        settings_for(&devices(interfaces), set)
    }

    fn settings_for(devices: &[NamedDevice], set: &str) -> Vec<String> {
        let lacking = lacking(devices, true, |name| name == set);
        let text = |setting: Setting| format!("{}={}", setting.name, setting.value);
        lacking.into_iter().map(text).collect()
    }

    const ALWAYS: [&str; 4] = [
        "NCCL_GIN_TYPE=2",
        "NCCL_NET_GDR_LEVEL=LOC",
        "UCX_FENCE_MODE=weak",
        "OMPI_MCA_opal_common_ucx_devices=any",
    ];

    #[test]
    fn only_settings_that_the_devices_need() {
        assert!(made(&[], "").is_empty());
        assert_eq!(made(&["lo"], ""), ALWAYS);
        assert_eq!(made(&["eth0"], ""), ALWAYS);
        let two = made(&["eth0", "eth1"], "");
        assert_eq!(two.len(), ALWAYS.len() + 1, "{two:?}");
        assert!(two.contains(&"NCCL_IB_MERGE_NICS=0".to_owned()), "{two:?}");
    }

    /// Neither NCCL nor UCX reaches another host by it.
    #[test]
    fn the_loopback_is_left_out_beside_other_devices() {
        let all = made(&["eth0", "eth1", "lo"], "");
        let ucx = "UCX_NET_DEVICES=roce_eth0:1,eth0,roce_eth1:1,eth1";
        for setting in ["NCCL_IB_HCA=^=roce_lo", ucx] {
            assert!(all.contains(&setting.to_owned()), "{all:?}");
        }
        assert_eq!(all.len(), ALWAYS.len() + 3, "{all:?}");
    }

    #[test]
    fn devices_with_other_names_have_these_in_their_settings() {
        let mut devices = devices(&["eth0", "lo"]);
        for (device, name) in devices.iter_mut().zip(["mlx5_0", "rxe0"]) {
            device.name = name.to_owned();
        }
        let all = settings_for(&devices, "");
        for setting in ["NCCL_IB_HCA=^=rxe0", "UCX_NET_DEVICES=mlx5_0:1,eth0"] {
            assert!(all.contains(&setting.to_owned()), "{all:?}");
        }
    }

    #[test]
    fn a_setting_of_the_user_stays() {
        let devices = ["eth0", "lo"];
        let all = made(&devices, "");
        assert_eq!(all.len(), 7, "{all:?}");
        for setting in &all {
            let name = setting.split('=').next().unwrap_or_default();
            let rest = made(&devices, name);
            assert_eq!(rest.len(), all.len() - 1, "{name}: {rest:?}");
            assert!(!rest.contains(setting), "{name}: {rest:?}");
        }
    }

    /// UCX 1.13 has names that only contain it.
    #[test]
    fn only_a_library_with_the_whole_name_has_the_variable() {
        assert!(mentions_fence_mode(b"\x7fELF...TLS\0FENCE_MODE\0auto\0"));
        assert!(!mentions_fence_mode(
            b"\x7fELF...\0RC_FENCE_MODE\0ucp_worker_fence\0"
        ));
        let without = lacking(&devices(&["eth0"]), false, |_| false);
        assert!(
            without
                .iter()
                .all(|setting| setting.name != "UCX_FENCE_MODE")
        );
    }
}
