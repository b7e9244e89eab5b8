//! Open MPI on eight hosts, which it reaches by `roce fabric ssh`.

use crate::running::{Ran, Shared, User, run};
use roce_tests::programs::{compiled_by_or_skip, is_installed_or_skip};

const PROGRAM: &str = "tests/tests/programs/scripts/mpi.c";

/// A program whose ranks, one on each host, check the sums of collectives, messages and puts. It may
/// use nothing but RDMA between hosts.
fn all_sums(user: User) -> Option<Ran> {
    if !is_installed_or_skip("mpirun.openmpi") {
        return None;
    }
    let program = Shared::program(compiled_by_or_skip("mpicc.openmpi", PROGRAM, &[])?);
    let script = format!(
        "mpirun.openmpi -np 8 -x UCX_TLS=rc_v,ud_v,self --mca pml ucx --mca osc ucx \
         sh -c 'echo on $(hostname); exec {}'",
        program.path()
    );
    run(user, &["--hosts", "8", "--rate", "200M"], &script)
}

fn check(ran: &Ran) {
    ran.ends_with(0).says("8 ranks: all sums are right");
    for host in 1..=8 {
        ran.says(&format!("on h{host}\n"));
    }
}

#[test]
fn open_mpi_runs_on_eight_hosts() {
    if let Some(ran) = all_sums(User::Own) {
        check(&ran);
    }
}

#[test]
fn open_mpi_runs_on_eight_hosts_for_an_ordinary_user() {
    if let Some(ran) = all_sums(User::Ordinary) {
        check(&ran);
    }
}
