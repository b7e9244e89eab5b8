use super::*;

fn entry(name: &str, gids: &[&str]) -> Entry {
    Entry {
        name: format!("roce_{name}"),
        interface: name.to_owned(),
        state: "active",
        link_mtu: 1500,
        active_path_mtu: 1024,
        datapath: "udp",
        fallback: None,
        error: None,
        max_packet_bytes: Some(1452),
        receive_buffer_bytes: Some(212_992),
        segmentation: Some(true),
        coalescing: Some(false),
        flow_sockets: Some(128),
        why_copied: Some("not today"),
        has_lanes: Some(false),
        why_no_lanes: Some("not today".to_owned()),
        xdp: None,
        datapaths_not_taken: vec![NotTaken {
            datapath: "xdp",
            reason: "not today".to_owned(),
        }],
        roce_v1: "yes",
        gids: (0..)
            .zip(gids)
            .map(|(index, gid)| GidRow {
                index,
                gid: (*gid).to_owned(),
                kind: "IPv4",
                version: "RoCE v2".to_owned(),
            })
            .collect(),
    }
}

fn written(report: &Report, verbose: bool) -> Vec<String> {
    let mut out = Vec::new();
    report.write(&mut out, verbose).expect("memory takes it");
    let text = String::from_utf8(out).expect("text");
    text.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[test]
fn a_device_has_a_row_for_each_gid() {
    let report = Report {
        devices: vec![entry("eth0", &["fe80::1", "::ffff:10.0.0.1"])],
        no_devices: Vec::new(),
    };
    let rows: Vec<Vec<String>> = written(&report, false)
        .iter()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    let device = "roce_eth0 eth0 active 1500 1024 udp 0 fe80::1 IPv4 RoCE v2";
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1].join(" "), device);
    assert_eq!(rows[2].join(" "), "1 ::ffff:10.0.0.1 IPv4 RoCE v2");
}

#[test]
fn verbose_says_how_and_why() {
    let down = Interface {
        name: "eth1".to_owned(),
        mac: [0; 6],
        index: 7,
        mtu: 1500,
        up: false,
        running: false,
        addresses: Vec::new(),
    };
    let report = Report {
        devices: vec![entry("eth0", &["::ffff:10.0.0.1"])],
        no_devices: NoDevice::of(&down).into_iter().collect(),
    };
    let lines = written(&report, true);
    let expected = [
        "roce_eth0",
        "  datapath        udp: sockets, which need no privilege",
        "  not xdp         not today",
        "  RoCE v1         yes",
        "  receive buffer  208 KiB for each address, as the kernel gives it (net.core.rmem_max)",
        "  segmentation    yes",
        "  coalescing      no, the kernel lacks UDP_GRO: packets go one by one",
        "  source ports    one for each flow, for up to 128 flows",
        "  long datagrams  copied by the kernel: not today",
        "  on this host    packets go through sockets: not today",
        "  largest packet  1452 bytes, from BTH to ICRC",
        "",
        "eth1 is no device: the interface is down (`ip link set up`)",
    ];
    assert_eq!(lines[3..], expected);
}

/// Only starting the datapath shows whether an interface accepts AF_XDP.
#[test]
fn a_datapath_with_a_fallback_is_not_reported_as_certain() {
    let report = Report {
        devices: vec![Entry {
            datapath: "xdp",
            fallback: Some("udp"),
            ..entry("eth0", &["::ffff:10.0.0.1"])
        }],
        no_devices: Vec::new(),
    };
    let lines = written(&report, true);
    assert!(lines[1].contains(" xdp or udp "), "{lines:?}");
    let tried = "  datapath        would try xdp (AF_XDP), and take udp if the interface refuses";
    assert_eq!(lines[4], tried);
}

#[test]
fn an_interface_without_address_is_no_device_and_one_with_is() {
    let mut interface = Interface {
        name: "eth1".to_owned(),
        mac: [0; 6],
        index: 7,
        mtu: 1500,
        up: true,
        running: true,
        addresses: Vec::new(),
    };
    let none = NoDevice::of(&interface).map(|none| none.reason);
    assert!(none.is_some_and(|reason| reason.contains("no address")));
    interface.addresses.push([10, 0, 0, 1].into());
    assert!(NoDevice::of(&interface).is_none());
}

#[test]
fn the_absence_of_devices_is_reported() {
    let report = Report {
        devices: Vec::new(),
        no_devices: Vec::new(),
    };
    assert_eq!(
        written(&report, false),
        ["no device: no interface is up and has an address"]
    );
}
