//! Containers get RDMA devices by `roce cdi generate`, though nothing in their images knows of this stack:
//! `cargo test -p roce-tests --test containers`.
//!
//! The image is Debian's base system with rdma-core's programs, perftest and UCX. With `ROCE_PROGRAMS=all`,
//! there is one of each release of Debian that the project supports. `ROCE_PACKAGE=FILE` gives containers that tarball of
//! `cargo xtask dist` instead of what cargo built, which does not run on Debian 11.

mod engine;
mod image;

use engine::{Engine, User};
use image::Image;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for a server to listen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The device of each network interface but the loopback.
const ALL: [&str; 2] = ["--device", "roce.dev/nic=all"];

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

/// The output of a command that must have succeeded.
#[track_caller]
fn success(output: &Output) -> String {
    let said = text(output);
    assert!(output.status.success(), "{}: {said}", output.status);
    said
}

/// Once by root, and once by a user without any right.
#[test]
fn unchanged_images_have_devices() {
    for suite in image::suites() {
        let Some(image) = Image::make_or_skip(suite) else {
            return;
        };
        for user in [User::Root, User::Ordinary] {
            let Some(engine) = Engine::start_or_skip(user, &image) else {
                continue;
            };
            two_containers_move_data(&engine);
            programs_see_the_files_of_devices(&engine);
            a_container_can_not_change_the_host(&engine);
            the_loopback_is_a_device_of_its_own(&engine);
        }
    }
}

/// Each container has a network namespace of its own, and nothing but the image's programs.
fn two_containers_move_data(engine: &Engine) {
    let test = ["ib_write_bw", "-d", "roce_eth0", "-n", "500", "-s", "65536"];
    // Without the device, the image has none.
    let without = engine.run(&[], &test);
    assert!(!without.status.success(), "{}", text(&without));
    let server = engine.start("server", &ALL, &test);
    let deadline = Instant::now() + TIMEOUT;
    let client = [&test[..], &[&server.address]].concat();
    let said = loop {
        let output = engine.run(&ALL, &client);
        if output.status.success() || Instant::now() > deadline {
            break success(&output);
        }
        // The server does not listen yet: nothing says when it does.
        thread::sleep(Duration::from_millis(100));
    };
    assert!(said.contains("Device         : roce_eth0"), "{said}");
    assert!(said.contains("Link type       : Ethernet"), "{said}");
    // The size and the number of messages, both ends have counted.
    let counted = |said: &str| {
        said.lines()
            .any(|line| line.split_whitespace().take(2).eq(["65536", "500"]))
    };
    assert!(counted(&said), "{said}");
    let served = server.end();
    assert!(counted(&served), "{served}");
}

/// As programs that read them do, also where the variables of the device are missing.
fn programs_see_the_files_of_devices(engine: &Engine) {
    let idle = engine.start("idle", &ALL, &["sleep", "600"]);
    let devices = success(&idle.exec(&["ibv_devinfo"]));
    assert!(
        devices.contains("roce_eth0") && devices.contains("PORT_ACTIVE"),
        "{devices}"
    );
    let gid = success(&idle.exec(&[
        "cat",
        "/sys/class/infiniband/roce_eth0/ports/1/gid_attrs/types/1",
    ]));
    assert_eq!(gid, "RoCE v2\n");
    let nodes = success(&idle.exec(&["ls", "/dev/infiniband"]));
    assert!(nodes.contains("uverbs"), "{nodes}");
    let ucx = success(&engine.run(&ALL, &["ucx_info", "-d"]));
    assert!(
        ucx.contains("rc_verbs") && ucx.contains("roce_eth0:1"),
        "{ucx}"
    );
    assert!(!ucx.contains("roce_lo"), "{ucx}");
    let top = success(&idle.exec(&["/opt/roce/bin/roce", "devices"]));
    assert!(top.contains("roce_eth0"), "{top}");
    // A user without any right, in a root that can't be written.
    let strict = ["--read-only", "--user", "12345", "--cap-drop", "all"];
    let output = engine.run(&[&ALL[..], &strict].concat(), &["ucx_info", "-d"]);
    assert!(
        success(&output).contains("roce_eth0:1"),
        "{}",
        text(&output)
    );
    idle.remove();
}

fn a_container_can_not_change_the_host(engine: &Engine) {
    for script in [
        "echo x >/opt/roce/lib/roce/libibverbs.so.1",
        "echo x >/etc/ld.so.preload",
        "rm /opt/roce/bin/roce",
        "mount -o remount,rw /opt/roce/bin/roce",
    ] {
        let output = engine.run(&ALL, &["sh", "-c", script]);
        assert!(!output.status.success(), "{script}: {}", text(&output));
    }
}

fn the_loopback_is_a_device_of_its_own(engine: &Engine) {
    let options = ["--network", "none", "--device", "roce.dev/nic=lo"];
    let said = success(&engine.run(&options, &["ibv_devinfo"]));
    assert!(said.contains("roce_lo"), "{said}");
}
