//! The file system as a program sees it.

use super::*;
use serde_json::Value;

/// The devices of this machine, as the command lists them.
fn devices() -> Vec<Value> {
    let output = Command::new(ROCE).args(["devices", "--json"]).output();
    let report: Value = serde_json::from_str(&said(&output.expect("it starts"))).expect("JSON");
    report["devices"].as_array().expect("a list").clone()
}

#[test]
fn a_program_sees_its_devices() {
    let library = Library::new();
    for who in Who::with_namespaces("a_program_sees_its_devices") {
        let script = "cd /sys/class/infiniband && for d in *; do
            echo $d $(cat $d/node_type $d/ports/1/link_layer $d/ports/1/gid_attrs/types/0)
            cat $d/ports/1/gid_attrs/ndevs/0 /sys/class/net/${d#roce_}/mtu
            ls $d/device/net
        done; cd ../infiniband_verbs; for u in uverbs*; do echo $u; done";
        let shown = said(&library.shell(who, &["--namespace", "require"], script));
        let known = devices();
        for device in &known {
            let name = device["name"].as_str().expect("a name");
            let interface = device["interface"].as_str().expect("a name");
            let mtu = &device["link_mtu"];
            let part = format!("{name} 1: CA Ethernet RoCE v2\n{interface}\n{mtu}\n{interface}\n");
            assert!(shown.contains(&part), "{who:?}: no {part:?} in {shown:?}");
        }
        let index = fs::read_to_string("/sys/class/net/lo/ifindex").expect("there");
        assert!(shown.contains(&format!("uverbs{index}")), "{shown}");
    }
}

#[test]
fn gids_are_those_of_the_devices() {
    let library = Library::new();
    let last = devices().pop().expect("there is the loopback");
    let index = last["gids"].as_array().expect("a list").len() - 1;
    let gid = last["gids"][index]["gid"].as_str().expect("a GID");
    let gid: std::net::Ipv6Addr = gid.parse().expect("an address");
    let groups: Vec<String> = gid.segments().iter().map(|g| format!("{g:04x}")).collect();
    let name = last["name"].as_str().expect("a name");
    for who in Who::with_namespaces("gids_are_those_of_the_devices") {
        let script = format!("cat /sys/class/infiniband/{name}/ports/1/gids/{index}");
        let shown = said(&library.shell(who, &[], &script));
        assert_eq!(shown.trim(), groups.join(":"), "{who:?}");
    }
}

#[test]
fn the_rest_of_the_system_is_as_it_was() {
    let library = Library::new();
    // The other entries of /dev/pts change while other tests run.
    let script = "ls /sys /sys/devices /sys/class/net /dev /dev/pts/ptmx; \
        stat -L -c '%n %F %t:%T' /dev/* /sys/class/* | grep -v infiniband | grep -v class/roce; \
        id -u; id -g; cat /sys/class/net/lo/ifindex; echo x > /dev/null; \
        head -c 4 /dev/zero | wc -c; pwd";
    for who in Who::with_namespaces("the_rest_of_the_system_is_as_it_was") {
        let outside = who.command("sh").args(["-c", script]).output();
        let outside = said(&outside.expect("it starts"));
        let inside = said(&library.shell(who, &[], script));
        let without = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| *line != "infiniband");
            lines.map(str::to_owned).collect()
        };
        assert_eq!(without(&inside), without(&outside), "{who:?}");
    }
}

#[test]
fn nobody_else_sees_it_and_nothing_is_left() {
    let library = Library::new();
    let real = exists("/sys/class/infiniband");
    for who in Who::with_namespaces("nobody_else_sees_it_and_nothing_is_left") {
        let mut command = library.run(who);
        command.args(["--", "sh", "-c", "echo ready; read line"]);
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut ready = [0; 6];
        let mut stdout = child.stdout.take().expect("piped");
        std::io::Read::read_exact(&mut stdout, &mut ready).expect("it is ready");
        // While the program runs, and after it was killed.
        assert_eq!(exists("/sys/class/infiniband"), real);
        assert!(!exists("/sys/class/roce"));
        let seen = format!("/proc/{}/root/sys/class/roce/lib", child.id());
        assert!(exists(&seen), "{who:?}: {seen}");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("there");
        assert!(!mounts.contains("- tmpfs roce "), "{mounts}");
        let left: Vec<_> = fs::read_dir(&library.folder).expect("there").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

/// With shared mount propagation, the default of most distributions, the mounts of `roce run` stay
/// private.
#[test]
fn shared_mounts_are_not_touched() {
    let test = "shared_mounts_are_not_touched";
    if !Who::with_namespaces(test).contains(&Who::Myself) {
        return;
    }
    let library = Library::new();
    let script = "\"$0\" run --library \"$1\" --namespace require \
        ls /sys/class/roce; echo after; ls /sys/class/roce";
    let output = Who::Myself
        .command("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .args(["--propagation", "shared", "sh", "-c", script, ROCE])
        .arg(&library.folder)
        .output()
        .expect("it starts");
    assert_eq!(text(&output.stdout), "dev\nlib\nafter\n", "{output:?}");
}

#[test]
fn what_is_made_up_can_not_be_changed() {
    let library = Library::new();
    for who in Who::with_namespaces("what_is_made_up_can_not_be_changed") {
        let script = "touch /sys/class/infiniband/x || rm /sys/class/roce/lib/*";
        let output = library.shell(who, &[], script);
        assert!(!output.status.success(), "{who:?}: {output:?}");
        assert!(text(&output.stderr).contains("Read-only"), "{output:?}");
    }
}

/// In a user namespace, the covered `/dev` stays visible in `/sys/class/roce/dev`. `rm -rf
/// /sys/class/roce` removed the user's files in the system's `/dev/shm` by it.
#[test]
fn nothing_of_the_system_can_be_removed_by_what_is_made_up() {
    let test = "nothing_of_the_system_can_be_removed_by_what_is_made_up";
    let library = Library::new();
    for who in Who::with_namespaces(test) {
        let name = format!("roce-kept-{}-{who:?}", std::process::id());
        let script = format!(
            "echo kept > /dev/shm/{name}; rm -f /sys/class/roce/dev/shm/{name}; \
             ! [ -e /sys/class/roce/dev/null ] || : > /sys/class/roce/dev/null; cat /dev/shm/{name} && rm /dev/shm/{name}"
        );
        let output = library.shell(who, &[], &script);
        assert_eq!(said(&output), "kept\n", "{who:?}: {output:?}");
    }
}

#[test]
fn only_the_devices_that_were_asked_for_are_there() {
    let library = Library::new();
    for who in Who::with_namespaces("only_the_devices_that_were_asked_for_are_there") {
        let script = "ls /sys/class/infiniband; echo $ROCE_DEVICES";
        for name in ["lo", "roce_lo"] {
            let shown = said(&library.shell(who, &["--devices", name], script));
            assert_eq!(shown, format!("roce_lo\n{name}\n"), "{who:?}");
        }
    }
}

#[test]
fn one_runs_in_another() {
    let library = Library::new();
    for who in Who::with_namespaces("one_runs_in_another") {
        let script = format!(
            "'{ROCE}' run --library '{}' --namespace require -- sh -c \
             'ls /sys/class/infiniband/roce_lo/node_type; echo $LD_LIBRARY_PATH'",
            library.folder.display()
        );
        let shown = said(&library.shell(who, &["--namespace", "require"], &script));
        assert_eq!(
            shown, "/sys/class/infiniband/roce_lo/node_type\n/sys/class/roce/lib\n",
            "{who:?}"
        );
    }
}

/// Where user namespaces are forbidden, as in most containers.
#[test]
fn without_a_namespace_it_runs_and_reports_why() {
    let test = "without_a_namespace_it_runs_and_reports_why";
    if !Who::with_namespaces(test).contains(&Who::Myself) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("libibverbs.so.1");
    fs::write(&path, "ROCE_DATAPATH").expect("written");
    // A user namespace of its own, whose limit can be set so that it allows no further one.
    let with = |options: &str| {
        let script = format!(
            "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all \
             --inh-caps=-all '{ROCE}' run --preload never --library '{}' {options} -- sh -c 'echo $LD_LIBRARY_PATH'",
            path.display()
        );
        let mut command = Who::Myself.command("unshare");
        command
            .args(["--user", "--map-root-user", "sh", "-c", &script])
            .output()
            .expect("it starts")
    };
    let auto = with("");
    assert_eq!(said(&auto).trim(), folder.path().display().to_string());
    let told = text(&auto.stderr);
    assert!(told.contains("does not see its devices in /sys"), "{told}");
    assert!(told.contains("max_user_namespaces"), "{told}");
    let required = with("--namespace require");
    assert_eq!(required.status.code(), Some(125), "{required:?}");
    for quiet in ["--namespace none", "--quiet"] {
        let output = with(quiet);
        assert_eq!(said(&output), said(&auto), "{quiet}");
        assert_eq!(text(&output.stderr), "", "{quiet}");
    }
}

/// In a new network namespace, not even the loopback interface is up.
#[test]
fn the_absence_of_devices_is_reported() {
    let test = "the_absence_of_devices_is_reported";
    if !Who::with_namespaces(test).contains(&Who::Myself) {
        return;
    }
    let library = Library::new();
    let output = Who::Myself
        .command("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--net",
            ROCE,
            "run",
            "--library",
        ])
        .arg(&library.folder)
        .args(["ls", "/sys/class/infiniband"])
        .output()
        .expect("it starts");
    assert_eq!(said(&output), "");
    let told = text(&output.stderr);
    assert!(told.contains("will find no device"), "{told}");
}

/// A process with capabilities, in its own user namespace, loses them.
#[test]
fn lost_capabilities_are_reported() {
    let test = "lost_capabilities_are_reported";
    if !Who::with_namespaces(test).contains(&Who::Nobody) {
        return skip(test, "root");
    }
    let library = Library::new();
    let run = |namespace: &str| {
        let mut command = Who::Myself.command("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        command.args([
            "--inh-caps",
            "+net_raw",
            "--ambient-caps",
            "+net_raw",
            ROCE,
            "run",
        ]);
        command.args(["--preload", "never", "--namespace", namespace, "--library"]);
        command.arg(library.installed()).arg("true");
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        text(&output.stderr)
    };
    assert!(run("auto").contains("loses this process's capabilities"));
    assert_eq!(run("none"), "");
}

/// `mpirun`, `ssh` and shells create pseudoterminals.
#[test]
fn pseudoterminals_can_be_made() {
    let test = "pseudoterminals_can_be_made";
    let library = Library::new();
    for who in Who::with_namespaces(test) {
        // `script` makes one, and `tty` names it.
        let script =
            "exec 3<> /dev/ptmx && script -qec 'test -c \"$(tty)\" && echo made' /dev/null";
        let shown = said(&library.shell(who, &[], script));
        assert_eq!(shown, "made\r\n", "{who:?}");
    }
}

/// UCX uses an RDMA device only if its file in `/dev` can be opened for reading and writing.
#[test]
fn device_files_are_there_and_take_nothing() {
    let library = Library::new();
    let index = fs::read_to_string("/sys/class/net/lo/ifindex").expect("there");
    let real = exists("/dev/infiniband");
    for who in Who::with_namespaces("device_files_are_there_and_take_nothing") {
        let script = format!(
            "cd /dev/infiniband && ls && stat -c '%F %t:%T' uverbs{index} && \
             cat /sys/class/infiniband_verbs/uverbs{index}/dev && \
             exec 3<> uverbs{index} && ! echo command >&3",
            index = index.trim()
        );
        let output = library.shell(who, &["--devices", "lo"], &script);
        let expected = format!(
            "rdma_cm\nuverbs{}\ncharacter special file 1:7\n1:7\n",
            index.trim()
        );
        assert_eq!(said(&output), expected, "{who:?}");
        let told = text(&output.stderr);
        assert!(told.contains("echo: I/O error"), "{who:?}: {told}");
        assert_eq!(exists("/dev/infiniband"), real, "the system's own");
    }
}

/// Shared memory, and devices that are created while the program runs.
#[test]
fn what_is_mounted_in_dev_stays_and_root_can_make_devices() {
    let test = "what_is_mounted_in_dev_stays_and_root_can_make_devices";
    let library = Library::new();
    for who in Who::with_namespaces(test) {
        let name = format!("roce-test-{}-{who:?}", std::process::id());
        let script = format!("echo shared > /dev/shm/{name} && cat /proc/self/mountinfo");
        let output = library.shell(who, &[], &script);
        said(&output);
        let path = format!("/dev/shm/{name}");
        let found = fs::read_to_string(&path);
        assert_eq!(
            found.ok().as_deref(),
            Some("shared\n"),
            "{who:?}: {output:#?}, outside: {:#?}",
            fs::read_to_string("/proc/self/mountinfo")
        );
        fs::remove_file(path).expect("it is there");
    }
    if !nix::unistd::geteuid().is_root() {
        return skip(test, "root");
    }
    let name = format!("/dev/roce-test-{}", std::process::id());
    let script = format!("mknod {name} c 1 5 && head -c 3 {name} | wc -c");
    let made = library.shell(Who::Myself, &[], &script);
    assert_eq!(said(&made), "3\n");
    assert!(!exists(name), "only the program sees it");
}

/// `roce run -v` prints how it shows the files.
#[test]
fn verbose_names_the_way() {
    let library = Library::new();
    for who in Who::with_namespaces("verbose_names_the_way") {
        let output = library.shell(who, &["--verbose"], "true");
        let told = text(&output.stderr);
        let way = match nix::unistd::geteuid().is_root() && who == Who::Myself {
            true => "way 1 of 3, a mount namespace: ",
            false => "way 2 of 3, a user and a mount namespace (not way 1, ",
        };
        assert!(told.contains(way), "{who:?}: {told}");
    }
}

/// A machine whose `/dev` has the device files of RDMA hardware.
#[test]
fn device_files_of_hardware_are_hidden() {
    let test = "device_files_of_hardware_are_hidden";
    if !Who::with_namespaces(test).contains(&Who::Myself) {
        return;
    }
    let library = Library::new();
    let script = "cd /dev && mount -t tmpfs dev /dev && mkdir /dev/infiniband && \
        : > /dev/infiniband/issm0 && : > /dev/full && mount -c --bind ./full /dev/full && \
        \"$0\" run --library \"$1\" --namespace require --devices lo ls /dev/infiniband; \
        ls /dev/infiniband";
    let output = Who::Myself
        .command("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            ROCE,
        ])
        .arg(&library.folder)
        .output()
        .expect("it starts");
    let index = fs::read_to_string("/sys/class/net/lo/ifindex").expect("there");
    let expected = format!("rdma_cm\nuverbs{}\nissm0\n", index.trim());
    assert_eq!(text(&output.stdout), expected, "{output:?}");
}
