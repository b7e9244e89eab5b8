//! `roce why`, with unchanged programs of rdma-core and perftest, in networks that are set up wrong.
//!
//! Two network namespaces have one link. The programs connect over 10.8.0.0/24, and its QPs over
//! 10.9.0.0/24, so that only the packets of the QPs go wrong.

use super::programs::{installed, library};
use super::*;

/// It runs as root of namespaces of its own, even for an ordinary user. $1 breaks the network when the
/// server listens, and $2 ends the server.
const SCENE: &str = r#"
    set -e
    ip link set lo up
    mkfifo "$OUT/hold"
    # The other namespace lives until this shell opens the pipe and closes it.
    setpriv --pdeathsig KILL unshare --net sh -c \
        'echo $$ > "$OUT/new" && mv "$OUT/new" "$OUT/far"; exec cat "$OUT/hold"' & holder=$!
    until [ -e "$OUT/far" ]; do kill -0 $holder; done
    far="nsenter --net=/proc/$(cat "$OUT/far")/ns/net"
    ip link add v0 mtu 9000 type veth peer name v1 mtu 9000 netns $(cat "$OUT/far")
    # Without addresses that appear later and shift the indices of GIDs.
    ip link set v0 addrgenmode none
    $far ip link set v1 addrgenmode none
    ip address add 10.9.0.1/24 dev v0
    ip address add 10.8.0.1/24 dev v0
    $far ip address add 10.9.0.2/24 dev v1
    $far ip address add 10.8.0.2/24 dev v1
    for each in lo v1; do $far ip link set $each up; done
    ip link set v0 up
    # The kernel may take a second to notice that the links work.
    until ip link show v0 | grep -q 'state UP'; do :; done
    until $far ip link show v1 | grep -q 'state UP'; do :; done
    # A firewall's rule for the packets that come in or go out.
    rule() { $1 nft add table ip t; $1 nft add chain ip t c "{ type filter hook $2 priority 0; }"
             $1 nft add rule ip t c udp dport 4791 $3; }
    setpriv --pdeathsig KILL $far timeout 80 "$ROCE" why --library "$LIBRARY" -- \
        $PROGRAM -d roce_v1 > "$OUT/echo" 2> "$OUT/server" & server=$!
    # Until it listens, at port 18515.
    until $far grep -q ':4853 ' /proc/net/tcp; do kill -0 $server; done
    received() { $far awk '/v1:/ { print $3 }' /proc/net/dev; }
    # Runs a command once the QPs exchange packets.
    when_busy() { { until [ $(received) -gt 1000 ]; do kill -0 $server; done
                    until eval "$@"; do kill -0 $server; done; } > "$OUT/when" 2>&1 & }
    # timeout, roce, and the program.
    program() { pgrep -P $(pgrep -P $server); }
    eval "$1"
    timeout 80 "$ROCE" why $WHY --library "$LIBRARY" -- \
        $PROGRAM -d roce_v0 10.8.0.2 > /dev/null 2> "$OUT/client" || true
    eval "$2" || true
    wait $server || true
    exec 3> "$OUT/hold"
    exec 3>&-
    wait $holder"#;

/// A network that is set up wrong, and what the reports say.
struct Wrong {
    /// What is wrong.
    name: &'static str,
    /// The program of both ends, with its options.
    program: &'static str,
    /// The commands that break the network.
    commands: &'static str,
    /// What ends the server, if it does not fail by itself.
    server_ends: &'static str,
    /// Parts of the server's report, in their order.
    server: &'static [&'static str],
    /// Parts of the client's report, in their order.
    client: &'static [&'static str],
}

/// The ends send in turn, beginning with both.
const PINGPONG: &str = "ibv_rc_pingpong -g 0";

/// The client always has requests that have not completed.
const WRITES: &str = "ib_write_bw -x 0 -D 60";

const NO_ANSWER: &str = "The peer has never answered this QP\n  likely    ";

const CASES: &[Wrong] = &[
    Wrong {
        name: "a route forbids the packets",
        program: "ibv_rc_pingpong -g 0 -m 4096",
        commands: "ip route add prohibit 10.9.0.2",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            "IBV_WC_RETRY_EXC_ERR",
            NO_ANSWER,
            "this host's own firewall or routes forbid the packets\n",
            "evidence  the kernel has no route from 10.9.0.1 to 10.9.0.2: Permission denied",
            "of the packets of all QPs of this device, 8 got lost at this host: a packet filter or a \
             route of this host forbade them\n",
            "the QP has sent 8 packets, 7 of them again, and received no packet\n",
            "do        let UDP port 4791 out: ",
            "if that is not it: `roce why 0x211`\n",
        ],
    },
    Wrong {
        name: "the firewall of this host drops what goes out",
        program: PINGPONG,
        commands: "rule '' output drop",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            NO_ANSWER,
            "this host's own firewall or routes forbid the packets\n",
            "32 got lost at this host: a packet filter or a route of this host forbade them\n",
            "do        let UDP port 4791 out: ",
        ],
    },
    Wrong {
        name: "the firewall of the peer rejects what comes in",
        program: PINGPONG,
        commands: "rule \"$far\" input reject",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            NO_ANSWER,
            "the peer's host or a firewall refuses the packets",
            "IcmpInDestUnreachs: ",
            " more since the datapath started. Other hosts or routers answered",
            "do        is the peer's program running, with its device open? Do its firewall and those \
             on the way let UDP port 4791 through?\n",
        ],
    },
    Wrong {
        name: "the firewall of the client drops what comes in",
        program: PINGPONG,
        commands: "rule '' input drop",
        server_ends: ":",
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
    Wrong {
        name: "nobody has the peer's address",
        program: PINGPONG,
        commands:
            "nft add table arp t; nft add chain arp t c '{ type filter hook input priority 0; }'
                   nft add rule arp t c arp saddr ip 10.9.0.2 drop",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            NO_ANSWER,
            "no host is there that has the peer's address\n",
            "10.9.0.2 does not answer ARP requests on v0\n",
            "do        is the peer's host up, on this network",
        ],
    },
    Wrong {
        name: "there is no route",
        program: PINGPONG,
        commands: "ip route del 10.9.0.0/24 dev v0",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            NO_ANSWER,
            "this host has no route to the peer\n",
            "do        look at `ip route get` with the peer's address\n",
        ],
    },
    Wrong {
        name: "the path carries packets of 1,500 bytes",
        program: "ibv_rc_pingpong -g 0 -m 4096",
        commands: "ip route add 10.9.0.2 dev v0 mtu 1500
                   rule \"$far\" input accept
                   $far nft insert rule ip t c meta length gt 1500 drop",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            NO_ANSWER,
            "the path does not carry packets of the QP's path MTU\n",
            "as far as the kernel knows, the path to 10.9.0.2 carries packets of at most 1500 bytes; \
             a full packet of the QP has at least 4140\n",
            "do        connect with a smaller path_mtu",
        ],
    },
    Wrong {
        name: "faults are on",
        program: PINGPONG,
        commands: "export ROCE_FAULTS=loss=100%",
        server_ends: ":",
        server: &[NO_ANSWER, "packets reach this QP, but none"],
        client: &[
            NO_ANSWER,
            "the faults that ROCE_FAULTS asks for\n",
            "got lost at this host: ROCE_FAULTS lost them on purpose when they arrived\n",
            "do        unset ROCE_FAULTS, or give it smaller chances\n",
        ],
    },
    Wrong {
        name: "the peer is killed",
        program: WRITES,
        commands: "when_busy kill -KILL '$(program)'",
        server_ends: ":",
        server: &[],
        client: &[
            "The peer has answered this QP before\n",
            "the peer's host or a firewall refuses the packets, as when the peer's program has ended\n",
            "code      0x212\n",
        ],
    },
    Wrong {
        name: "an interface goes down",
        program: WRITES,
        commands: "when_busy ip link set v0 down",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            "The peer has answered this QP before\n  likely    the interface is down\n",
            "evidence  the interface v0 is down\n",
            "do        switch it on with `ip link set INTERFACE up`\n",
            "code      0x212\n",
        ],
    },
    Wrong {
        name: "the other end of a virtual link goes down",
        program: WRITES,
        commands: "when_busy \"$far\" ip link set v1 down",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            "The peer has answered this QP before\n  likely    the link is down\n",
            "evidence  the interface v0 has no carrier\n",
            "code      0x212\n",
        ],
    },
    Wrong {
        name: "an address is removed",
        program: WRITES,
        commands: "when_busy ip address del 10.9.0.1/24 dev v0",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            "The peer has answered this QP before\n  likely    the address of the QP's GID has been \
             removed from the interface\n",
            "evidence  10.9.0.1 is no longer an address of this host\n",
        ],
    },
    Wrong {
        name: "the link has a smaller MTU than the program asks for",
        program: "ibv_rc_pingpong -g 0 -m 4096",
        commands: "ip link set v0 mtu 1500",
        server_ends: "kill $(program)",
        server: &[],
        client: &[
            "roce why: no QP failed, but calls did:\n",
            "roce: ibv_modify_qp: EINVAL: path_mtu is 4096, but must be 256 to 1024 on this link, \
             whose packets carry 14",
            " bytes: lower it on both ends, or raise the link's MTU\n",
        ],
    },
];

fn has_parts(report: &str, parts: &[&str]) -> bool {
    let mut rest = report;
    parts.iter().all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// Runs a scene with options for `roce why` at the client. Returns the reports of server and client,
/// and all that is known for messages.
fn reports(who: Who, wrong: &Wrong, why: &str) -> (String, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("allowed");
    let output = who
        .command("timeout")
        .args(["100", "unshare", "--user", "--map-root-user", "--net"])
        .args(["sh", "-c", SCENE, "sh", wrong.commands, wrong.server_ends])
        .env("ROCE", ROCE)
        .env("LIBRARY", library())
        .env("OUT", folder.path())
        .env("PROGRAM", wrong.program)
        .env("WHY", why)
        .output()
        .expect("it starts");
    let told = |end: &str| fs::read_to_string(folder.path().join(end)).unwrap_or_default();
    let (server, client) = (told("server"), told("client"));
    let all = format!(
        "{}: {output:?}\nserver: {server}\nclient: {client}\nwhen busy: {}",
        wrong.name,
        told("when")
    );
    assert!(output.status.success(), "{all}");
    (server, client, all)
}

/// An ordinary user where there is one, since nothing needs privileges; `None` without the programs.
fn user(test: &str) -> Option<Who> {
    let programs = [
        "ib_write_bw",
        "ibv_rc_pingpong",
        "ip",
        "nft",
        "nsenter",
        "pgrep",
        "setpriv",
        "timeout",
        "unshare",
    ];
    if !installed(test, &programs) {
        return None;
    }
    Who::with_namespaces(test).last().copied()
}

#[test]
fn the_reports_name_what_is_wrong_with_the_network() {
    let Some(who) = user("the_reports_name_what_is_wrong_with_the_network") else {
        return;
    };
    for wrong in CASES {
        let (server, client, all) = reports(who, wrong, "");
        assert!(has_parts(&server, wrong.server), "server: {all}");
        assert!(has_parts(&client, wrong.client), "client: {all}");
    }
}

/// Failures and refused calls, each in a line.
#[test]
fn reports_can_be_json() {
    let Some(who) = user("reports_can_be_json") else {
        return;
    };
    for (name, key, value) in [
        (
            "a route forbids the packets",
            "likely",
            "this host's own firewall or routes forbid the packets",
        ),
        (
            "the link has a smaller MTU than the program asks for",
            "call",
            "ibv_modify_qp",
        ),
    ] {
        let wrong = CASES.iter().find(|wrong| wrong.name == name);
        let (_, client, all) = reports(who, wrong.expect("a case"), "--json");
        let mut objects = client.lines().filter(|line| line.starts_with('{'));
        let object = objects.next().unwrap_or_else(|| panic!("{all}"));
        let object: serde_json::Value = serde_json::from_str(object).expect("JSON");
        assert_eq!(object[key], value, "{all}");
        assert_eq!(objects.next(), None, "{all}");
    }
}
