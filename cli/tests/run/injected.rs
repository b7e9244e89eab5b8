//! Fault injection, and what unchanged programs of rdma-core and perftest make of them.

use super::programs::{installed, library};
use super::*;
use std::sync::Mutex;

/// A server and a client on the loopback of a network of their own. The faults are those of one of
/// them.
const SCENE: &str = r#"
    ip link set lo up
    serve() { exec setpriv --pdeathsig TERM "$ROCE" run --quiet --library "$LIBRARY" $1 -- timeout 60 $SERVER; }
    run() { "$ROCE" run --quiet --library "$LIBRARY" $1 -- timeout $SECONDS_LEFT $CLIENT; }
    faults="--faults $FAULTS"
    case $AT in server) theirs=$faults own= ;; client) theirs= own=$faults ;; esac
    if [ -n "$SERVER" ]; then
        serve "$theirs" > /dev/null 2> "$OUT/server" & server=$!
        # Until it listens, at a TCP port or for connection requests.
        until grep -q "$LISTENS" /proc/net/tcp /proc/net/unix; do kill -0 $server || exit 99; done
    fi
    run "$own" > "$OUT/client" 2>&1
    code=$?
    [ -z "$SERVER" ] || kill $server
    exit $code"#;

/// A failure that was injected.
struct Scene {
    faults: &'static str,
    /// Whether it is the server's.
    at_server: bool,
    /// The programs. No server if it is empty.
    server: &'static str,
    client: &'static str,
    /// The client's exit code. 124: it still ran after three seconds. 137: SIGKILL.
    code: i32,
    /// What the client prints.
    told: &'static [&'static str],
}

impl Scene {
    /// A failure at the client of a pingpong.
    const fn pingpong(faults: &'static str, code: i32, told: &'static [&'static str]) -> Self {
        Self {
            faults,
            at_server: false,
            server: "ibv_rc_pingpong -d roce_lo -g 1 -n 20",
            client: "ibv_rc_pingpong -d roce_lo -g 1 -n 20 127.0.0.1",
            code,
            told,
        }
    }

    /// A failure at the client of one of perftest's programs.
    const fn perftest(
        faults: &'static str,
        [server, client]: [&'static str; 2],
        code: i32,
        told: &'static [&'static str],
    ) -> Self {
        Self {
            faults,
            at_server: false,
            server,
            client,
            code,
            told,
        }
    }
}

const RPING: [&str; 2] = ["rping -s -a 127.0.0.1", "rping -c -a 127.0.0.1 -v -C 2"];

const SCENES: &[Scene] = &[
    Scene::pingpong("post_send:ENOMEM@3", 1, &["Couldn't post send"]),
    Scene::pingpong("reg_mr:ENOMEM", 1, &["Couldn't register MR"]),
    Scene::pingpong("create_qp:EPERM@1", 1, &["Couldn't create QP"]),
    Scene::pingpong("poll_cq:EIO@5", 1, &["poll CQ failed -1"]),
    Scene::pingpong("modify_qp:EINVAL@2", 1, &["Failed to modify QP to RTR"]),
    Scene::pingpong("post_send:slow=5ms@3..", 0, &["20 iters in"]),
    Scene::pingpong("post_send:die@4", 137, &[]),
    Scene::pingpong(
        "send:RETRY_EXC_ERR@5",
        1,
        &["Failed status transport retry counter exceeded (12)"],
    ),
    Scene::pingpong(
        "qp1.recv:LOC_LEN_ERR@2",
        1,
        &["Failed status local length error (1)"],
    ),
    Scene::pingpong("recv:late=20ms@3..7", 0, &["20 iters in"]),
    Scene::pingpong("recv:lost@7", 124, &[]),
    Scene::pingpong(
        "any:overrun@3",
        1,
        &["Failed status Work Request Flushed Error"],
    ),
    Scene::pingpong("recv:die@7", 137, &[]),
    Scene::pingpong(
        "region:fault@1",
        1,
        &["Failed status local protection error (4)"],
    ),
    Scene::perftest(
        "write:REM_ACCESS_ERR@3",
        [
            "ib_write_bw -d roce_lo -x 1 -n 500 -s 64",
            "ib_write_bw -d roce_lo -x 1 -n 500 -s 64 127.0.0.1",
        ],
        1,
        &["Failed status 10"],
    ),
    Scene::perftest(
        "read:RETRY_EXC_ERR@3",
        [
            "ib_read_lat -d roce_lo -x 1 -n 500 -s 64",
            "ib_read_lat -d roce_lo -x 1 -n 500 -s 64 127.0.0.1",
        ],
        17,
        &["Failed status 12"],
    ),
    Scene::perftest(
        "atomic:REM_INV_REQ_ERR@3",
        [
            "ib_atomic_lat -d roce_lo -x 1 -n 500",
            "ib_atomic_lat -d roce_lo -x 1 -n 500 127.0.0.1",
        ],
        17,
        &["Failed status 9"],
    ),
    Scene {
        faults: "request:reject=28@1",
        at_server: true,
        server: RPING[0],
        client: RPING[1],
        code: 255,
        told: &["RDMA_CM_EVENT_REJECTED, error 28"],
    },
    Scene {
        faults: "request:ignored@1",
        at_server: true,
        server: RPING[0],
        client: RPING[1],
        code: 124,
        told: &[],
    },
    Scene {
        faults: "rdma_connect:ETIMEDOUT@1",
        at_server: false,
        server: RPING[0],
        client: RPING[1],
        // It reports the error, and then waits for a thread that never ends.
        code: 124,
        told: &["Connection timed out"],
    },
    Scene {
        faults: "port:down@200ms..400ms,gid:change@500ms,device:fatal@600ms",
        at_server: false,
        server: "",
        client: "ibv_asyncwatch -d roce_lo",
        code: 124,
        told: &[
            "IBV_EVENT_PORT_ERR",
            "IBV_EVENT_PORT_ACTIVE",
            "IBV_EVENT_GID_CHANGE",
            "IBV_EVENT_DEVICE_FATAL",
        ],
    },
    // While the link is down nothing arrives, and then the rest does.
    Scene {
        faults: "port:down@0s..300ms",
        ..Scene::pingpong("", 0, &["20 iters in"])
    },
];

fn check(scene: &Scene) {
    let folder = tempfile::tempdir().expect("a folder");
    let is_bounded = scene.code == 124;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .args(["sh", "-c", SCENE])
        .env("ROCE", ROCE)
        .env("LIBRARY", library())
        .env("OUT", folder.path())
        .env("FAULTS", scene.faults)
        .env("AT", if scene.at_server { "server" } else { "client" })
        .env("SERVER", scene.server)
        .env("CLIENT", scene.client)
        .env("SECONDS_LEFT", if is_bounded { "3" } else { "60" })
        .env(
            "LISTENS",
            match scene.server {
                server if server.starts_with("rping") => "@roce-share-.*/service/",
                // Port 18515.
                _ => ":4853 ",
            },
        )
        .output()
        .expect("it starts");
    let read = |end: &str| fs::read_to_string(folder.path().join(end)).unwrap_or_default();
    let (client, server) = (read("client"), read("server"));
    let all = format!(
        "{}: {output:?}\nclient: {client}\nserver: {server}",
        scene.faults
    );
    assert_eq!(output.status.code(), Some(scene.code), "{all}");
    for words in scene.told {
        assert!(client.contains(words), "{words}: {all}");
    }
    // The process prints each injection when it first injects its fault.
    let reported = if scene.at_server { &server } else { &client };
    for injection in scene.faults.split(',') {
        let line = format!("roce: fault: {injection}\n");
        assert_eq!(reported.matches(&line).count(), 1, "{all}");
    }
    let seed = format!("roce: faults: {},seed=", scene.faults);
    assert!(reported.contains(&seed), "{all}");
}

#[test]
fn programs_see_the_failures_that_were_injected() {
    let test = "programs_see_the_failures_that_were_injected";
    let programs = [
        "ibv_rc_pingpong",
        "ibv_asyncwatch",
        "rping",
        "ib_write_bw",
        "ib_read_lat",
        "ib_atomic_lat",
        "ip",
        "unshare",
        "setpriv",
        "timeout",
    ];
    if !installed(test, &programs) || Who::with_namespaces(test).is_empty() {
        return;
    }
    // Most of the time, a scene waits.
    let next = Mutex::new(SCENES.iter());
    let take = || {
        next.lock()
            .expect("no scene panics while it holds it")
            .next()
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(scene) = take() {
                    check(scene);
                }
            });
        }
    });
}

/// By the option, and by the variable.
#[test]
fn a_failure_that_is_spelled_wrong_is_pointed_at() {
    let wrong = "loss=1%,post_send:ENOMEMM@3";
    let right = "at character 19, \"ENOMEMM\" should be an error such as ENOMEM, slow=TIME or die";
    let mut by_option = Command::new(ROCE);
    by_option.args(["run", "--faults", wrong, "--", "true"]);
    let mut by_variable = Command::new(ROCE);
    by_variable
        .args(["run", "--", "true"])
        .env("ROCE_FAULTS", wrong);
    for mut command in [by_option, by_variable] {
        command.arg("--library").arg(library());
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = text(&output.stderr);
        assert!(told.contains(right), "{told}");
    }
}
