//! The requirements of the lab.

use std::env;
use std::path::Path;

use super::{Flavour, LabError};

/// Programs that the lab calls, outside and, because files are shared, in the guest.
const PROGRAMS: &[&str] = &[
    "apt-get",
    "dpkg",
    "depmod",
    "modprobe",
    "qemu-system-x86_64",
    "busybox",
    "ip",
    "nft",
    "tc",
    "rdma",
    "tcpdump",
    "ibv_devinfo",
];

/// Further programs for a guest with zero-copy.
const ZERO_COPY_PROGRAMS: &[&str] = &["ethtool"];

/// Further programs for a guest with persistent memory.
const PERSISTENT_PROGRAMS: &[&str] = &["ndctl"];

/// Fails with a list of everything that is missing, if the lab cannot run here.
pub(super) fn check(flavour: Flavour) -> Result<(), LabError> {
    let mut missing = Vec::new();
    if env::consts::ARCH != "x86_64" {
        missing.push(format!(
            "processor {} (only x86_64 will do)",
            env::consts::ARCH
        ));
    }
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        missing.push("not root, which network namespaces and tap devices need".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        missing.push("no /dev/net/tun".to_owned());
    }
    let more = match flavour {
        Flavour::SoftRoce => &[],
        Flavour::ZeroCopy => ZERO_COPY_PROGRAMS,
        Flavour::PersistentMemory => PERSISTENT_PROGRAMS,
    };
    let absent: Vec<_> = PROGRAMS
        .iter()
        .chain(more)
        .copied()
        .filter(|name| testkit::find(name).is_none())
        .collect();
    if !absent.is_empty() {
        missing.push(format!(
            "not installed: {} (tests/lab/install-packages.sh installs them)",
            absent.join(", ")
        ));
    }
    if !Path::new("/usr/lib/python3/dist-packages/pyverbs").is_dir() {
        missing.push("not installed: python3-pyverbs".to_owned());
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(LabError::poor_machine(missing.join("; ")))
    }
}
