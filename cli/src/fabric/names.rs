//! The names of a network's nodes.

use roce_sim::fabric::{HostId, NodeId, Port, SwitchId};
use roce_sim::network::Network;
use roce_sim::record::FlowKey;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The names of hosts and switches. A node without a name has its number: `h1`, `s1`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    nodes: BTreeMap<NodeId, String>,
    addresses: BTreeMap<IpAddr, HostId>,
}

impl Names {
    /// The names of a network's nodes.
    pub(crate) fn of(network: &Network) -> Self {
        let mut names = Self::default();
        for host in (0..network.hosts.len()).map(HostId) {
            names.set(host, network.name(host.into()));
            let number = u16::try_from(host.0 + 1).unwrap_or(u16::MAX);
            names.set_address(roce_fabric::ipv4(number).into(), host);
            names.set_address(roce_fabric::ipv6(number).into(), host);
        }
        for switch in (0..network.switches.len()).map(SwitchId) {
            names.set(switch, network.name(switch.into()));
        }
        names
    }

    pub(crate) fn set(&mut self, node: impl Into<NodeId>, name: impl Into<String>) {
        self.nodes.insert(node.into(), name.into());
    }

    /// Adds an address of a host; it may have several.
    pub(crate) fn set_address(&mut self, address: IpAddr, host: HostId) {
        self.addresses.insert(address, host);
    }

    pub(crate) fn node(&self, node: NodeId) -> String {
        match (self.nodes.get(&node), node) {
            (Some(name), _) => name.clone(),
            (None, NodeId::Host(HostId(index))) => format!("h{}", index + 1),
            (None, NodeId::Switch(SwitchId(index))) => format!("s{}", index + 1),
        }
    }

    /// The name of the host with an address, or the address.
    pub(crate) fn address(&self, address: IpAddr) -> String {
        match self.addresses.get(&address) {
            Some(host) => self.node((*host).into()),
            None => address.to_string(),
        }
    }

    /// A port: `s1 to h8`.
    pub(crate) fn port(&self, port: &Port) -> String {
        format!("{} to {}", self.node(port.from), self.node(port.to))
    }

    /// A flow: `h1:49443 to h2, QP 18`, or `h1:5000 to h2:80, TCP`.
    pub(crate) fn flow(&self, key: &FlowKey) -> String {
        let [src, dst] = [key.src, key.dst].map(|address| self.address(address));
        let with_port = |host: &str, port: u16| match (port, host.contains(':')) {
            (0, _) => host.to_owned(),
            (port, true) => format!("[{host}]:{port}"),
            (port, false) => format!("{host}:{port}"),
        };
        let from = with_port(&src, key.src_port);
        if let Some(qpn) = key.dest_qpn {
            return format!("{from} to {dst}, QP {qpn}");
        }
        let protocol = match key.protocol {
            1 | 58 => "ICMP".to_owned(),
            6 => "TCP".to_owned(),
            17 => "UDP".to_owned(),
            other => format!("protocol {other}"),
        };
        format!("{from} to {}, {protocol}", with_port(&dst, key.dst_port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_the_names_of_their_hosts() {
        let mut names = Names::default();
        names.set(HostId(1), "web");
        let [one, two] = ["10.0.0.1", "fd00::2"].map(|text| text.parse().expect("an address"));
        names.set_address(one, HostId(0));
        let mut key = FlowKey {
            src: one,
            dst: two,
            protocol: 6,
            src_port: 5000,
            dst_port: 80,
            dest_qpn: None,
        };
        assert_eq!(names.flow(&key), "h1:5000 to [fd00::2]:80, TCP");
        names.set_address(two, HostId(1));
        assert_eq!(names.flow(&key), "h1:5000 to web:80, TCP");
        key.dest_qpn = Some(18);
        assert_eq!(names.flow(&key), "h1:5000 to web, QP 18");
        (key.dest_qpn, key.protocol, key.src_port, key.dst_port) = (None, 1, 0, 0);
        assert_eq!(names.flow(&key), "h1 to web, ICMP");
    }
}
