//! Tests paths to another interface of the same host, at the other end of a cable.

use roce_xdp::net::{CoreConfig, Mac, Net, Refusal, Resolution};

use super::lab::{Lab, Lead, ip, lead};

const MAC: Mac = [2, 0, 0, 0, 0x95, 2];
const MOVED: Mac = [2, 0, 0, 0, 0x95, 9];

/// The addresses of `left` and `right`, and the length of their common prefix.
const ENDS: [(&str, &str, u8); 2] = [("10.95.0.1", "10.95.0.2", 24), ("fd95::1", "fd95::2", 64)];

/// A cable from `left` to `right`, both in the namespace `near`.
fn cable_lab() -> Option<(Lab, Net)> {
    let lab = Lab::new_or_skip()?;
    lab.near
        .ip("link add left address 02:00:00:00:95:01 type veth \
             peer name right address 02:00:00:00:95:02");
    for (interface, host) in [("left", 1), ("right", 2)] {
        lab.near
            .ip(&format!("link set {interface} addrgenmode none"));
        for address in ["10.95.0.{}/24", "fd95::{}/64 nodad", "fe80::{}/64 nodad"] {
            let address = address.replace("{}", &host.to_string());
            lab.near
                .ip(&format!("address add dev {interface} {address}"));
        }
        lab.near.ip(&format!("link set {interface} up"));
    }
    let mut net = lab.open("left", CoreConfig::default()).expect("Ethernet");
    lab.until(&mut net, |net| net.link().is_some_and(|link| link.up));
    Some((lab, net))
}

#[test]
fn another_interface_of_the_host_is_reached_at_its_mac() {
    let Some((lab, mut net)) = cable_lab() else {
        return;
    };
    for (src, dst, _) in ENDS {
        assert_eq!(lead(&mut net, src, dst), Ok(Lead::To(MAC)));
        assert_eq!(net.resolution(ip(dst)), Resolution::Failed, "nobody asked");
        // A path from an address to itself is local.
        assert_eq!(lead(&mut net, src, src), Err(Refusal::Local));
    }
    // Link-local: neighbour discovery finds it, or finds the host that has it on another link.
    lab.near.ip("address add fe80::7/64 dev near nodad");
    lab.until_sent_to(&mut net, "fe80::1", "fe80::2", MAC);
    assert_eq!(
        lead(&mut net, "fe80::1", "fe80::7"),
        Ok(Lead::WaitsFor(ip("fe80::7")))
    );
    // Outside the prefix, with a route that names the interface.
    lab.near.ip("address add 10.96.0.2/32 dev right");
    lab.near.ip("address add fd96::2/128 dev right nodad");
    lab.until_refused(&mut net, "fd95::1", "fd96::2", Refusal::Local);
    lab.until_refused(&mut net, "10.95.0.1", "10.96.0.2", Refusal::NoRoute);
    lab.near.ip("route add 10.96.0.0/24 dev left");
    lab.until_sent_to(&mut net, "10.95.0.1", "10.96.0.2", MAC);
    lab.near.ip("address add 10.95.0.77/32 dev lo");
    lab.until_refused(&mut net, "10.95.0.1", "10.95.0.77", Refusal::Local);
    assert_eq!(net.counters().failed_requests, 0);
    assert_eq!(net.counters().unparsed, 0);
}

#[test]
fn another_interface_that_changes_is_followed() {
    let Some((lab, mut net)) = cable_lab() else {
        return;
    };
    for (src, dst, _) in ENDS {
        assert_eq!(lead(&mut net, src, dst), Ok(Lead::To(MAC)));
    }
    lab.near.ip("link set right address 02:00:00:00:95:09");
    for (src, dst, _) in ENDS {
        lab.until_sent_to(&mut net, src, dst, MOVED);
    }
    // To another interface of this host, then away.
    lab.near
        .ip("link add third address 02:00:00:00:95:03 type bridge");
    lab.near.ip("link set third up");
    for (src, dst, bits) in ENDS {
        let nodad = if bits == 64 { " nodad" } else { "" };
        lab.near.ip(&format!("address del {dst}/{bits} dev right"));
        lab.near
            .ip(&format!("address add {dst}/{bits} dev third{nodad}"));
        lab.until_sent_to(&mut net, src, dst, [2, 0, 0, 0, 0x95, 3]);
    }
    // Deleted with its addresses: another host on the link may have them.
    lab.near.ip("link del third");
    for (src, dst, _) in ENDS {
        lab.until(&mut net, |net| {
            lead(net, src, dst) == Ok(Lead::WaitsFor(ip(dst)))
        });
    }
    // Packets to an address that this interface also has do not go over the link.
    lab.near.ip("address add 10.95.0.2/24 dev left");
    lab.until_refused(&mut net, "10.95.0.1", "10.95.0.2", Refusal::Local);
}
