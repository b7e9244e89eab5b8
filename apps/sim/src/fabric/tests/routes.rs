//! Several shortest paths, and flows that spread over them.

use super::*;

/// The length of a packet in these tests, in bytes.
const PACKET: usize = 100;

/// Hosts at leaves that are all connected to all spines. Host `h` is at leaf `h / hosts_per_leaf`,
/// on cable `h`.
struct LeafSpine {
    fabric: Fabric,
    leaves: Vec<SwitchId>,
    spines: Vec<SwitchId>,
    /// For each leaf, its cables to the spines.
    uplinks: Vec<Vec<CableId>>,
}

impl LeafSpine {
    fn new(leaves: usize, spines: usize, hosts_per_leaf: usize, seed: u64) -> Self {
        let mut builder = FabricBuilder::new();
        let link = LinkSpec {
            queue_bytes: 10 << 20,
            ..LinkSpec::default()
        };
        let leaves: Vec<SwitchId> = (0..leaves)
            .map(|_| builder.switch(SwitchSpec::default()))
            .collect();
        let spines: Vec<SwitchId> = (0..spines)
            .map(|_| builder.switch(SwitchSpec::default()))
            .collect();
        for leaf in &leaves {
            for _ in 0..hosts_per_leaf {
                let host = builder.host(HostSpec::default());
                builder.cable(host, *leaf, link);
            }
        }
        let uplinks = leaves
            .iter()
            .map(|leaf| {
                let cables = spines
                    .iter()
                    .map(|spine| builder.cable(*leaf, *spine, link));
                cables.collect()
            })
            .collect();
        Self {
            fabric: builder.build(seed),
            leaves,
            spines,
            uplinks,
        }
    }

    /// A packet of host `from` arrives at its switch.
    fn send(&mut self, from: usize, dst: IpAddr, src_port: u16) {
        let src = self.fabric.address(HostId(from));
        self.send_as(from, src, dst, src_port);
    }

    fn send_as(&mut self, from: usize, src: IpAddr, dst: IpAddr, src_port: u16) {
        let id = self.fabric.common.pool.allocate(PACKET);
        let packet = self.fabric.common.pool.get_mut(id);
        packet.meta.src = src;
        packet.meta.dst = dst;
        packet.meta.src_port = src_port;
        let link = self.fabric.hosts[from].egress.expect("a cable");
        let NodeId::Switch(leaf) = self.fabric.egresses[link.0].to else {
            panic!("not at a switch");
        };
        self.fabric.arrive_at_switch(link, leaf, id);
    }

    /// Sends one packet from the first host to the last for each of these source ports, and returns
    /// how many went through each uplink of the first leaf.
    fn spread(&mut self, ports: impl IntoIterator<Item = u16>) -> Vec<u64> {
        let to = self.fabric.address(HostId(self.fabric.hosts() - 1));
        let before = self.sent_up();
        for port in ports {
            self.send(0, to, port);
        }
        run(&mut self.fabric);
        let after = self.sent_up();
        after.iter().zip(before).map(|(a, b)| a - b).collect()
    }

    fn sent_up(&mut self) -> Vec<u64> {
        let leaf = self.leaves[0];
        let mut sent = |cable: &CableId| {
            let meter = self.fabric.meter(*cable, leaf).expect("its cable");
            meter.wire_bytes / (PACKET as u64 + OVERHEAD_BYTES)
        };
        self.uplinks[0].iter().map(&mut sent).collect()
    }
}

#[test]
fn flows_with_different_source_ports_use_all_paths_about_equally() {
    let mut network = LeafSpine::new(2, 4, 2, 1);
    let spread = network.spread(0..1000);
    assert_eq!(spread.iter().sum::<u64>(), 1000);
    // Five standard deviations.
    let even = |n: &u64| (182..=318).contains(n);
    assert!(spread.iter().all(even), "{spread:?}");
    assert_eq!(network.fabric.counters().delivered, 1000);
}

#[test]
fn flows_to_different_hosts_use_different_paths() {
    let mut network = LeafSpine::new(2, 4, 40, 1);
    for to in 40..80 {
        let to = network.fabric.address(HostId(to));
        network.send(0, to, 7);
    }
    run(&mut network.fabric);
    let spread = network.sent_up();
    assert!(spread.iter().all(|n| (1..40).contains(n)), "{spread:?}");
}

#[test]
fn all_packets_of_a_flow_take_the_same_path() {
    let mut network = LeafSpine::new(2, 4, 2, 1);
    for port in [1, 0xc123, 0xffff] {
        let mut spread = network.spread([port; 50]);
        spread.sort_unstable();
        assert_eq!(spread, [0, 0, 0, 50]);
    }
}

#[test]
fn the_choice_depends_on_the_seed_and_on_the_switch() {
    let paths = |seed, from: usize, to| -> Vec<Option<EgressId>> {
        let network = LeafSpine::new(2, 4, 2, seed);
        let leaf = network.leaves[from / 2];
        let routes = &network.fabric.routes[leaf.0];
        let mut flow = network.fabric.hosts[0].received_meta(&RxMeta {
            src: network.fabric.address(HostId(0)),
            dst: network.fabric.address(HostId(3)),
            src_port: 0,
            traffic_class: 0,
            ip: roce_stack::IpCovered::V4Hidden,
        });
        let mut choose = |port| {
            flow.src_port = port;
            routes.choose(HostId(to), &flow)
        };
        (0..64).map(&mut choose).collect()
    };
    assert_eq!(paths(1, 0, 3), paths(1, 0, 3));
    assert_ne!(paths(1, 0, 3), paths(2, 0, 3));
    // The numbers of the second leaf's uplinks are those of the first, shifted.
    let second: Vec<Option<EgressId>> = paths(1, 2, 0);
    let shifted = |link: Option<EgressId>| link.map(|link| EgressId(link.0 - 8));
    let second: Vec<Option<EgressId>> = second.into_iter().map(shifted).collect();
    assert_ne!(paths(1, 0, 3), second);
}

#[test]
fn only_the_flows_of_a_cut_cable_move_and_they_return() {
    for end in [0, 1] {
        let mut network = LeafSpine::new(2, 4, 2, 1);
        let before = network.spread(0..1000);
        // With the second end, the first leaf avoids a spine that can't reach the destination.
        let cut = network.uplinks[end][2];
        network.fabric.set_down(cut, true);
        let during = network.spread(0..1000);
        assert_eq!(during[2], 0);
        assert_eq!(during.iter().sum::<u64>(), 1000);
        let grown = |n: usize| during[n] > before[n];
        assert!([0, 1, 3].into_iter().all(grown), "{during:?}");
        network.fabric.set_down(cut, false);
        assert_eq!(network.spread(0..1000), before);
        assert_eq!(network.fabric.counters().delivered, 3000);
    }
}

#[test]
fn a_flow_stays_on_its_path_when_another_path_is_cut() {
    let mut network = LeafSpine::new(2, 4, 2, 1);
    for port in 0..100 {
        let before = network.spread([port]);
        let cut = network.uplinks[0][usize::from(port % 4)];
        network.fabric.set_down(cut, true);
        let during = network.spread([port]);
        network.fabric.set_down(cut, false);
        if before[usize::from(port % 4)] == 0 {
            assert_eq!(before, during, "port {port}");
        }
    }
}

#[test]
fn packets_without_another_path_are_lost_on_the_cut_cable() {
    let mut network = LeafSpine::new(2, 4, 2, 1);
    network.fabric.set_down(CableId(3), true);
    network.spread(0..10);
    let Counters { lost, dropped, .. } = network.fabric.counters();
    assert_eq!((lost, dropped), (10, 0));
}

#[test]
fn a_switch_without_routes_drops_what_others_send_to_it() {
    let mut network = LeafSpine::new(2, 4, 2, 1);
    let before = network.spread(0..1000);
    let spine = network.spines[1];
    network.fabric.forget_routes(spine);
    assert_eq!(network.spread(0..1000), before);
    let Counters {
        delivered, dropped, ..
    } = network.fabric.counters();
    assert_eq!((delivered, dropped), (2000 - before[1], before[1]));
    network.fabric.restore_routes(spine);
    network.spread(0..1000);
    assert_eq!(network.fabric.counters().dropped, before[1]);
}

/// Sends from each host, with several source ports, and expects each of the other members to get
/// one copy of each packet.
fn members_get_one_copy(network: &mut LeafSpine, members: &[usize], foreign: bool) {
    let group: IpAddr = "239.1.2.3".parse().expect("an address");
    for member in members {
        network.fabric.join(HostId(*member), group);
    }
    let before = network.fabric.counters();
    let mut copies = 0;
    for from in 0..network.fabric.hosts() {
        let src = if foreign {
            "192.0.2.1".parse().expect("an address")
        } else {
            network.fabric.address(HostId(from))
        };
        for port in 0..16 {
            network.send_as(from, src, group, port);
            copies += members.iter().filter(|member| **member != from).count() as u64;
        }
    }
    run(&mut network.fabric);
    let after = network.fabric.counters();
    assert_eq!(after.delivered - before.delivered, copies);
    assert_eq!(after.dropped + after.lost, 0);
}

#[test]
fn each_member_gets_one_copy_however_many_paths_there_are() {
    let all: Vec<usize> = (0..9).collect();
    for members in [&all[..], &[0, 1, 8], &[4], &[2, 3, 6]] {
        for foreign in [false, true] {
            let mut network = LeafSpine::new(3, 4, 3, 1);
            members_get_one_copy(&mut network, members, foreign);
        }
    }
}

#[test]
fn copies_avoid_a_cut_cable() {
    let mut network = LeafSpine::new(3, 3, 2, 1);
    for cut in [network.uplinks[0][0], network.uplinks[1][2]] {
        network.fabric.set_down(cut, true);
    }
    members_get_one_copy(&mut network, &[0, 1, 2, 3, 4, 5], false);
}

#[test]
fn copies_take_shortest_paths() {
    let mut network = LeafSpine::new(3, 4, 3, 1);
    let group: IpAddr = "239.1.2.3".parse().expect("an address");
    network.fabric.join(HostId(8), group);
    for port in 0..16 {
        network.send(3, group, port);
    }
    run(&mut network.fabric);
    // To a spine, to the other leaf, to the host.
    assert_eq!(network.fabric.counters().carried, 16 * 3);
}
