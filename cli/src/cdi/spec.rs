//! The specification as a value: the edits that an engine makes to a container.

use crate::error::Error;
use crate::run::frameworks::{self, NamedDevice};
use serde::Serialize;
use std::path::Path;

/// The version whose fields are used here: the first one, which all engines read.
const VERSION: &str = "0.3.0";

/// The name of the devices, before the `=`.
const KIND: &str = "roce.dev/nic";

/// The places in the container. They are those of an installation, so that `roce` finds its libraries.
pub(super) const COMMAND: &str = "/opt/roce/bin/roce";
pub(super) const FOLDER: &str = "/opt/roce/lib/roce";
pub(super) const PRELOAD: &str = "/opt/roce/lib/roce/libroce_preload.so";
pub(super) const SOCKETS: &str = "/opt/roce/lib/roce/librspreload.so";
pub(super) const LD_SO_PRELOAD: &str = "/etc/ld.so.preload";

/// The contents of the container's `/etc/ld.so.preload`. Unlike a variable, it leaves the variables of the
/// image and of the user as they are, and reaches `podman exec`, `ssh` and `env -i`. The loader of musl does
/// not read it.
pub const PRELOAD_LIST: &str =
    "/opt/roce/lib/roce/libroce_preload.so\n/opt/roce/lib/roce/libibverbs.so.1\n";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    cdi_version: &'static str,
    kind: &'static str,
    devices: [Device; 2],
    /// The edits for every device.
    container_edits: Edits,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: &'static str,
    container_edits: Edits,
}

#[derive(Serialize)]
struct Edits {
    env: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<Mount>,
}

/// A file of this machine at a place of the container.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mount {
    host_path: String,
    container_path: String,
    options: [&'static str; 4],
}

impl Spec {
    pub(super) fn new(mounts: Vec<Mount>) -> Self {
        // The container's interfaces are not known yet, except for the loopback. UCX takes every device for a
        // path to every host, so the loopback's does not lie beside others.
        let device = |name, devices: &str| Device {
            name,
            container_edits: Edits {
                env: vec![format!("ROCE_DEVICES={devices}")],
                mounts: Vec::new(),
            },
        };
        Self {
            cdi_version: VERSION,
            kind: KIND,
            devices: [device("all", "^lo"), device("lo", "lo")],
            container_edits: Edits {
                env: settings(),
                mounts,
            },
        }
    }

    /// JSON, which is YAML, too.
    pub(super) fn text(&self) -> Result<String, Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// The settings of NCCL and Open MPI that containers need, whatever devices they have. The image's UCX may not
/// know `UCX_FENCE_MODE`, and would warn.
fn settings() -> Vec<String> {
    let device = |interface: &str| NamedDevice {
        name: format!("roce_{interface}"),
        interface: interface.to_owned(),
        is_loopback: false,
    };
    let devices = ["eth0", "eth1"].map(device);
    let lacking = frameworks::lacking(&devices, false, |_| false);
    let text = |setting: frameworks::Setting| format!("{}={}", setting.name, setting.value);
    lacking.into_iter().map(text).collect()
}

impl Mount {
    /// # Errors
    /// If the host's path is not text, as JSON requires.
    pub(super) fn new(host: &Path, container: &str) -> Result<Self, Error> {
        let Some(host_path) = host.to_str() else {
            return Err(Error::usage(format_args!(
                "{host:?} is not UTF-8, which the specification requires: install the command and its \
                 libraries at another place"
            )));
        };
        Ok(Self {
            host_path: host_path.to_owned(),
            container_path: container.to_owned(),
            // A mount of an ordinary user must keep the options that the host's has.
            options: ["bind", "ro", "nosuid", "nodev"],
        })
    }
}
