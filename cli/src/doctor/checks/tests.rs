//! Each check on fake machines.

use super::*;
use crate::doctor::examine;
use crate::doctor::finding::Status;
use crate::doctor::machine::DeviceView;
use crate::doctor::testing::{FakeMachine, device, elf};
use std::ffi::OsStr;

/// All findings but those on the variables of this process.
fn findings(fake: &FakeMachine, programs: &[&str]) -> Vec<Finding> {
    let programs: Vec<String> = programs.iter().map(|p| (*p).to_owned()).collect();
    let mut findings = examine(&fake.machine, &programs);
    findings.retain(|finding| finding.check != "variables");
    findings
}

/// The only finding that is not good, which must have a remedy.
fn bad(fake: &FakeMachine, programs: &[&str]) -> (Status, String, String, String) {
    let mut bad = findings(fake, programs);
    bad.retain(|finding| finding.status != Status::Ok && finding.check != "Open MPI");
    // UCX's finding about missing device nodes only repeats that of the check of /dev/infiniband.
    bad.retain(|finding| finding.check != "UCX" || !finding.what.contains("/dev/infiniband"));
    assert_eq!(bad.len(), 1, "{bad:#?}");
    let Finding {
        check,
        status,
        what,
        remedy,
    } = bad.remove(0);
    (status, check, what, remedy.expect("a remedy"))
}

/// Checks that `bad` is a finding with these parts in its text and remedy.
#[track_caller]
fn assert_bad(fake: &FakeMachine, status: Status, check: &str, what: &str, remedy: &str) {
    let found = bad(fake, &[]);
    assert_eq!((found.0, found.1.as_str()), (status, check), "{found:?}");
    assert!(found.2.contains(what), "{found:?}");
    assert!(found.3.contains(remedy), "{found:?}");
}

/// Sets the environment that `eval "$(roce env)"` sets.
fn in_place(fake: &mut FakeMachine) {
    fake.set("LD_LIBRARY_PATH", "/opt/roce");
}

#[test]
fn a_healthy_machine_has_no_failure() {
    let mut fake = FakeMachine::healthy();
    for _ in 0..2 {
        let all = findings(&fake, &[]);
        let worst = all.iter().map(|finding| finding.status).max();
        assert_eq!(worst, Some(Status::Ok), "{all:#?}");
        // Now with programs that are started directly.
        in_place(&mut fake);
        fake.show_device("roce_lo");
    }
}

#[test]
fn no_device_nodes_are_found() {
    let mut fake = FakeMachine::healthy();
    fake.remove("/dev/infiniband");
    assert_bad(
        &fake,
        Status::Warning,
        "/dev/infiniband",
        "does not exist",
        "roce run",
    );
    fake.write("/dev/infiniband/rdma_cm", "");
    assert_bad(
        &fake,
        Status::Warning,
        "/dev/infiniband",
        "no uverbs",
        "roce run",
    );
    in_place(&mut fake);
    fake.show_device("roce_lo");
    assert_bad(
        &fake,
        Status::Failure,
        "/dev/infiniband",
        "UCX finds no device",
        "roce run",
    );
}

#[test]
fn devices_that_are_not_in_sysfs_are_found() {
    let mut fake = FakeMachine::healthy();
    fake.machine.device_view = DeviceView::Preloaded("forbidden".to_owned());
    let all = findings(&fake, &[]);
    let sysfs = all.iter().find(|f| f.check == "sysfs").expect("checked");
    assert_eq!(sysfs.status, Status::Ok);
    assert!(
        sysfs
            .what
            .contains("preloaded library, not by mounts: forbidden"),
        "{sysfs:?}"
    );
    fake.machine.device_view = DeviceView::Unavailable("forbidden".to_owned());
    assert_bad(&fake, Status::Failure, "sysfs", "forbidden", "sysctl");
    in_place(&mut fake);
    assert_bad(
        &fake,
        Status::Failure,
        "sysfs",
        "does not have roce_lo",
        "roce run",
    );
}

/// As on hosted machines: a device of the kernel, and no way to use it.
#[test]
fn a_dead_hardware_device_is_found() {
    let mut fake = FakeMachine::healthy();
    let state = "/sys/class/infiniband/mlx5_0/ports/1/state";
    fake.write(state, "1: DOWN\n");
    assert_bad(
        &fake,
        Status::Warning,
        "hardware",
        "its port is DOWN and has no uverbs",
        "roce run",
    );
    fake.write(state, "4: ACTIVE\n");
    fake.write("/sys/class/infiniband_verbs/uverbs7/ibdev", "mlx5_0\n");
    assert_bad(
        &fake,
        Status::Warning,
        "hardware",
        "/dev/infiniband/uverbs7 is not there",
        "roce",
    );
    in_place(&mut fake);
    fake.show_device("roce_lo");
    assert_bad(
        &fake,
        Status::Failure,
        "hardware",
        "uverbs7",
        "NCCL_IB_HCA=roce_eth0",
    );
    fake.write("/dev/infiniband/uverbs7", "");
    let all = findings(&fake, &[]);
    assert!(
        all.iter().all(|finding| finding.status != Status::Failure),
        "{all:#?}"
    );
}

#[test]
fn a_memory_limit_with_nothing_left_is_found() {
    let fake = FakeMachine::healthy();
    fake.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
    fake.write("/sys/fs/cgroup/a/memory.max", "268435456\n");
    fake.write("/sys/fs/cgroup/a/memory.current", "260000000\n");
    let file = "sudo tee /sys/fs/cgroup/a/memory.max";
    assert_bad(
        &fake,
        Status::Failure,
        "memory",
        "8 MiB are left of the 256 MiB",
        file,
    );
    // A group inside it has more left of its own limit.
    fake.write("/sys/fs/cgroup/a/b/memory.max", "536870912\n");
    fake.write("/sys/fs/cgroup/a/b/memory.current", "0\n");
    assert_bad(&fake, Status::Failure, "memory", "8 MiB are left", file);
    fake.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
    // Cached memory is freed when it is needed.
    fake.write(
        "/sys/fs/cgroup/a/memory.stat",
        "anon 1\ninactive_file 200000000\n",
    );
    assert_bad(&fake, Status::Warning, "memory", "198 MiB are left", file);
    // Version 1, in a container that sees only its own group.
    fake.write("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu:/x\n");
    let mount = "/sys/fs/cgroup/memory";
    fake.write(&format!("{mount}/memory.limit_in_bytes"), "67108864");
    fake.write(&format!("{mount}/memory.usage_in_bytes"), "67108864");
    let file = "memory/memory.limit_in_bytes";
    assert_bad(&fake, Status::Failure, "memory", "0 MiB are left", file);
    fake.write(
        &format!("{mount}/memory.limit_in_bytes"),
        "9223372036854771712",
    );
    assert_eq!(
        findings(&fake, &[])
            .iter()
            .filter(|f| f.status == Status::Failure)
            .count(),
        0
    );
}

#[test]
fn other_limits_are_found() {
    let fake = FakeMachine::healthy();
    fake.limits("65536", "65536");
    assert_bad(
        &fake,
        Status::Warning,
        "locked memory",
        "64 KiB",
        "ulimit -l",
    );
    fake.limits("unlimited", "256");
    assert_bad(&fake, Status::Warning, "open files", "256", "ulimit -n");
    fake.limits("unlimited", "40");
    assert_bad(&fake, Status::Failure, "open files", "40", "ulimit -n");
    fake.limits("unlimited", "unlimited");
    fake.write("/proc/sys/fs/pipe-user-pages-hard", "16");
    assert_bad(
        &fake,
        Status::Warning,
        "pipes",
        "16 pages",
        "fs.pipe-user-pages-hard=0",
    );
    fake.write("/proc/sys/fs/pipe-user-pages-hard", "0");
    fake.write("/proc/sys/net/core/rmem_max", "212992");
    let remedy = "net.core.rmem_max=4194304";
    assert_bad(&fake, Status::Warning, "UDP buffers", "208 KiB", remedy);
}

const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
  10: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 777 2 0 0
  11: 0100007F:12B8 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 778 2 0 0
";

#[test]
fn another_holder_of_the_port_is_found() {
    let fake = FakeMachine::healthy();
    fake.write("/proc/net/udp", UDP);
    let hidden = "not seen from here holds it (user 1000)";
    assert_bad(&fake, Status::Failure, "port 4791", hidden, "sudo ss -ulpn");
    fake.write("/proc/42/comm", "stranger\n");
    fake.link("/proc/42/fd/9", "socket:[777]");
    fake.link("/proc/43/fd/9", "socket:[778]");
    fake.link("/proc/self/fd/9", "socket:[777]");
    assert_bad(
        &fake,
        Status::Failure,
        "port 4791",
        "stranger (process 42)",
        "kill 42",
    );
    // A process that uses this stack.
    let unix = "0: 00000002 00000000 00010000 0001 01 2589204 @roce-watch-1/42/00ff\n";
    fake.write("/proc/net/unix", unix);
    let all = findings(&fake, &[]);
    let port = all
        .iter()
        .find(|f| f.check == "port 4791")
        .expect("checked");
    assert_eq!(
        (port.status, port.what.contains("stranger")),
        (Status::Ok, true),
        "{port:?}"
    );
}

#[test]
fn the_kernels_soft_roce_is_found() {
    let fake = FakeMachine::healthy();
    fake.write("/proc/net/udp6", UDP.replace("  1000  ", "     0  "));
    fake.write("/proc/modules", "rdma_rxe 200704 0 - Live 0x0\n");
    assert_bad(
        &fake,
        Status::Failure,
        "port 4791",
        "rdma_rxe",
        "modprobe -r rdma_rxe",
    );
}

#[test]
fn a_bundled_libibverbs_is_found() {
    let fake = FakeMachine::healthy();
    let needs = ["libucp.so.0", "libc.so.6"];
    fake.write(
        "/usr/bin/app",
        elf(&needs, Some("$ORIGIN/../lib/app"), None),
    );
    fake.write(
        "/usr/lib/app/libucp.so.0",
        elf(&["libibverbs.so.1"], Some("$ORIGIN"), None),
    );
    let set_mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(fake.machine.at(path), mode).expect("a mode");
    };
    set_mode("/usr/bin/app");
    // The program gets this stack's library …
    let good = findings(&fake, &["app", "/usr/bin/app"]);
    assert!(
        good.iter().all(|f| f.status != Status::Failure),
        "{good:#?}"
    );
    // … until there is another under its own name, which only a preloaded library gets past …
    fake.write("/usr/lib/app/libibverbs.so.1", elf(&[], None, None));
    let found = bad(&fake, &["app"]);
    assert_eq!(
        (found.0, found.1.as_str()),
        (Status::Warning, "app"),
        "{found:?}"
    );
    assert!(
        found
            .2
            .contains("a copy of the library is bundled: /usr/lib/app/libibverbs.so.1")
    );
    assert_eq!(found.3, "roce run app");
    // … or under a unique name.
    let renamed = "libibverbs-8f14e45f.so.1.14.39.0";
    fake.write(
        "/usr/lib/app/libucp.so.0",
        elf(&[renamed], Some("$ORIGIN"), None),
    );
    fake.write(&format!("/usr/lib/app/{renamed}"), elf(&[], None, None));
    let found = bad(&fake, &["app"]);
    assert!(
        found.2.contains("a renamed copy") && found.2.contains(renamed),
        "{found:?}"
    );
    // Started directly, it bypasses this stack, …
    let mut fake = fake;
    in_place(&mut fake);
    fake.show_device("roce_lo");
    let found = bad(&fake, &["app"]);
    assert_eq!(found.0, Status::Failure, "{found:?}");
    // … unless this stack's library is preloaded, as under `roce run`.
    fake.set("LD_PRELOAD", "/opt/roce/libibverbs.so.1");
    let all = findings(&fake, &["app"]);
    assert!(all.iter().all(|f| f.status != Status::Failure), "{all:#?}");
    assert!(
        all.iter()
            .any(|f| f.what.contains("is preloaded, and comes before it")),
        "{all:#?}"
    );
}

#[test]
fn copies_in_python_packages_are_found() {
    let mut fake = FakeMachine::healthy();
    fake.write("/usr/bin/python3", elf(&["libc.so.6"], None, None));
    fake.write("/usr/bin/script", "#!/usr/bin/env python3\n");
    for path in ["/usr/bin/python3", "/usr/bin/script"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(fake.machine.at(path), mode).expect("a mode");
    }
    let packages = "/venv/lib/python3.11/site-packages";
    fake.write(&format!("{packages}/nixl/api.py"), "");
    fake.link("/venv/bin/python3", fake.machine.at("/usr/bin/python3"));
    for program in ["script", "/venv", "/venv/bin/python3"] {
        let good = findings(&fake, &[program]);
        assert!(
            good.iter().all(|f| f.status != Status::Failure),
            "{good:#?}"
        );
    }
    let copy = format!("{packages}/nixl.libs/libibverbs-ab12.so.1.14");
    fake.write(&copy, "");
    fake.link(&format!("{packages}/nixl.libs/circle"), "..");
    for program in ["/venv", "/venv/bin/python3"] {
        let found = bad(&fake, &[program]);
        assert!(found.2.contains(&copy), "{found:?}");
    }
    fake.set("VIRTUAL_ENV", "/venv");
    assert!(bad(&fake, &["script"]).2.contains(&copy));
}

#[test]
fn programs_that_can_not_be_looked_at_are_failures() {
    let fake = FakeMachine::healthy();
    fake.write("/usr/bin/text", "just text");
    fake.write("/usr/bin/script", "#!/usr/bin/script\n");
    fake.write("/usr/bin/static", {
        // Without the loader's name.
        let mut bytes = elf(&[], None, None);
        bytes[64 + 2 * 56] = 0;
        bytes
    });
    let mut other = elf(&["libc.so.6"], None, None);
    other[18] = 243;
    fake.write("/usr/bin/riscv", other);
    for (program, part) in [
        ("nosuch", "no such program"),
        ("", "no such program"),
        ("/usr/bin/text", "neither a program"),
        ("/usr/bin/static", "linked statically"),
        ("/usr/bin/riscv", "another processor"),
        ("/usr/bin/script", "neither a program"),
        ("/dev", "neither a program"),
    ] {
        let all = findings(&fake, &[program]);
        let last = all.last().expect("a finding");
        assert_eq!(last.status, Status::Failure, "{program}: {last:?}");
        assert!(last.what.contains(part), "{program}: {last:?}");
    }
}

/// `roce run` makes these settings itself.
#[test]
fn a_machine_without_the_settings_of_frameworks_is_warned() {
    for (check, variable, what, remedy) in [
        (
            "NCCL",
            "NCCL_GIN_TYPE",
            "crashes in ncclCommInitRank",
            "export NCCL_GIN_TYPE='2'",
        ),
        (
            "UCX",
            "UCX_NET_DEVICES",
            "waits for ever",
            "export UCX_NET_DEVICES='roce_eth0:1,eth0'",
        ),
        (
            "UCX",
            "UCX_FENCE_MODE",
            "a READ whose key is valid only on mlx5",
            "export UCX_FENCE_MODE='weak'",
        ),
        (
            "Open MPI",
            "OMPI_MCA_opal_common_ucx_devices",
            "silently moves data",
            "export OMPI_MCA_opal_common_ucx_devices='any'",
        ),
    ] {
        let mut fake = FakeMachine::healthy();
        fake.write("/usr/lib/libucp.so.0", "TLS\0FENCE_MODE\0");
        fake.set("UCX_FENCE_MODE", "weak");
        fake.machine.environment.remove(OsStr::new(variable));
        let finding = |fake: &FakeMachine| {
            let mut found = findings(fake, &[]).into_iter();
            found.find(|f| f.check == check).expect("checked")
        };
        let by_run = finding(&fake);
        assert_eq!(by_run.status, Status::Ok, "{variable}: {by_run:?}");
        in_place(&mut fake);
        let directly = finding(&fake);
        assert_eq!(directly.status, Status::Warning, "{variable}: {directly:?}");
        assert!(directly.what.contains(what), "{directly:?}");
        assert_eq!(directly.remedy.as_deref(), Some(remedy), "{directly:?}");
    }
}

/// A script or an image may name the adapter of another machine.
#[test]
fn a_name_that_no_device_has_can_be_given_to_one() {
    for (variable, value, remedy) in [
        (
            "UCX_NET_DEVICES",
            "mlx5_0:1,eth7",
            "export UCX_NET_DEVICES=all",
        ),
        (
            "UCX_NET_DEVICES",
            "mlx5_0:1",
            "export ROCE_DEVICE_NAMES=eth0=mlx5_0",
        ),
        (
            "FI_VERBS_DEVICE_NAME",
            "mlx5_0",
            "export ROCE_DEVICE_NAMES=eth0=mlx5_0",
        ),
        (
            "NCCL_IB_HCA",
            "=mlx5_2:1,mlx5_1",
            "export ROCE_DEVICE_NAMES=eth0=mlx5_1,eth1=mlx5_2",
        ),
        ("NCCL_IB_HCA", "mlx5_*", "export NCCL_IB_HCA=roce_eth0"),
        ("NCCL_IB_HCA", "=", "export NCCL_IB_HCA=roce_eth0"),
    ] {
        let mut fake = FakeMachine::healthy();
        fake.machine.devices.insert(1, device("eth1"));
        fake.set(variable, value);
        let found = bad(&fake, &[]);
        assert_eq!(
            (found.0, found.3.as_str()),
            (Status::Failure, remedy),
            "{found:?}"
        );
        if remedy.contains("ROCE_DEVICE_NAMES") {
            assert!(
                found.2.contains(&format!("export {variable}=")),
                "{found:?}"
            );
        }
    }
    let remedy = |fake: &FakeMachine| {
        let all = findings(fake, &[]).into_iter();
        let mut failures = all.filter(|finding| finding.check == "NCCL");
        failures.next().and_then(|finding| finding.remedy)
    };
    let mut fake = FakeMachine::healthy();
    fake.set("NCCL_IB_HCA", "mlx5_0");
    // The loopback's is renamed only if there is no other.
    fake.machine.devices.remove(0);
    assert_eq!(
        remedy(&fake).as_deref(),
        Some("export ROCE_DEVICE_NAMES=lo=mlx5_0")
    );
    // Names are given already, or the kernel has a device of this name.
    fake.set("ROCE_DEVICE_NAMES", "lo=rxe0");
    assert_eq!(remedy(&fake).as_deref(), Some("export NCCL_IB_HCA=roce_lo"));
    fake.set("ROCE_DEVICE_NAMES", "");
    fake.write("/sys/class/infiniband/mlx5_0/board_id", "MT_0000000012\n");
    assert_eq!(remedy(&fake).as_deref(), Some("export NCCL_IB_HCA=roce_lo"));
}

/// Under another name, a device of this stack is still no hardware.
#[test]
fn a_device_with_another_name_is_not_taken_for_the_kernels() {
    let mut fake = FakeMachine::healthy();
    fake.machine.devices[0].name = "mlx5_0".to_owned();
    fake.set("UCX_NET_DEVICES", "mlx5_0:1,eth0");
    in_place(&mut fake);
    fake.show_device("mlx5_0");
    fake.show_device("roce_lo");
    let all = findings(&fake, &[]);
    let hardware = all.iter().find(|f| f.check == "hardware").expect("checked");
    assert_eq!(
        hardware.what,
        "no other RDMA device is in /sys/class/infiniband"
    );
}

#[test]
fn variables_that_keep_frameworks_from_this_stack_are_found() {
    for (variable, wrong, right) in [
        (
            "UCX_TLS",
            "tcp,self",
            &["rc,self", "all", "^tcp", "rc_verbs"][..],
        ),
        (
            "UCX_NET_DEVICES",
            "mlx5_0:1",
            &["all", "roce_eth0:1", "mlx5_0:1,roce_lo:1"],
        ),
        ("FI_PROVIDER", "tcp", &["verbs", "verbs;ofi_rxm", "^tcp"]),
        ("FI_VERBS_DEVICE_NAME", "mlx5_0", &["roce_eth0"]),
        ("NCCL_IB_DISABLE", "1", &["0"]),
        ("NCCL_NET", "Socket", &["IB"]),
        ("NCCL_IB_HCA", "mlx5", &["roce", "=roce_eth0:1", "^mlx5"]),
    ] {
        let mut fake = FakeMachine::healthy();
        fake.set(variable, wrong);
        let found = bad(&fake, &[]);
        assert_eq!(found.0, Status::Failure, "{found:?}");
        let said = format!("{} {}", found.2, found.3);
        assert!(said.contains(&format!("export {variable}=")), "{found:?}");
        for value in right {
            fake.set(variable, value);
            let all = findings(&fake, &[]);
            assert!(
                all.iter().all(|f| f.status != Status::Failure),
                "{value}: {all:#?}"
            );
        }
    }
    let mut fake = FakeMachine::healthy();
    let open_mpi = "/etc/openmpi/openmpi-mca-params.conf";
    for (line, status) in [
        ("# pml = ^ucx\nbtl = ^uct", Status::Ok),
        ("pml = ^v", Status::Ok),
        ("btl = ^uct\npml = ^ucx\n", Status::Warning),
    ] {
        fake.write(open_mpi, line);
        let all = findings(&fake, &[]);
        let found = all.iter().find(|f| f.check == "Open MPI").expect("checked");
        assert_eq!(found.status, status, "{line}: {found:?}");
    }
    for (pml, status) in [
        ("ucx", Status::Ok),
        ("cm", Status::Ok),
        ("ob1", Status::Failure),
    ] {
        fake.set("OMPI_MCA_pml", pml);
        let all = findings(&fake, &[]);
        let found = all.iter().find(|f| f.check == "Open MPI").expect("checked");
        assert_eq!(found.status, status, "{found:?}");
    }
}
