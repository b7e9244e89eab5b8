//! Programs that fail in their own way: what users see without a report, and what it says.

use super::scene::{SCENE, Scene, Two};

/// The scenes.
pub(super) const SCENES: &[Scene] = &[
    Scene {
        title: "A program that ignores the status of completions",
        about: "The textbook program with two mistakes: it passes its own rkey instead of the peer's, and it does not \
                look at `wc.status`. The WRITE is refused, and what follows it is flushed. For the program, all of it \
                has completed.",
        before: "sed -e 's/end->theirs.rkey }/end->mr->rkey }/' \\
                     -e '/wc.status != IBV_WC_SUCCESS/,+1d' \"$TEXTBOOK\" > careless.c
                 cc -o careless careless.c -libverbs",
        run: Two {
            server: "roce why ./careless roce_v1 0",
            client: "roce why ./careless roce_v0 0 10.8.0.2",
        },
        ready: "listens 18516",
        says: &["textbook: the data differ"],
        reports: Two {
            server: &["no region and no bound window has this key\n"],
            client: &[
                "failed: IBV_WC_REM_ACCESS_ERR\n  request   rdma_write of 32768 bytes",
                "compare remote_addr, the length and rkey with the peer's ibv_mr",
            ],
        },
        mend: "the data do not differ because the network has damaged them, as the program's message suggests: the \
               WRITE was never executed. Look at `wc.status` of each completion first, and at nothing else of it if it \
               is not `IBV_WC_SUCCESS`. Then pass the peer's rkey.",
        is_on_page: true,
        ..SCENE
    },
    Scene {
        title: "A program that posts too few receives",
        about: "The textbook program whose server forgets to post its second receive. The client asks for retries \
                without limit (`rnr_retry` is 7), as most programs do. Nothing fails, and nothing happens, until \
                somebody presses Ctrl-C.",
        before: "sed '/^static void serve/,/^}/ { /expect.*hello/,/Tells/ { /receive(end)/d } }' \"$TEXTBOOK\" > one.c
                 cc -o one one.c -libverbs",
        run: Two {
            server: "roce why ./one roce_v1 0",
            client: "roce why ./one roce_v0 0 10.8.0.2",
        },
        ready: "listens 18516",
        gives_up: "give_up 'counted rnr_naks_sent'",
        reports: Two {
            server: &[
                "messages of a peer have found no receive ",
                "At the end, 0 receives were posted\n",
            ],
            client: &[
                "roce why: no QP failed, but requests waited:\n",
                "1 request of QP ",
                "no receive is posted (RNR NAK)\n",
            ],
        },
        mend: "post a receive before the other end may send, and the next one before the answer that lets it send \
               again. A finite `rnr_retry` turns such a wait into an error.",
        is_on_page: true,
        ..SCENE
    },
    Scene {
        title: "UCX, and the link goes down",
        about: "`ucx_perftest` while somebody switches off the client's interface. UCX waits for its retries, prints a \
                backtrace, and aborts. The message names neither the interface nor the peer's program. With UCX's flow \
                control on, a client that waits for the server's credits when the link goes down has nothing to \
                retry, and hangs.",
        run: Two {
            server: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=roce_v1:1 UCX_RC_TIMEOUT=50ms roce why ucx_perftest",
            client: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=roce_v0:1 UCX_RC_TIMEOUT=50ms UCX_RC_FC_ENABLE=n \
                     roce why ucx_perftest 10.8.0.2 -t tag_bw -n 100000000 -s 4096",
        },
        ready: "listens 13337",
        breaks: "when_busy ip link set v0 down",
        ends: "kill -KILL $(program)",
        says: &["send completion with error: transport retry counter exceeded"],
        reports: Two {
            server: &[],
            client: &[
                "The peer has answered this QP before\n  likely    the interface is down\n",
                "evidence  the interface v0 is down\n",
            ],
        },
        mend: "the interface. UCX cannot recover by itself: applications that must survive this need an error handler \
               of the endpoint (`UCP_ERR_HANDLING_MODE_PEER`), and connect again. Open MPI's ranks end with the same \
               backtrace and the same report; `mpirun` can't reach the other host to end the other rank, and waits. MPI \
               does not survive the loss of a rank: start the job again.",
        is_on_page: true,
        ..SCENE
    },
];
