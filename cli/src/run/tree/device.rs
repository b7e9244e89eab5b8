//! `/sys/class/infiniband/<device>`.

use super::Tree;
use super::facts::{Facts, processor_mask};
use roce_verbs::device::{Gid, GidEntry};

/// How many entries a GID table has, as the devices report it.
const GID_TABLE_LEN: usize = 256;

/// The only partition key that RoCE has (RoCEv2 Annex A17: the default one).
const DEFAULT_PKEY: &str = "0xffff\n";

/// What the library says of the port: its GIDs are made of IP addresses (bit 26).
const CAPABILITIES: &str = "0x04000000\n";

/// What the library says, too: a NIC of software has no speed of its own.
const RATE: &str = "100 Gb/sec (4X EDR)\n";

/// What the kernel counts for a port, by the names of InfiniBand.
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

/// What a software RNIC counts, by the names of the kernel's.
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
    class.file(at("node_desc"), format!("{}\n", facts.name));
    class.file(at("fw_ver"), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    class.file(at("hca_type"), "RoCE\n");
    class.file(at("hw_rev"), "0\n");
    class.file(at("board_id"), "roce\n");
    class.file(at("parent"), format!("{}\n", facts.interface));
    class.file(at("uevent"), format!("NAME={}\n", facts.name));
    class.link(at("subsystem"), "../../infiniband");
    add_hardware(class, facts);
    add_port(class, facts);
}

/// `device`: the hardware below. An interface without any (veth, the loopback) gets what
/// programs look for there: the interface, and that all processors are equally near.
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
    // In milliseconds: how old what is read may be.
    class.file(at("hw_counters/lifespan"), "10\n");
    add_gids(class, facts);
}

/// The GID table. The kernel has files for the attributes of empty entries, which can't be
/// read; here there are none.
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
        // Its name is the one that the kernel has for it.
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

/// Bytes as the kernel prints GUIDs and GIDs: groups of two, nothing left out.
fn in_groups(bytes: &[u8]) -> String {
    let group = |pair: &[u8]| pair.iter().map(|byte| format!("{byte:02x}")).collect();
    let groups: Vec<String> = bytes.chunks(2).map(group).collect();
    groups.join(":")
}
