//! C programs that check the behavior that the man pages specify. They are linked to rdma-core's
//! library, as users' programs are.

use std::path::Path;
use std::process::Command;

use roce_tests::programs::{compiled_or_skip, compiles_rdmacm_or_skip};
use roce_tests::veth::Pair;

use crate::library;

#[test]
fn the_man_pages_are_kept() {
    succeeds("contract.c");
}

#[test]
fn windows_of_implicit_on_demand_regions_are_bound() {
    succeeds("windows.c");
}

#[test]
fn memory_and_objects_are_shared() {
    succeeds("shared.c");
}

#[test]
fn completion_counters_count_what_completes() {
    succeeds("counters.c");
}

/// Such an access had ended the process, by SIGSEGV.
#[test]
fn memory_that_is_unmapped_or_protected_fails_the_request() {
    succeeds("unmapped.c");
}

/// A peer had been able to write read-only memory, which ended the process.
#[test]
fn what_a_creation_refuses_a_change_refuses_too() {
    succeeds("changed.c");
}

#[test]
fn what_a_device_can_not_do_is_refused_at_the_creation() {
    succeeds("probes.c");
}

#[test]
fn sockets_over_rdma_behave_as_sockets() {
    if compiles_rdmacm_or_skip() {
        succeeds("rsocket.c");
    }
}

#[test]
fn datagram_sockets_over_rdma_behave_as_sockets() {
    if compiles_rdmacm_or_skip() {
        succeeds("rsocket_datagram.c");
    }
}

#[test]
fn an_event_that_a_waiting_thread_leaves_is_for_those_that_poll() {
    succeeds("waits.c");
}

/// Cancellation had ended the whole process.
#[test]
fn a_thread_can_be_cancelled_while_it_waits_or_polls() {
    if compiles_rdmacm_or_skip() {
        succeeds("cancelled.c");
    }
}

#[test]
fn a_link_local_address_keeps_its_scope() {
    if compiles_rdmacm_or_skip() {
        succeeds("scopes.c");
    }
}

/// With `ROCE_LOG`, a refused call logs the function, the error, and the reason. A program whose
/// calls keep failing does not flood the log.
#[test]
fn a_refused_call_says_why() {
    let Some(stderr) = run("refused.c", &[("ROCE_LOG", "1")]) else {
        return;
    };
    let lines: Vec<&str> = stderr.lines().collect();
    for part in [
        "roce: ibv_post_send: EINVAL: the QP is in state RESET",
        "roce: ibv_post_send: EINVAL: num_sge is 99, and must be 0 to ",
        "roce: ibv_post_recv: ENOMEM: ",
        "roce: ibv_wr_complete: EOPNOTSUPP: send_flags is 0x100000, ",
        "roce: ibv_modify_qp: EINVAL: the port is 2, but the device has only port 1",
        "roce: ibv_modify_qp: EINVAL: INIT to INIT: IBV_QP_CUR_STATE can't be set in this transition",
        "roce: ibv_modify_qp: EINVAL: INIT to INIT: attr_mask has unknown bits: 0x40000000",
    ] {
        let found = lines.iter().any(|line| line.starts_with(part));
        assert!(found, "{part}: {stderr}");
    }
    // Ten lines a second, and 200,000 calls take a few seconds at most.
    let full = lines
        .iter()
        .filter(|line| line.contains("ibv_post_recv"))
        .count();
    assert!((10..2000).contains(&full), "{full} lines: {stderr}");
    // Without the variable, nothing is logged.
    assert_eq!(run("refused.c", &[]).as_deref(), Some(""));
    // ROCE_WHY gets the first three of each function and error.
    let told = run("refused.c", &[("ROCE_WHY", "stderr")]).expect("it ran before");
    let full = "roce: ibv_post_recv: ENOMEM: ";
    assert_eq!(told.matches(full).count(), 3, "{told}");
    assert!(
        told.contains("roce: ibv_post_send: EINVAL: the QP is in state RESET"),
        "{told}"
    );
    // Where both go to the same place, each is told once.
    let both = [("ROCE_WHY", "stderr"), ("ROCE_LOG", "1")];
    let told = run("refused.c", &both).expect("it ran before");
    let once = "roce: ibv_wr_complete: EOPNOTSUPP: send_flags is 0x100000, ";
    assert_eq!(
        told.matches(once).count(),
        stderr.matches(once).count(),
        "{told}"
    );
}

/// Datagrams along such a handle were silently lost.
#[test]
fn an_address_handle_whose_address_is_taken_is_reported() {
    let Some(stderr) = run("taken.c", &[]) else {
        return;
    };
    let told = "roce: warning: datagrams from ::1 will not be sent: ";
    assert_eq!(stderr.matches(told).count(), 1, "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// Each mistake of a program is explained with the numbers that show it, at the end that knows them,
/// and completions carry the code of the cause.
#[test]
fn a_failed_request_says_why() {
    let Some(stderr) = run("causes.c", &[("ROCE_WHY", "stderr")]) else {
        return;
    };
    let mut rest = stderr.as_str();
    for part in [
        "IBV_WC_LOC_PROT_ERR\n  request   rdma_write of 64 bytes, wr_id 0x1, at remote address 0x",
        "why       element 0 of the send request, 64 bytes at 0x",
        "no region and no bound window has this key",
        "do        compare its addr, length and lkey",
        "code      0x111\n",
        "IBV_WC_MW_BIND_ERR\n  request   bind_mw of 64 bytes, wr_id 0x1\n",
        "posted bind_mw of 64 bytes",
        "IBV_WC_MW_BIND_ERR\n  request   local_inv, wr_id 0x1\n",
        "the region or window lacks IBV_ACCESS_LOCAL_WRITE",
        "code      0x113",
        // The responder fails first.
        "IBV_EVENT_QP_ACCESS_ERR\n  why       the peer's RC RDMA WRITE Only, 64 bytes at 0x",
        "code      0x411",
        "IBV_WC_REM_ACCESS_ERR",
        "code      0x320",
        "and the access ends 1 byte past its end",
        "needs IBV_ACCESS_REMOTE_WRITE, which this QP does not have",
        "the peer's message has at least 64 bytes, but the receive request has 63 bytes",
        "IBV_WC_RETRY_EXC_ERR",
        "The peer has never answered this QP",
        " of them again, and received no packet\n",
        "its path MTU is 1024 bytes, and 2 send requests had not completed\n",
        "unknown_qp: ",
    ] {
        let Some(at) = rest.find(part) else {
            panic!("{part:?} is not there, or not in order: {stderr}");
        };
        rest = &rest[at + part.len()..];
    }
    // Without the variable, nothing is written.
    assert_eq!(run("causes.c", &[]).as_deref(), Some(""));
}

/// An error in the environment is reported once, when a program lists devices.
#[test]
fn a_wrong_environment_is_reported() {
    let variables = [
        ("ROCE_FAULT", "loss=1%"),
        ("ROCE_DEVICES", "near,nosuch"),
        ("ROCE_DEVICE_NAMES", "near=mlx5_0,gone=mlx5_1"),
    ];
    let Some(stderr) = run("refused.c", &variables) else {
        return;
    };
    for part in [
        "roce: warning: ROCE_FAULT is set, but nothing reads a variable of that name: did you mean \
         ROCE_FAULTS?",
        "no device is named \"nosuch\"; there are: ",
        "no device is named \"gone\"; there are: ",
    ] {
        assert_eq!(stderr.matches(part).count(), 1, "{part}: {stderr}");
    }
}

/// Runs a program that prints nothing and succeeds if everything is right.
fn succeeds(source: &str) {
    run(source, &[]);
}

/// Runs a program with these environment variables. Returns its stderr, or `None` if the test is
/// skipped.
///
/// # Panics
/// If the program fails.
fn run(source: &str, variables: &[(&str, &str)]) -> Option<String> {
    let pair = Pair::new_or_skip(1500, 1)?;
    let program = compiled_or_skip(&format!("verbs-shim/tests/libibverbs/{source}"))?;
    let library = library::folder();
    let mut command = pair.near.command(&program);
    command.env("LD_LIBRARY_PATH", library.path());
    command.envs(variables.iter().copied());
    Some(run_built(command, &program))
}

/// Runs a program that was compiled for one test, and removes it. Returns its stderr.
///
/// # Panics
/// If the program fails.
pub(crate) fn run_built(mut command: Command, program: &Path) -> String {
    let output = command.output().expect("it was just built");
    // A leftover file does no harm: a later run overwrites it.
    let _ = std::fs::remove_file(program);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {stdout}{stderr}",
        output.status
    );
    stderr.into_owned()
}
