//! Effects of a program on its process: it forks, loads and unloads the library, and calls it from
//! many threads.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use roce_tests::programs::{compiled_or_skip, compiled_with_rpma_or_skip, compiles_rdmacm_or_skip};
use roce_tests::veth::Pair;

use crate::c::run_built;
use crate::library;

/// Runs a C program of these tests, which must succeed. `set_up` sets its environment and
/// arguments.
fn run(source: &str, set_up: impl FnOnce(&mut Command)) -> Option<String> {
    let source = format!("verbs-shim/tests/libibverbs/{source}");
    let program = compiled_or_skip(&source)?;
    let mut command = Command::new(&program);
    set_up(&mut command);
    Some(run_built(command, &program))
}

fn run_with(folder: &Path) -> impl FnOnce(&mut Command) {
    move |command| {
        command.env("LD_LIBRARY_PATH", folder);
    }
}

#[test]
fn a_child_that_does_not_exec_has_errors_and_its_parent_no_harm() {
    let library = library::folder();
    run("fork.c", run_with(library.path()));
}

#[test]
fn objects_of_two_contexts_do_not_mix() {
    let library = library::folder();
    run("contexts.c", run_with(library.path()));
}

#[test]
fn a_program_does_not_wait_for_completions_that_it_has() {
    let library = library::folder();
    run("events.c", run_with(library.path()));
}

/// libiscsi keeps its elements in a packed structure.
// trap: list-lengths
#[test]
fn what_programs_give_need_not_be_aligned() {
    let library = library::folder();
    run("unaligned.c", run_with(library.path()));
}

/// Soft-RoCE checked a request in one state and used it in another.
// trap: request-changed
#[test]
fn a_request_that_changes_while_it_is_posted_is_one_of_its_states() {
    let library = library::folder();
    run("raced.c", run_with(library.path()));
}

#[test]
fn threads_share_all_objects() {
    let library = library::folder();
    run("threads.c", run_with(library.path()));
}

/// The program loads the library with `dlopen`; the one it is linked to is not used.
#[test]
fn a_library_that_is_let_go_of_stays() {
    run("loading.c", |command| {
        command.arg(library::built());
        command.env("LD_LIBRARY_PATH", "");
    });
}

/// A user who starts a setuid program must not have it create or write root's files.
#[test]
fn a_setuid_program_obeys_no_variables() {
    const CALLER: u32 = 12_345;
    let Some(built) = compiled_or_skip("verbs-shim/tests/libibverbs/loading.c") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (program, private) = (folder.path().join("program"), folder.path().join("private"));
    fs::copy(&built, &program).expect("copied");
    fs::copy("/usr/bin/id", folder.path().join("id")).expect("copied");
    fs::create_dir(&private).expect("made");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("allowed");
    };
    set(folder.path(), 0o755);
    set(&private, 0o700);
    set(&program, 0o4755);
    set(&folder.path().join("id"), 0o4755);
    let run_by = |user: u32| {
        let mut command = Command::new(&program);
        command
            .arg(library::built())
            .env("ROCE_PCAP", private.join("capture.pcapng"))
            .env("ROCE_WHY", private.join("why.txt"))
            .env("ROCE_WHY_PCAP", private.join("why.pcapng"))
            .env("ROCE_METRICS", "malformed on purpose")
            .uid(user)
            .gid(user);
        command
    };
    let id = Command::new(folder.path().join("id"))
        .arg("-u")
        .uid(CALLER)
        .output();
    if !id.is_ok_and(|id| id.stdout == b"0\n") {
        let _ = fs::remove_file(&built);
        return testkit::skip("root, and a folder in which setuid has an effect", "");
    }
    // Root itself gives no one more rights, and is obeyed.
    let obeyed = run_by(0).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&obeyed.stderr);
    assert!(
        !obeyed.status.success() && stderr.contains("ROCE_METRICS"),
        "{stderr}"
    );
    let written = fs::read_dir(&private).expect("there").flatten();
    let removed = written.map(|file| fs::remove_file(file.path()).expect("removed"));
    assert_ne!(removed.count(), 0);
    let stderr = run_built(run_by(CALLER), &built);
    assert!(
        stderr.contains("the variables ROCE_... are ignored"),
        "{stderr}"
    );
    assert_eq!(
        fs::read_dir(&private).expect("there").count(),
        0,
        "{stderr}"
    );
}

#[test]
fn loaders_find_every_symbol_in_the_version_that_they_ask_for() {
    run("loaders.c", |command| {
        command.arg(library::built());
        command.env("LD_LIBRARY_PATH", "");
    });
}

/// Debian has the vendors' libraries in ibverbs-providers, on which perftest and UCX depend.
#[test]
fn libraries_of_vendors_find_none_of_their_devices() {
    let there = ["libmlx5.so.1", "libefa.so.1"].map(is_loaded_or_skip);
    if there == [true; 2] {
        let library = library::folder();
        run("vendors.c", run_with(library.path()));
    }
}

#[test]
fn calls_go_through_the_tables_of_a_context() {
    let library = library::folder();
    run_with_cm("tables.c", library.path());
}

/// The calls that wait for a completion find none when they poll, so they wait for its event.
#[test]
fn calls_that_wait_go_through_the_tables_of_a_context() {
    if compiles_rdmacm_or_skip() {
        let library = library::folder();
        run("tables.c", |command| {
            run_with(library.path())(command);
            command.env("ROCE_FAULTS", "delay=1ms");
        });
    }
}

/// The calls that C programs make through the tables of a context, and so need one.
const WITH_OBJECTS: &[&str] = &[
    "alloc_dm",
    "alloc_mw",
    "alloc_null_mr",
    "alloc_parent_domain",
    "alloc_td",
    "bind_mw",
    "create_cq_ex",
    "create_qp_ex",
    "create_srq_ex",
    "dealloc_mw",
    "modify_cq",
    "open_xrcd",
    "poll_cq",
    "post_recv",
    "post_send",
    "post_srq_recv",
    "query_device_ex",
    "query_port",
    "req_notify_cq",
];

#[test]
fn each_call_that_is_ordered_to_fail_does() {
    if !compiles_rdmacm_or_skip() {
        return;
    }
    let library = library::folder();
    for with_objects in [false, true] {
        let calls = || {
            let all = roce_verbs::faults::CALLS.iter();
            all.filter(|call| WITH_OBJECTS.contains(call) == with_objects)
        };
        let injections: Vec<_> = calls().map(|call| format!("{call}:EDOM")).collect();
        run("injected.c", |command| {
            run_with(library.path())(command);
            command.args(calls());
            command.env("ROCE_FAULTS", injections.join(","));
            if with_objects {
                command.env("OBJECTS", "1");
            }
        });
    }
}

#[test]
fn injections_are_about_the_calls_of_the_program() {
    if compiles_rdmacm_or_skip() {
        let library = library::folder();
        run("injected.c", |command| {
            run_with(library.path())(command);
            command.arg("by one call");
            let injections = "alloc_pd:EDOM,create_comp_channel:EDOM,create_cq:EDOM,create_qp:EDOM";
            command.env("ROCE_FAULTS", injections);
        });
    }
}

#[test]
fn the_same_seed_makes_the_same_calls_of_a_program_fail() {
    if !compiles_rdmacm_or_skip() {
        return;
    }
    let library = library::folder();
    let failures = |injections: &str| {
        let source = "verbs-shim/tests/libibverbs/injected.c";
        let program = compiled_or_skip(source).expect("it compiles");
        let mut command = Command::new(&program);
        run_with(library.path())(&mut command);
        command.env("ROCE_FAULTS", injections);
        let output = command.output().expect("it was just built");
        std::fs::remove_file(program).expect("it is there");
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stderr).expect("text");
        (String::from_utf8(output.stdout).expect("text"), told)
    };
    let (of_seven, told) = failures("post_recv:ENOMEM@10%,seed=7");
    assert_eq!(
        failures("post_recv:ENOMEM@10%,seed=7"),
        (of_seven.clone(), told.clone())
    );
    assert_ne!(failures("post_recv:ENOMEM@10%,seed=8").0, of_seven);
    // The printed injections repeat the same failures without the seed.
    let struck = told
        .lines()
        .filter_map(|line| line.strip_prefix("roce: fault: "));
    let struck: Vec<&str> = struck.collect();
    assert!(!struck.is_empty(), "{told}");
    assert_eq!(failures(&struck.join(",")).0, of_seven);
}

/// Scripts look for them in the output of programs.
#[test]
fn texts_are_those_of_rdma_core() {
    if !compiles_rdmacm_or_skip() {
        return;
    }
    let library = library::folder();
    let [own, of_rdma_core] = [library.path(), Path::new("")].map(|folder| {
        let source = "verbs-shim/tests/libibverbs/texts.c";
        let program = compiled_or_skip(source).expect("it compiles");
        let mut command = Command::new(&program);
        run_with(folder)(&mut command);
        let output = command.output().expect("it was just built");
        std::fs::remove_file(program).expect("it is there");
        String::from_utf8(output.stdout).expect("text")
    });
    assert!(own.contains("status 12 transport retry"), "{own}");
    assert_eq!(own, of_rdma_core);
}

#[test]
fn datagrams_are_answered_whatever_the_completion_says_of_a_service_level() {
    let library = library::folder();
    run("datagrams.c", |command| {
        run_with(library.path())(command);
        command.env("ROCE_QOS", "sl2dscp=2:46");
    });
}

#[test]
fn there_are_as_many_objects_as_the_device_says() {
    let library = library::folder();
    run("limits.c", run_with(library.path()));
}

/// A process that shares a file can truncate it. That must not end the processes that registered it.
#[test]
fn truncated_files_behind_memory_are_errors() {
    let library = library::folder();
    run("truncated.c", run_with(library.path()));
}

/// Peers flush files to persistence, and nothing else.
#[test]
fn files_are_flushed_to_persistence() {
    let library = library::folder();
    // Unlike /tmp, this folder is on a disk, and every user can write to it.
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    run("persistent.c", |command| {
        command.env("LD_LIBRARY_PATH", library.path());
        command.arg(folder.path());
    });
}

/// librpma as Debian has it: its FLUSHes are READs after WRITEs.
#[test]
fn librpma_writes_and_flushes() {
    let Some(program) = compiled_with_rpma_or_skip("verbs-shim/tests/libibverbs/rpma.c") else {
        return;
    };
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let library = library::folder();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = pair.near.command(&program);
    command.env("LD_LIBRARY_PATH", library.path());
    command.arg(pair.near.ip4.to_string()).arg(folder.path());
    run_built(command, &program);
}

/// Peers with a key must not reach what a program maps where registered memory was.
#[test]
fn a_region_can_be_tied_to_its_mapping() {
    // SAFETY: the call only makes a descriptor, which the process keeps.
    if unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1) } < 0 {
        return testkit::skip("userfaultfd", "sandboxes often forbid it");
    }
    let library = library::folder();
    run("tied.c", |command| {
        run_with(library.path())(command);
        command.env("ROCE_TIE_MEMORY", "1");
    });
}

/// The library replaces the system's library, because it has the same name.
#[test]
fn a_library_that_is_loaded_first_is_the_one() {
    run("threads.c", |command| {
        command.env("LD_PRELOAD", library::built());
    });
}

/// Whether `ldconfig` lists a library. If not, reports that the test is skipped.
fn is_loaded_or_skip(name: &str) -> bool {
    let known = Command::new("/sbin/ldconfig").arg("-p").output();
    let there = known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains(name));
    if !there {
        testkit::skip("ibverbs-providers", name);
    }
    there
}

#[test]
fn connections_are_made_as_the_man_pages_of_the_connection_manager_say() {
    let library = library::folder();
    // A request that is given up before its answer is given up by a message that names no connection of
    // the server. It reaches the first process of a host only.
    run_alone_with_cm("cm.c", library.path());
}

#[test]
fn the_connection_manager_refuses_what_it_is_not_for() {
    let library = library::folder();
    let logs = |command: &mut Command| {
        run_with(library.path())(command);
        command.env("ROCE_LOG", "1");
    };
    if !compiles_rdmacm_or_skip() {
        return;
    }
    let stderr = run("cm_refused.c", logs).expect("it compiles");
    // The log names the function that the program has called, not those that it consists of.
    let told = "roce: rdma_create_qp: EINVAL: max_recv_wr is 131072, but must be at most 65536\n";
    assert!(stderr.contains(told), "{stderr}");
    assert!(!stderr.contains("ibv_create_"), "{stderr}");
}

#[test]
fn peers_of_a_process_that_ends_without_a_word_learn_of_it() {
    let library = library::folder();
    run_with_cm("gone.c", library.path());
}

#[test]
fn descriptors_of_events_behave_as_the_kernels() {
    let library = library::folder();
    run_with_cm("descriptors.c", library.path());
}

#[test]
fn a_process_without_descriptors_is_not_told_that_there_is_no_device() {
    let library = library::folder();
    run_with_cm("exhausted.c", library.path());
}

/// libfabric changes the list, and its `fi_info` crashed when freeing it.
#[test]
fn lists_of_addresses_that_a_program_changed_can_be_freed() {
    let library = library::folder();
    run_with_cm("addrinfo.c", library.path());
}

fn run_with_cm(source: &str, folder: &Path) {
    if compiles_rdmacm_or_skip() {
        run(source, run_with(folder));
    }
}

/// As [`run_with_cm`], in a network without other processes.
fn run_alone_with_cm(source: &str, folder: &Path) {
    if !compiles_rdmacm_or_skip() {
        return;
    }
    let alone = |script: &str| {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--net",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command
    };
    let probe = alone("ip link set lo up").status();
    if !probe.is_ok_and(|status| status.success()) {
        return testkit::skip("network namespaces", "");
    }
    let source = format!("verbs-shim/tests/libibverbs/{source}");
    let program = compiled_or_skip(&source).expect("it compiles");
    let mut command = alone("ip link set lo up; exec \"$@\"");
    command.arg(&program);
    run_with(folder)(&mut command);
    run_built(command, &program);
}
