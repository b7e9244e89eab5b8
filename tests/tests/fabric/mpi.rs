//! Open MPI on eight hosts, which it reaches by `roce fabric ssh`.

use crate::running::{Ran, Shared, User, run};
use roce_tests::programs::{compiled_by_or_skip, is_installed_or_skip};
use std::sync::{Mutex, PoisonError};

/// Each test has more spinning ranks than a small machine has processors, so they run one by one.
static RUNNING: Mutex<()> = Mutex::new(());

const PROGRAM: &str = "tests/tests/programs/scripts/mpi.c";

/// A program whose ranks, one on each host, check the sums of collectives, messages and puts. It may
/// use nothing but RDMA between hosts.
fn all_sums(user: User, hosts: &str, options: &[&str]) -> Option<Ran> {
    if !is_installed_or_skip("mpirun.openmpi") {
        return None;
    }
    let program = Shared::program(compiled_by_or_skip("mpicc.openmpi", PROGRAM, &[])?);
    let script = format!(
        "mpirun.openmpi -np {hosts} -x UCX_TLS=rc_v,ud_v,self --mca pml ucx --mca osc ucx \
         sh -c 'echo on $(hostname); exec {}'",
        program.path()
    );
    let network = ["--hosts", hosts, "--rate", "200M"];
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    run(user, &[&network, options].concat(), &script)
}

fn check_eight(ran: &Ran) {
    ran.ends_with(0).says("8 ranks: all sums are right");
    for host in 1..=8 {
        ran.says(&format!("on h{host}\n"));
    }
}

#[test]
fn open_mpi_runs_on_eight_hosts() {
    if let Some(ran) = all_sums(User::Own, "8", &[]) {
        check_eight(&ran);
    }
}

#[test]
fn open_mpi_runs_on_eight_hosts_for_an_ordinary_user() {
    if let Some(ran) = all_sums(User::Ordinary, "8", &[]) {
        check_eight(&ran);
    }
}

/// UCX does nothing about what the network does to its packets.
#[test]
fn all_sums_are_right_on_a_network_that_loses_doubles_and_reorders() {
    let faults = ["--faults", "loss=0.5%,dup=0.5%,reorder=0.5%:1ms"];
    if let Some(ran) = all_sums(User::Ordinary, "3", &faults) {
        // The seed was drawn, so that it is printed.
        ran.ends_with(0)
            .says("3 ranks: all sums are right")
            .says("seed ");
    }
}
