//! Networks that are set up wrong, or break.

use super::scene::{SCENE, Scene, Two};

const NO_ANSWER: &str = "The peer has never answered this QP\n  likely    ";

/// The ends send in turn, beginning with both.
const PINGPONG: Two<&str> = Two {
    server: "roce why ibv_rc_pingpong -d roce_v1 -g 0",
    client: "roce why ibv_rc_pingpong -d roce_v0 -g 0 10.8.0.2",
};

/// Packets of 4,096 bytes and headers.
const LARGE: Two<&str> = Two {
    server: "roce why ibv_rc_pingpong -d roce_v1 -g 0 -m 4096",
    client: "roce why ibv_rc_pingpong -d roce_v0 -g 0 -m 4096 10.8.0.2",
};

/// The client always has requests that have not completed.
const WRITES: Two<&str> = Two {
    server: "roce why ib_write_bw -d roce_v1 -x 0 -D 60",
    client: "roce why ib_write_bw -d roce_v0 -x 0 -D 60 10.8.0.2",
};

/// The same beyond a router.
const ROUTED: Two<&str> = Two {
    server: "roce why ib_write_bw -d roce_v1 -x 0 -D 60",
    client: "roce why ib_write_bw -d roce_v0 -x 0 -D 60 10.9.1.2",
};

const fn client(parts: &'static [&'static str]) -> Two<&'static [&'static str]> {
    Two {
        server: &[],
        client: parts,
    }
}

/// The scenes.
pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "A route forbids the packets",
        about: "A routing policy of the client's host has a `prohibit` route to the server.",
        run: LARGE,
        breaks: "ip route add prohibit 10.9.0.2",
        ends: "kill $(program)",
        reports: client(&[
            "IBV_WC_RETRY_EXC_ERR",
            NO_ANSWER,
            "this host's own firewall or routes forbid the packets\n",
            "evidence  the kernel has no route from 10.9.0.1 to 10.9.0.2: Permission denied",
            "of the packets of all QPs of this device, 8 got lost at this host: a packet filter or a \
             route of this host forbade them\n",
            "the QP has sent 8 packets, 7 of them again, and received no packet\n",
            "do        let UDP port 4791 out: ",
            "if that is not it: `roce why 0x211`\n",
        ]),
        mend: "`ip route get 10.9.0.2`, which the report names, shows the route; delete it.",
        ..SCENE
    },
    Scene {
        title: "The firewall of this host drops what goes out",
        about: "The client's firewall lets out only what it knows, and UDP port 4791 is not among it.",
        run: PINGPONG,
        breaks: "rule '' output udp dport 4791 drop",
        ends: "kill $(program)",
        reports: client(&[
            NO_ANSWER,
            "this host's own firewall or routes forbid the packets\n",
            "32 got lost at this host: a packet filter or a route of this host forbade them\n",
            "do        let UDP port 4791 out: ",
        ]),
        mend: "let UDP port 4791 out.",
        is_on_page: true,
        ..SCENE
    },
    Scene {
        title: "The firewall of the peer rejects what comes in",
        about: "The server's firewall rejects UDP port 4791.",
        run: PINGPONG,
        breaks: "rule \"$far\" input udp dport 4791 reject",
        ends: "kill $(program)",
        reports: client(&[
            NO_ANSWER,
            "the peer's host or a firewall refuses the packets",
            "IcmpInDestUnreachs: ",
            " more since the datapath started. Other hosts or routers answered",
            "do        is the peer's program running, with its device open? Do its firewall and those \
             on the way let UDP port 4791 through?\n",
        ]),
        mend: "the server's program runs, so let UDP port 4791 through the firewalls.",
        ..SCENE
    },
    Scene {
        title: "The firewall of the client drops what comes in",
        about: "The client's firewall drops UDP port 4791 silently, so the client's packets reach the server, \
                and the server's do not reach the client.",
        run: PINGPONG,
        breaks: "rule '' input udp dport 4791 drop",
        reports: Two {
            server: &[
                NO_ANSWER,
                "packets reach this QP, but none of its own reaches the peer's QP\n",
                "evidence  the QP has sent ",
                "do        look for what drops packets in one direction only: a firewall at the peer",
            ],
            client: &[
                "The peer has never answered this QP\n",
                "does UDP port 4791 pass in both directions? A firewall that drops it gives no other sign\n",
            ],
        },
        mend: "the two reports together say that the direction to the client is blocked: let UDP port 4791 in \
               at the client.",
        ..SCENE
    },
    Scene {
        title: "A firewall on the way drops the packets",
        about: "A router between the hosts forwards TCP, and drops UDP port 4791 silently.",
        routed: true,
        run: ROUTED,
        breaks: "rule \"$router\" forward udp dport 4791 drop",
        ends: "kill $(program)",
        reports: client(&[
            "The peer has never answered this QP\n  evidence  ",
            "does UDP port 4791 pass in both directions? A firewall that drops it gives no other sign\n",
        ]),
        mend: "nothing at the two hosts shows who drops the packets, as the report says: look at the firewalls on \
               the way, and let UDP port 4791 through.",
        ..SCENE
    },
    Scene {
        title: "A firewall on the way rejects the packets",
        about: "The same, but the router answers that the port is prohibited.",
        routed: true,
        run: ROUTED,
        breaks: "rule \"$router\" forward udp dport 4791 reject with icmp admin-prohibited",
        ends: "kill $(program)",
        reports: client(&[
            NO_ANSWER,
            "the peer's host or a firewall refuses the packets",
        ]),
        mend: "let UDP port 4791 through the firewalls on the way.",
        ..SCENE
    },
    Scene {
        title: "One direction is lost on the way",
        about: "The router drops UDP port 4791 from the server to the client, as where only one direction of a \
                stateless rule was thought of. Both programs send.",
        routed: true,
        run: Two {
            server: "roce why ib_write_bw -d roce_v1 -x 0 -D 60 -b",
            client: "roce why ib_write_bw -d roce_v0 -x 0 -D 60 -b 10.9.1.2",
        },
        breaks: "rule \"$router\" forward ip saddr 10.9.1.2 udp dport 4791 drop",
        reports: Two {
            server: &[
                NO_ANSWER,
                "packets reach this QP, but none of its own reaches the peer's QP\n",
                "do        look for what drops packets in one direction only: a firewall at the peer or on \
                 the way",
            ],
            client: &["The peer has never answered this QP\n"],
        },
        mend: "the server's report says which direction is lost: let UDP port 4791 from the server to the client \
               through.",
        ..SCENE
    },
    Scene {
        title: "Nobody has the peer's address",
        about: "The server's host does not answer ARP for 10.9.0.2, as if it were off or in another VLAN.",
        run: PINGPONG,
        breaks: "nft add table arp t
                 nft add chain arp t c '{ type filter hook input priority 0; }'
                 nft add rule arp t c arp saddr ip 10.9.0.2 drop",
        ends: "kill $(program)",
        reports: client(&[
            NO_ANSWER,
            "no host has the peer's address\n",
            "10.9.0.2 does not answer ARP requests on v0\n",
            "do        is the peer's host up, on this network",
        ]),
        mend: "connect the server's host to this network, or use its right address.",
        ..SCENE
    },
    Scene {
        title: "There is no route",
        about: "The client's host has no route to the server's network.",
        run: PINGPONG,
        breaks: "ip route del 10.9.0.0/24 dev v0",
        ends: "kill $(program)",
        reports: client(&[
            NO_ANSWER,
            "this host has no route to the peer\n",
            "do        look at `ip route get` with the peer's address\n",
        ]),
        mend: "add the route.",
        ..SCENE
    },
    Scene {
        title: "The path carries packets of 1,500 bytes",
        about: "The link carries 9,000 bytes, so the path MTU may be 4,096. The route to the server carries 1,500, \
                and the kernel knows it.",
        run: LARGE,
        breaks: "ip route add 10.9.0.2 dev v0 mtu 1500
                 rule \"$far\" input meta length gt 1500 udp dport 4791 drop",
        ends: "kill $(program)",
        reports: client(&[
            NO_ANSWER,
            "the path does not carry packets of the QP's path MTU\n",
            "as far as the kernel knows, the path to 10.9.0.2 carries packets of at most 1500 bytes; \
             a full packet of the QP has at least 4140\n",
            "do        connect with a smaller path_mtu",
        ]),
        mend: "`-m 1024`, or a larger MTU on the way.",
        ..SCENE
    },
    Scene {
        title: "An MTU black hole",
        about: "The hosts' links carry 9,000 bytes, and the link behind the router 1,500. A firewall drops the ICMP \
                messages in which the router says so. The C program sends 5 bytes, which arrive, and then writes \
                32 KiB.",
        routed: true,
        before: "cc -o textbook \"$TEXTBOOK\" -libverbs
                 $router ip link set r1 mtu 1500
                 rule \"$router\" output meta l4proto icmp drop",
        run: Two {
            server: "roce why ./textbook roce_v1 0",
            client: "roce why ./textbook roce_v0 0 10.9.1.2",
        },
        ready: "listens 18516",
        ends: "kill $(program)",
        reports: client(&[
            "The peer has answered this QP before\n  likely    a link on the way does not carry packets of the \
             QP's path MTU, and no router says so\n",
            "the packet has at least 4140 bytes, and the largest that was answered has 5 bytes of payload: \
             `ping -M do -s 4112 10.9.1.2` shows whether the path carries it\n",
            "do        connect with a smaller path_mtu, or raise the MTU of the links on the way",
        ]),
        mend: "the ping fails, and with `-s 1472` it does not. Connect with a path MTU of 1,024, raise the MTU of \
               the link, and let ICMP through.",
        is_on_page: true,
        ..SCENE
    },
    Scene {
        title: "Faults are on",
        about: "`ROCE_FAULTS` is still set from a test.",
        run: Two {
            client: "ROCE_FAULTS=loss=100% roce why ibv_rc_pingpong -d roce_v0 -g 0 10.8.0.2",
            ..PINGPONG
        },
        reports: Two {
            server: &[],
            client: &[
                NO_ANSWER,
                "the faults that ROCE_FAULTS asks for\n",
                "got lost at this host: ROCE_FAULTS lost them on purpose when they arrived\n",
                "do        unset ROCE_FAULTS, or give it smaller chances\n",
            ],
        },
        mend: "unset it.",
        ..SCENE
    },
    Scene {
        title: "The peer is killed",
        about: "The server's program is killed while the client writes.",
        run: WRITES,
        breaks: "when_busy kill -KILL '$(program)'",
        reports: client(&[
            "The peer has answered this QP before\n",
            "the peer's host or a firewall refuses the packets, as when the peer's program has ended\n",
            "code      0x212\n",
        ]),
        mend: "look at why the server's program has ended, and start it again.",
        ..SCENE
    },
    Scene {
        title: "An interface goes down",
        about: "Somebody switches off the client's interface while the programs run.",
        run: WRITES,
        breaks: "when_busy ip link set v0 down",
        ends: "kill $(program)",
        reports: client(&[
            "The peer has answered this QP before\n  likely    the interface is down\n",
            "evidence  the interface v0 is down\n",
            "do        switch it on with `ip link set INTERFACE up`\n",
            "code      0x212\n",
        ]),
        mend: "switch it on.",
        ..SCENE
    },
    Scene {
        title: "The other end of a link goes down",
        about: "The same at the other end of the link: this end has no carrier.",
        run: WRITES,
        breaks: "when_busy \"$far\" ip link set v1 down",
        ends: "kill $(program)",
        reports: client(&[
            "The peer has answered this QP before\n  likely    the link is down\n",
            "evidence  the interface v0 has no carrier\n",
            "code      0x212\n",
        ]),
        mend: "look at the other end of the cable.",
        ..SCENE
    },
    Scene {
        title: "An address is removed",
        about: "A network manager removes the address of the client's GID while the programs run.",
        run: WRITES,
        breaks: "when_busy ip address del 10.9.0.1/24 dev v0",
        ends: "kill $(program)",
        reports: client(&[
            "The peer has answered this QP before\n  likely    the address of the QP's GID has been \
             removed from the interface\n",
            "evidence  10.9.0.1 is no longer an address of this host\n",
        ]),
        mend: "give the interface its address back.",
        ..SCENE
    },
    Scene {
        title: "The link has a smaller MTU than the program asks for",
        about: "The client's interface has an MTU of 1,500, and the program asks for a path MTU of 4,096.",
        run: LARGE,
        breaks: "ip link set v0 mtu 1500",
        ends: "kill $(program)",
        reports: client(&[
            "roce why: no QP failed, but calls did:\n",
            "roce: ibv_modify_qp: EINVAL: path_mtu is 4096, but must be 256 to 1024 on this link, \
             whose packets carry 14",
            " bytes: lower it on both ends, or raise the link's MTU\n",
        ]),
        mend: "`-m 1024` at both ends, or `ip link set v0 mtu 4200` and more.",
        is_on_page: true,
        ..SCENE
    },
];
