//! `/sys/class/infiniband/<device>`.

use super::Tree;
use super::facts::{Facts, processor_mask};
use roce_verbs::device::{BOARD_ID, Gid, GidEntry};

/// The number of entries of a GID table, as the devices report it.
const GID_TABLE_LEN: usize = 256;

/// RoCE's only partition key (RoCEv2 Annex A17: the default one).
const DEFAULT_PKEY: &str = "0xffff\n";

/// The port's capabilities, as the library reports them: GIDs are made from IP addresses (bit 26).
const CAPABILITIES: &str = "0x04000000\n";

/// The rate, as the library reports it: a software NIC has no speed of its own.
const RATE: &str = "100 Gb/sec (4X EDR)\n";

/// The kernel's counters of a port, with InfiniBand's names.
const COUNTERS: [&str; 21] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// The counters of a software RNIC, with the kernel's names.
const HW_COUNTERS: [&str; 15] = [
    "ack_deferred",
    "completer_retry_err",
    "duplicate_request",
    "link_downed",
    "out_of_seq_request",
    "rcvd_pkts",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "rdma_recvs",
    "rdma_sends",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
    "send_rnr_err",
    "sent_pkts",
];

/// Adds all files of a device.
pub(super) fn add(class: &mut Tree, facts: &Facts) {
    let at = |name: &str| format!("infiniband/{}/{name}", facts.name);
    let guid = format!("{}\n", in_groups(&facts.guid()));
    class.file(at("node_type"), "1: CA\n");
    class.file(at("node_guid"), guid.clone());
    class.file(at("sys_image_guid"), guid);
    // Another name does not change it.
    class.file(at("node_desc"), format!("roce_{}\n", facts.interface));
    class.file(at("fw_ver"), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    class.file(at("hca_type"), "RoCE\n");
    class.file(at("hw_rev"), "0\n");
    class.file(at("board_id"), format!("{BOARD_ID}\n"));
    class.file(at("parent"), format!("{}\n", facts.interface));
    class.file(at("uevent"), format!("NAME={}\n", facts.name));
    class.link(at("subsystem"), "../../infiniband");
    add_hardware(class, facts);
    add_port(class, facts);
}

/// `device`: the underlying hardware. An interface without hardware (veth, the loopback) gets the
/// entries that programs look for: the interface, and equal distance to all processors.
fn add_hardware(class: &mut Tree, facts: &Facts) {
    let at = |name: &str| format!("infiniband/{}/device{name}", facts.name);
    if let Some(hardware) = &facts.hardware {
        return class.link(at(""), hardware);
    }
    class.link(at(&format!("/net/{}", facts.interface)), &facts.net);
    class.file(at("/numa_node"), "-1\n");
    class.file(at("/local_cpulist"), format!("{}\n", facts.processors));
    let mask = processor_mask(&facts.processors);
    class.file(at("/local_cpus"), format!("{mask}\n"));
}

fn add_port(class: &mut Tree, facts: &Facts) {
    let at = |name: &str| format!("infiniband/{}/ports/1/{name}", facts.name);
    let (state, phys_state) = match facts.running {
        true => ("4: ACTIVE\n", "5: LinkUp\n"),
        false => ("1: DOWN\n", "3: Disabled\n"),
    };
    for (name, text) in [
        ("state", state),
        ("phys_state", phys_state),
        ("link_layer", "Ethernet\n"),
        ("lid", "0x0\n"),
        ("sm_lid", "0x0\n"),
        ("sm_sl", "0\n"),
        ("lid_mask_count", "0\n"),
        ("cap_mask", CAPABILITIES),
        ("rate", RATE),
        ("pkeys/0", DEFAULT_PKEY),
    ] {
        class.file(at(name), text);
    }
    for name in COUNTERS {
        class.file(at(&format!("counters/{name}")), "0\n");
    }
    for name in HW_COUNTERS {
        class.file(at(&format!("hw_counters/{name}")), "0\n");
    }
    // The longest age of a cached value, in milliseconds.
    class.file(at("hw_counters/lifespan"), "10\n");
    add_gids(class, facts);
}

/// The GID table. The kernel has unreadable files for the attributes of empty entries; here they
/// are missing.
fn add_gids(class: &mut Tree, facts: &Facts) {
    let at = |name: &str| format!("infiniband/{}/ports/1/{name}", facts.name);
    let mut table = [Gid([0; 16]); GID_TABLE_LEN];
    for &GidEntry {
        index,
        gid,
        version,
    } in &facts.gids
    {
        table[usize::from(index)] = gid;
        // The kernel's name for the version.
        class.file(
            at(&format!("gid_attrs/types/{index}")),
            format!("{version}\n"),
        );
        class.file(
            at(&format!("gid_attrs/ndevs/{index}")),
            format!("{}\n", facts.interface),
        );
    }
    for (index, gid) in table.iter().enumerate() {
        let text = format!("{}\n", in_groups(&gid.0));
        class.file(at(&format!("gids/{index}")), text);
    }
}

/// Bytes in the kernel's format for GUIDs and GIDs: groups of two, with all zeros.
fn in_groups(bytes: &[u8]) -> String {
    let group = |pair: &[u8]| pair.iter().map(|byte| format!("{byte:02x}")).collect();
    let groups: Vec<String> = bytes.chunks(2).map(group).collect();
    groups.join(":")
}
