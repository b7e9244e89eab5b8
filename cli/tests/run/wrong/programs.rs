//! Programs that are set up wrong.

use super::scene::{SCENE, Scene, Two};

const fn server(parts: &'static [&'static str]) -> Two<&'static [&'static str]> {
    Two {
        server: parts,
        client: &[],
    }
}

const fn client(parts: &'static [&'static str]) -> Two<&'static [&'static str]> {
    Two {
        server: &[],
        client: parts,
    }
}

/// The scenes.
pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "The GID index of the other family",
        about: "The server uses an IPv4 address, and the client the GID index of an IPv6 address. The pingpong says \
                only `Failed to modify QP to RTR`.",
        run: Two {
            server: "roce why ibv_rc_pingpong -d roce_v1 -g 0",
            client: "roce why ibv_rc_pingpong -d roce_v0 -g 2 10.8.0.2",
        },
        reports: server(&[
            "roce: ibv_modify_qp: EINVAL: path is from 10.9.0.2 to fd09::1, but must be two addresses of one \
             family: choose the GID index of the peer's family\n",
        ]),
        mend: "`-g 0` at the client, or `-g 2` at the server.",
        ..SCENE
    },
    Scene {
        title: "No GID index",
        about: "The client was started as on InfiniBand, without a GID index, so it tells the server no GID.",
        run: Two {
            server: "roce why ibv_rc_pingpong -d roce_v1 -g 0",
            client: "roce why ibv_rc_pingpong -d roce_v0 10.8.0.2",
        },
        reports: server(&[
            "roce: ibv_modify_qp: EINVAL: the path has no GID of the peer: is_global is 0",
            "Choose a GID index at both ends: the option -g of ibv_rc_pingpong",
        ]),
        mend: "`-g 0` at the client, too.",
        is_on_page: true,
        ..SCENE
    },
    Scene {
        title: "UCX with GID indices of two families",
        about: "Each host was given another `UCX_IB_GID_INDEX`.",
        run: Two {
            server: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=roce_v1:1 UCX_IB_GID_INDEX=0 roce why ucx_perftest",
            client: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=roce_v0:1 UCX_IB_GID_INDEX=2 roce why ucx_perftest \
                     10.8.0.2 -t tag_bw -n 1000",
        },
        ready: "listens 13337",
        reports: client(&[
            "roce: ibv_create_ah: EINVAL: an address handle from fd09::1 to 10.9.0.2: choose the GID index of the \
             peer's family\n",
        ]),
        mend: "the same index at both hosts, or none: UCX chooses one itself.",
        ..SCENE
    },
    Scene {
        title: "A device that is not there",
        about: "The options name the adapter of another machine.",
        run: Two {
            server: "",
            client: "roce why ib_write_bw -d mlx5_0 -x 0 10.8.0.2",
        },
        reports: client(&[
            "no RDMA device was opened by ib_write_bw or what it started: those here are roce_v0 and roce_lo; \
             `roce doctor ib_write_bw` looks for the cause; ROCE_DEVICE_NAMES=INTERFACE=NAME gives a device the name \
             that a program looks for\n",
        ]),
        mend: "`-d roce_v0`, or `ROCE_DEVICE_NAMES=v0=mlx5_0`.",
        ..SCENE
    },
    Scene {
        title: "Another path MTU at each end",
        about: "`-m` differs between the ends.",
        run: Two {
            server: "roce why ibv_rc_pingpong -d roce_v1 -g 0 -m 1024",
            client: "roce why ibv_rc_pingpong -d roce_v0 -g 0 -m 2048 10.8.0.2",
        },
        reports: Two {
            server: &[
                "failed: IBV_EVENT_QP_REQ_ERR\n",
                "has 2048 bytes, more than this QP's path MTU of 1024\n",
                "do        both ends must use the same path_mtu\n",
            ],
            client: &[
                "failed: IBV_WC_REM_INV_REQ_ERR\n",
                "the peer's own report names the reason",
                "the ends have different path_mtu",
            ],
        },
        mend: "the same `-m` at both ends.",
        ..SCENE
    },
    Scene {
        title: "Another path MTU at each end, with UC",
        about: "The same with an unreliable connection. Nothing fails: the programs wait until somebody presses \
                Ctrl-C.",
        run: Two {
            server: "roce why ibv_uc_pingpong -d roce_v1 -g 0 -m 1024",
            client: "roce why ibv_uc_pingpong -d roce_v0 -g 0 -m 2048 10.8.0.2",
        },
        gives_up: "give_up 'counted bad_length'",
        reports: server(&[
            "drops packets: bad_length\n",
            "has 2048 bytes, more than this QP's path MTU of 1024\n",
            "do        both ends must use the same path_mtu\n",
        ]),
        mend: "the same `-m` at both ends.",
        ..SCENE
    },
    Scene {
        title: "Datagrams longer than the receives",
        about: "The server posts receives for 1,024 bytes, and the client sends 2,048. UD drops such datagrams, and \
                both programs wait until somebody presses Ctrl-C.",
        run: Two {
            server: "roce why ibv_ud_pingpong -d roce_v1 -g 0 -s 1024",
            client: "roce why ibv_ud_pingpong -d roce_v0 -g 0 -s 2048 10.8.0.2",
        },
        gives_up: "give_up 'counted receive_too_small'",
        reports: Two {
            server: &[
                "drops packets: receive_too_small\n",
                "has at least 2088 bytes, 40 of them for its GRH, but the receive request has 1064 bytes\n",
            ],
            client: &["has sent 1 packet and received none\n"],
        },
        mend: "the same `-s` at both ends.",
        ..SCENE
    },
    Scene {
        title: "Messages longer than the receives",
        about: "The same with a reliable connection: an error.",
        run: Two {
            server: "roce why ib_send_bw -d roce_v1 -x 0 -s 1024",
            client: "roce why ib_send_bw -d roce_v0 -x 0 -s 4096 10.8.0.2",
        },
        reports: Two {
            server: &[
                "failed: IBV_WC_LOC_LEN_ERR\n",
                "the peer's message has at least 4096 bytes, but the receive request has 1024 bytes\n",
                "do        post receives as long as the longest message, or send shorter messages\n",
            ],
            client: &[
                "failed: IBV_WC_REM_INV_REQ_ERR\n",
                "the message is longer than the receive",
            ],
        },
        mend: "the same `-s` at both ends.",
        ..SCENE
    },
    Scene {
        title: "A receive queue that is too short: perftest",
        about: "The server posts 8 receives, and the client sends as fast as it can, by an unreliable connection. The \
                server waits for messages that were lost.",
        run: Two {
            server: "roce why ib_send_bw -c UC -d roce_v1 -x 0 -r 8",
            client: "roce why ib_send_bw -c UC -d roce_v0 -x 0 10.8.0.2",
        },
        gives_up: "give_up 'counted no_receive'",
        reports: server(&[
            "drops packets: no_receive\n",
            "found no receive posted, and its message is lost\n",
            "do        post receives before the peer may send, and post a new one as soon as one completes\n",
        ]),
        mend: "a larger `-r` at the server, or the reliable `-c RC`.",
        ..SCENE
    },
    Scene {
        title: "A receive queue that is too short: fio",
        about: "The server's `iodepth` is smaller than the client's. fio's `verb=send` asks for no retries, and fio \
                continues after the error: the report comes two seconds later.",
        run: Two {
            server: "roce why fio --name=server --ioengine=rdma --port=4470 --rw=read --bs=4k --size=8m --iodepth=4",
            client: "roce why fio --name=client --ioengine=rdma --hostname=10.9.0.2 --port=4470 --verb=send --rw=write \
                     --bs=4k --size=8m --iodepth=16",
        },
        ready: "opened",
        gives_up: "give_up reported 'kill -KILL $(program) $(program $client)'",
        reports: client(&[
            "failed: IBV_WC_RNR_RETRY_EXC_ERR\n",
            "the peer had no receive posted for the packet with PSN ",
            "and rnr_retry 0 allows no other attempt\n",
            "make the peer's receive queue as long as the number of messages that this end sends at a time (fio: \
             iodepth of the server",
        ]),
        mend: "`--iodepth=128` at the server.",
        ..SCENE
    },
    Scene {
        title: "Two different tests",
        about: "The client runs `ib_read_bw`, and the server `ib_write_bw`.",
        run: Two {
            server: "roce why ib_write_bw -d roce_v1 -x 0",
            client: "roce why ib_read_bw -d roce_v0 -x 0 10.8.0.2",
        },
        reports: Two {
            server: &[
                "the peer's RC RDMA READ Request needs IBV_ACCESS_REMOTE_READ, which this QP does not have\n",
                "do both programs belong together?",
            ],
            client: &["failed: IBV_WC_REM_INV_REQ_ERR\n"],
        },
        mend: "`ib_read_bw` at both ends.",
        ..SCENE
    },
    Scene {
        title: "Two different tests that wait for each other",
        about: "The client runs `ib_send_bw`, and the server `ib_write_bw`, which posts no receives. perftest retries \
                without limit, so both wait until somebody presses Ctrl-C.",
        run: Two {
            server: "roce why ib_write_bw -d roce_v1 -x 0",
            client: "roce why ib_send_bw -d roce_v0 -x 0 10.8.0.2",
        },
        gives_up: "give_up 'counted rnr_naks_received \"\"' 'kill -INT $client'",
        ends: "kill -INT $server",
        reports: client(&[
            "roce why: no QP failed, but requests waited:\n",
            " that no receive is posted (RNR NAK)\n",
            "does it run the program that expects this one's messages",
        ]),
        mend: "`ib_send_bw` at both ends.",
        ..SCENE
    },
    Scene {
        title: "Two transport services",
        about: "The client runs the pingpong of unreliable connections, and the server that of reliable ones.",
        run: Two {
            server: "roce why ibv_rc_pingpong -d roce_v1 -g 0",
            client: "roce why ibv_uc_pingpong -d roce_v0 -g 0 10.8.0.2",
        },
        gives_up: "give_up 'counted wrong_transport'",
        reports: server(&[
            "drops packets: wrong_transport\n",
            "but the service of this QP is RC\n",
            "do        both ends need QPs of the same qp_type\n",
        ]),
        mend: "the same program at both ends.",
        ..SCENE
    },
    Scene {
        title: "A region that is too short",
        about: "The client writes 65,536 bytes, and the server's region is made for 1,024.",
        run: Two {
            server: "roce why ib_write_bw -d roce_v1 -x 0 -s 1024",
            client: "roce why ib_write_bw -d roce_v0 -x 0 -s 65536 10.8.0.2",
        },
        reports: Two {
            server: &[
                "the region or window has 8192 bytes from ",
                "the access ends 61440 bytes past its end\n",
                "do        compare the address and length that the peer used with those of the region\n",
            ],
            client: &["failed: IBV_WC_REM_ACCESS_ERR\n"],
        },
        mend: "the same `-s` at both ends.",
        ..SCENE
    },
    Scene {
        title: "The wrong rkey in a C program",
        about: "The C program passes the rkey of its own region instead of the peer's.",
        before: "sed 's/end->theirs.rkey }/end->mr->rkey }/' \"$TEXTBOOK\" > wrong.c
                 cc -o wrong wrong.c -libverbs",
        run: Two {
            server: "roce why ./wrong roce_v1 0",
            client: "roce why ./wrong roce_v0 0 10.8.0.2",
        },
        ready: "listens 18516",
        reports: Two {
            server: &[
                "failed: IBV_EVENT_QP_ACCESS_ERR\n",
                "no region and no bound window has this key\n",
                "do        compare the key that the peer used with that of the region",
            ],
            client: &[
                "failed: IBV_WC_REM_ACCESS_ERR\n",
                "compare remote_addr, the length and rkey with the peer's ibv_mr",
            ],
        },
        mend: "compare the key in both reports with those of `ibv_reg_mr`: it is the client's own. Pass the peer's.",
        ..SCENE
    },
    Scene {
        title: "The server is not there",
        about: "`rping` is started before its server, or the server has ended. The host answers \"port unreachable\", \
                and after 1.6 seconds of that the client gets the event that it also gets from a host whose programs do \
                not listen at the port.",
        run: Two {
            server: "",
            client: "roce why rping -c -a 10.9.0.2 -C 1",
        },
        reports: client(&[
            "roce why: no QP failed, but connections did:\n",
            " to 10.9.0.2:7174 in process ",
            " failed: RDMA_CM_EVENT_REJECTED, status 8\n",
            ": its host refuses packets to UDP port 4791, so no RDMA program runs there\n",
            "do        start the server before its client",
        ]),
        mend: "start the server.",
        is_on_page: true,
        ..SCENE
    },
    Scene {
        title: "The wrong address",
        about: "No host has the address.",
        run: Two {
            server: "",
            client: "roce why rping -c -a 10.9.0.77 -C 1",
        },
        reports: client(&[
            " to 10.9.0.77:7174 in process ",
            " failed: RDMA_CM_EVENT_UNREACHABLE, status -110\n",
            "likely    no host has the peer's address\n",
            "evidence  10.9.0.77 does not answer ARP requests on v0\n",
        ]),
        mend: "the right address.",
        ..SCENE
    },
    Scene {
        title: "The wrong port: fio",
        about: "The server listens at another port.",
        run: Two {
            server: "roce why fio --name=server --ioengine=rdma --port=4470 --rw=read --bs=64k --size=8m --iodepth=16",
            client: "roce why fio --name=client --ioengine=rdma --hostname=10.9.0.2 --port=4471 --verb=write --rw=write \
                     --bs=64k --size=8m --iodepth=16",
        },
        ready: "opened",
        ends: "kill -KILL $(program)",
        reports: client(&[
            " to 10.9.0.2:4471 in process ",
            " failed: RDMA_CM_EVENT_REJECTED, status 8\n  why       no program listens at port 4471 (RDMA_PS_TCP) of \
             10.9.0.2\n",
        ]),
        mend: "`--port=4470`.",
        ..SCENE
    },
    Scene {
        title: "An address without a route",
        about: "`ucmatose` prints only `RDMA_CM_EVENT_ADDR_ERROR, error: -101`.",
        run: Two {
            server: "",
            client: "roce why ucmatose -s 192.0.2.1",
        },
        reports: client(&[
            "roce: connection to 192.0.2.1:7471 in process ",
            "why       the address was not resolved: the kernel has no route to 192.0.2.1",
            "do        look at `ip route get` with the peer's address; `roce devices` lists the devices and their \
             addresses\n",
        ]),
        mend: "the address of the server on this network, or a route.",
        ..SCENE
    },
    Scene {
        title: "An address that this host does not have",
        about: "`mckey` is to send from the address of another host.",
        run: Two {
            server: "",
            client: "roce why mckey -m 239.1.2.3 -b 10.9.0.2 -s",
        },
        reports: client(&[
            "roce: rdma_bind_addr: ENODEV: no RoCE device has the address 10.9.0.2; `roce devices` lists those that \
             there are\n",
        ]),
        mend: "`-b 10.9.0.1`.",
        ..SCENE
    },
    Scene {
        title: "UCX, and the peer is killed",
        about: "The server's process is killed in the middle of the benchmark. UCX prints `transport retry counter exceeded` \
                and a backtrace, and aborts.",
        run: Two {
            server: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=roce_v1:1 UCX_RC_TIMEOUT=50ms roce why ucx_perftest",
            client: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=roce_v0:1 UCX_RC_TIMEOUT=50ms roce why ucx_perftest \
                     10.8.0.2 -t tag_bw -n 100000000 -s 4096",
        },
        ready: "listens 13337",
        breaks: "when_busy kill -KILL '$(program)'",
        reports: client(&[
            "The peer has answered this QP before\n",
            "likely    the peer's host or a firewall refuses the packets, as when the peer's program has ended\n",
        ]),
        mend: "look at why the server has ended.",
        ..SCENE
    },
];
