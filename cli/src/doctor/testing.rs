//! Machines and files that tests make up.

use super::machine::{DeviceView, Machine};
use crate::run::frameworks::NamedDevice;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A machine without problems, in a folder of its own.
pub(super) struct FakeMachine {
    _folder: tempfile::TempDir,
    pub(super) machine: Machine,
}

impl FakeMachine {
    pub(super) fn healthy() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("there");
        let library = root.join("opt/roce/libibverbs.so.1");
        let fake = Self {
            machine: Machine {
                current_dir: root.join("home"),
                environment: BTreeMap::from([
                    ("PATH".into(), "/usr/bin".into()),
                    ("NCCL_GIN_TYPE".into(), "2".into()),
                    ("NCCL_NET_GDR_LEVEL".into(), "LOC".into()),
                    ("NCCL_IB_MERGE_NICS".into(), "0".into()),
                    ("NCCL_IB_HCA".into(), "^=roce_lo".into()),
                    ("UCX_NET_DEVICES".into(), "roce_eth0:1,eth0".into()),
                    ("OMPI_MCA_opal_common_ucx_devices".into(), "any".into()),
                ]),
                library: Ok(library),
                devices: vec![device("eth0"), device("lo")],
                unlisted: None,
                device_view: DeviceView::Namespace,
                root,
            },
            _folder: folder,
        };
        fake.write("/opt/roce/libibverbs.so.1", "ROCE_DATAPATH");
        fake.write("/dev/infiniband/uverbs2", "");
        fake.show_device("roce_eth0");
        fake.limits("unlimited", "65536");
        fake.write("/proc/sys/net/core/rmem_max", "8388608\n");
        fake.write("/proc/sys/fs/pipe-max-size", "1048576\n");
        fake.write("/proc/sys/fs/pipe-user-pages-hard", "0\n");
        fake.write("/proc/sys/fs/pipe-user-pages-soft", "16384\n");
        fake.write("/proc/self/cgroup", "0::/a/b\n");
        fake.write("/proc/net/udp", "  sl  local_address\n");
        fake
    }

    /// Limits on locked memory and open files.
    pub(super) fn limits(&self, memlock: &str, files: &str) {
        let text = format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            {files:<20} 1048576              files     \n\
             Max locked memory         {memlock:<20} unlimited            bytes     \n"
        );
        self.write("/proc/self/limits", &text);
    }

    pub(super) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.machine.at(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, bytes).expect("written");
        path
    }

    /// One of this stack's devices in sysfs.
    pub(super) fn show_device(&self, name: &str) {
        let at = |file| format!("/sys/class/infiniband/{name}/{file}");
        self.write(&at("board_id"), "roce\n");
        self.write(&at("ports/1/state"), "4: ACTIVE\n");
    }

    pub(super) fn remove(&self, path: &str) {
        let path = self.machine.at(path);
        match path.is_dir() {
            true => fs::remove_dir_all(path).expect("removed"),
            false => fs::remove_file(path).expect("removed"),
        }
    }

    pub(super) fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.machine.at(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::os::unix::fs::symlink(target, path).expect("linked");
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.machine.environment.insert(name.into(), value.into());
    }
}

/// The device of an interface.
pub(super) fn device(interface: &str) -> NamedDevice {
    NamedDevice {
        name: format!("roce_{interface}"),
        interface: interface.to_owned(),
        is_loopback: interface == "lo",
    }
}

/// An ELF file: its headers, and a dynamic section with these entries.
pub(crate) fn elf(needed: &[&str], rpath: Option<&str>, runpath: Option<&str>) -> Vec<u8> {
    const HEADERS: u64 = 64 + 3 * 56;
    let mut strings = vec![0];
    let mut dynamic: Vec<(u64, u64)> = Vec::new();
    let mut add = |tag, text: &str| {
        dynamic.push((tag, strings.len() as u64));
        strings.extend(text.bytes().chain([0]));
    };
    needed.iter().for_each(|name| add(1, name));
    rpath.iter().for_each(|path| add(15, path));
    runpath.iter().for_each(|path| add(29, path));
    let strings_at = HEADERS + 16 * (dynamic.len() as u64 + 3);
    dynamic.extend([(5, 0x1000 + strings_at), (10, strings.len() as u64), (0, 0)]);
    let end = strings_at + strings.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A shared object, whose program headers are behind this one.
    let [low, high] = crate::elf::MACHINE.to_le_bytes();
    file.extend([3, 0, low, high, 1, 0, 0, 0]);
    for word in [0, 64, 0] {
        file.extend(u64::to_le_bytes(word));
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    let segments = [
        (1, 0, end),
        (2, HEADERS, 16 * dynamic.len() as u64),
        (3, 0, 1),
    ];
    for (kind, offset, len) in segments {
        file.extend(u32::to_le_bytes(kind));
        file.extend([0; 4]);
        for word in [offset, 0x1000 + offset, 0, len, len, 0] {
            file.extend(u64::to_le_bytes(word));
        }
    }
    for (tag, value) in dynamic {
        file.extend(u64::to_le_bytes(tag));
        file.extend(u64::to_le_bytes(value));
    }
    file.extend(strings);
    file
}
