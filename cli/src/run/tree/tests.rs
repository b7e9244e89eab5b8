//! Compares the generated files with those of the kernel's software RNIC.

use super::*;
use roce_verbs::device::{GidEntry, RoceVersion};
use std::fs;

fn entry(index: u8, gid: &str, version: RoceVersion) -> GidEntry {
    GidEntry {
        index,
        gid: gid.parse().expect("a GID"),
        version,
    }
}

/// A device like that of the lab's guest, and a GID table entry of RoCE v1.
fn facts(hardware: Option<&str>) -> Facts {
    Facts {
        name: "roce_eth0".into(),
        interface: "eth0".into(),
        index: 3,
        mac: [0x52, 0x54, 0x00, 0x4d, 0x00, 0x02],
        running: true,
        gids: vec![
            entry(0, "fe80::5054:ff:fe4d:2", RoceVersion::V2),
            entry(1, "10.77.0.2", RoceVersion::V2),
            entry(3, "10.77.0.3", RoceVersion::V1),
        ],
        net: "/sys/devices/virtual/net/eth0".into(),
        hardware: hardware.map(PathBuf::from),
        processors: "0-1".into(),
    }
}

fn text<'a>(tree: &'a Tree, path: &str) -> &'a str {
    match tree.at(path) {
        Some(Node::File(text)) => text,
        other => panic!("{path} is {other:?}"),
    }
}

/// The files of rxe0 over virtio_net in a guest with Linux 6.1.
#[test]
fn the_files_are_as_the_kernel_has_them() {
    let DeviceFiles { class, .. } = DeviceFiles::new(&[facts(None)]);
    for (path, truth) in [
        ("node_type", "1: CA\n"),
        ("node_guid", "5054:00ff:fe4d:0002\n"),
        ("sys_image_guid", "5054:00ff:fe4d:0002\n"),
        ("parent", "eth0\n"),
        ("ports/1/lid", "0x0\n"),
        ("ports/1/lid_mask_count", "0\n"),
        ("ports/1/link_layer", "Ethernet\n"),
        ("ports/1/phys_state", "5: LinkUp\n"),
        ("ports/1/sm_lid", "0x0\n"),
        ("ports/1/sm_sl", "0\n"),
        ("ports/1/state", "4: ACTIVE\n"),
        ("ports/1/pkeys/0", "0xffff\n"),
        (
            "ports/1/gids/0",
            "fe80:0000:0000:0000:5054:00ff:fe4d:0002\n",
        ),
        (
            "ports/1/gids/1",
            "0000:0000:0000:0000:0000:ffff:0a4d:0002\n",
        ),
        (
            "ports/1/gids/2",
            "0000:0000:0000:0000:0000:0000:0000:0000\n",
        ),
        ("ports/1/gid_attrs/ndevs/0", "eth0\n"),
        ("ports/1/gid_attrs/types/1", "RoCE v2\n"),
        ("ports/1/gid_attrs/types/3", "IB/RoCE v1\n"),
        ("ports/1/hw_counters/sent_pkts", "0\n"),
    ] {
        let path = format!("infiniband/roce_eth0/{path}");
        assert_eq!(text(&class, &path), truth, "{path}");
    }
    let empty = "infiniband/roce_eth0/ports/1/gid_attrs/types/2";
    assert_eq!(class.at(empty), None);
    assert_eq!(text(&class, "infiniband_verbs/abi_version"), "6\n");
    assert_eq!(
        text(&class, "infiniband_verbs/uverbs3/ibdev"),
        "roce_eth0\n"
    );
    assert_eq!(text(&class, "infiniband_verbs/uverbs3/dev"), "1:7\n");
}

#[test]
fn a_port_without_a_link_is_down() {
    let down = Facts {
        running: false,
        ..facts(None)
    };
    let DeviceFiles { class, .. } = DeviceFiles::new(&[down]);
    let at = |name: &str| format!("infiniband/roce_eth0/ports/1/{name}");
    assert_eq!(text(&class, &at("state")), "1: DOWN\n");
    assert_eq!(text(&class, &at("phys_state")), "3: Disabled\n");
}

#[test]
fn hardware_is_linked_and_its_absence_made_up() {
    let device = "infiniband/roce_eth0/device";
    let pci = "/sys/devices/pci0000:00/0000:00:03.0";
    let DeviceFiles { class, .. } = DeviceFiles::new(&[facts(Some(pci))]);
    assert_eq!(class.at(device), Some(&Node::Link(pci.into())));
    let DeviceFiles { class, .. } = DeviceFiles::new(&[facts(None)]);
    assert_eq!(text(&class, &format!("{device}/numa_node")), "-1\n");
    assert_eq!(text(&class, &format!("{device}/local_cpus")), "3\n");
    let net = Node::Link("/sys/devices/virtual/net/eth0".into());
    assert_eq!(class.at(&format!("{device}/net/eth0")), Some(&net));
}

/// Here the library differs from the kernel, and the files agree with the library.
#[test]
fn the_files_are_as_the_library_says() {
    let lo = Facts {
        mac: [0; 6],
        ..facts(None)
    };
    let DeviceFiles { class, .. } = DeviceFiles::new(&[lo]);
    for (path, said) in [
        ("node_guid", "0000:00ff:fe00:0003\n"),
        ("ports/1/cap_mask", "0x04000000\n"),
        ("ports/1/rate", "100 Gb/sec (4X EDR)\n"),
    ] {
        let path = format!("infiniband/roce_eth0/{path}");
        assert_eq!(text(&class, &path), said, "{path}");
    }
}

#[test]
fn without_devices_the_folders_are_empty() {
    let DeviceFiles { class, dev } = DeviceFiles::new(&[]);
    assert_eq!(class.at("infiniband"), Some(&Node::Folder));
    assert_eq!(dev, ["rdma_cm"]);
}

#[test]
fn what_is_written_can_be_read_and_links_lead_somewhere() {
    let root = tempfile::tempdir().expect("a folder");
    let two = Facts {
        name: "roce_eth1".into(),
        index: 4,
        ..facts(None)
    };
    let DeviceFiles { class, .. } = DeviceFiles::new(&[facts(None), two]);
    class.write(root.path()).expect("written");
    let read = |path: &str| fs::read_to_string(root.path().join(path)).expect(path);
    assert_eq!(read("infiniband_verbs/uverbs4/ibdev"), "roce_eth1\n");
    assert_eq!(read("infiniband_verbs/uverbs4/device/numa_node"), "-1\n");
    assert_eq!(
        read("infiniband/roce_eth0/subsystem/roce_eth1/node_type"),
        "1: CA\n"
    );
    let error = class
        .write(root.path())
        .expect_err("links are there already");
    assert!(error.to_string().contains("make "), "{error}");
}
