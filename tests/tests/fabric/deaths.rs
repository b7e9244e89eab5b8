//! A host that is cut off, frozen or killed, in the middle of a job or of a write: what programs say,
//! and that they end or go on.

use crate::running::{Ran, Shared, User, run};
use roce_tests::programs::{built, compiled_by_or_skip, is_installed_or_skip};

const PROGRAM: &str = "tests/tests/programs/scripts/mpi_on.c";

/// An MPI job on four hosts, which goes on until the file $stop exists. `what` is a script that runs
/// when the job is at work. The job writes to the file $out.
///
/// The transport gives up after about ten seconds.
fn job(what: &str) -> Option<Ran> {
    if !is_installed_or_skip("mpirun.openmpi") {
        return None;
    }
    let program = Shared::program(compiled_by_or_skip("mpicc.openmpi", PROGRAM, &[])?);
    let script = format!(
        r#"
        folder=$(mktemp -d); trap 'rm -rf $folder' EXIT
        out=$folder/out stop=$folder/stop
        timeout -k 5 50 mpirun.openmpi -np 4 -x UCX_TLS=rc_v,ud_v,self -x UCX_RC_TIMEOUT=300ms --mca pml ucx \
            {} $stop > $out 2>&1 & job=$!
        runs() {{ kill -0 $job 2> /dev/null || {{ cat $out; exit 99; }}; }}
        said() {{ until grep -q "$1" $out; do runs; done; }}
        more() {{
            rounds=$(grep -c ^round $out)
            until [ $(grep -c ^round $out) -gt $rounds ]; do runs; done
        }}
        said '^round'
        {what}
        wait $job || echo mpirun $?
        cat $out"#,
        program.path()
    );
    run(User::Ordinary, &["--hosts", "4", "--rate", "200M"], &script)
}

/// The error of UCX, which aborts its process.
const GIVEN_UP: &str = "transport retry counter exceeded";

/// mpirun waits for a host that it can't reach, and ends when that host is back.
#[test]
fn a_job_ends_with_an_error_when_a_host_is_cut_off() {
    let what = format!("$ROCE fabric do h3 cut; said '{GIVEN_UP}'; $ROCE fabric do h3 join");
    let Some(ran) = job(&what) else { return };
    ran.ends_with(0).says(GIVEN_UP).says("Aborted (6)");
    ran.says("mpirun 134");
}

#[test]
fn a_job_ends_with_an_error_when_a_host_is_frozen_for_long() {
    let what = format!("$ROCE fabric do h3 freeze; said '{GIVEN_UP}'; $ROCE fabric do h3 thaw");
    let Some(ran) = job(&what) else { return };
    ran.ends_with(0).says(GIVEN_UP).says("Aborted (6)");
    ran.says("mpirun 134");
}

/// The job waits until nothing but retransmissions are on the way, and then goes on.
#[test]
fn a_job_survives_a_host_that_is_frozen_for_a_moment() {
    let what = "
        $ROCE fabric do h3 freeze
        while $ROCE fabric top --once | grep -q '^h[1-4] .*[0-9]M'; do runs; done
        rounds=$(grep -c ^round $out)
        $ROCE fabric do h3 thaw
        more; more; touch $stop";
    let Some(ran) = job(what) else { return };
    ran.ends_with(0).says("all sums are right");
}

#[test]
fn a_job_ends_when_a_host_is_killed() {
    let Some(ran) = job("$ROCE fabric do h3 kill") else {
        return;
    };
    ran.ends_with(0);
    // mpirun misses the daemon that it started on the host. It has either seen first that the command
    // which started the daemon ended, or that its connection to the daemon did.
    if ran.text.contains("mpirun 137") {
        ran.says("ORTE was unable to reliably start one or more daemons");
    } else {
        ran.says("ORTE has lost communication with a remote daemon");
        ran.says("mpirun 205");
    }
}

/// A write from h1 to a target on h2. `what` is a script that runs in the middle of it. Before it, h1
/// has written and flushed 4 MiB, which $before has. The file of the target is $disk.
///
/// The queue gives up after five seconds without an answer, the transport earlier.
fn write(what: &str) -> Option<Ran> {
    let program = built("nvme-rdma-under-test");
    let script = format!(
        r#"
        folder=$(mktemp -d); trap 'rm -rf $folder' EXIT
        disk=$folder/disk before=$folder/before data=$folder/data out=$folder/out
        url=nvme://10.0.0.2/nqn.2014-08.org.nvmexpress:roce
        nvme=@program
        head -c 4M /dev/urandom > $before
        head -c 64M /dev/urandom > $data
        $ROCE fabric ssh h2 "exec $nvme serve --listen 10.0.0.2 --namespace $disk,256M --json" > $folder/target &
        until grep -q listening $folder/target; do :; done
        $nvme write $url --from $before
        timeout -k 5 40 $nvme write $url --offset 4M --from $data --timeout 5 > $out 2>&1 & job=$!
        runs() {{ kill -0 $job 2> /dev/null || {{ cat $out; exit 99; }}; }}
        # More of it is there than can be outstanding, so some of it was answered.
        until cmp -s -n 8388608 -i 0:4194304 $data $disk; do runs; done
        {what}
        wait $job || echo write $?
        cat $out
        cmp -n 4194304 $before $disk && echo the first write is intact
        # The bytes that were answered, of which the message names the end.
        end=$(sed -n 's/.* to \([0-9]*\): answered, not flushed/\1/p' $out | tail -n 1)
        length=67108864; [ -z "$end" ] || length=$((end + 1 - 4194304))
        cmp -n $length -i 0:4194304 $data $disk && echo $((length >> 20)) MiB are there"#
    )
    .replace("@program", &program.to_string_lossy());
    run(User::Ordinary, &["--hosts", "2", "--rate", "100M"], &script)
}

/// The write ends with an error that says which bytes may be lost; all others are there.
#[track_caller]
fn check_failed(ran: &Ran) {
    ran.ends_with(0).says("write 1");
    ran.says("queue 1 has failed")
        .says("not known to be durable");
    ran.says("the first write is intact");
    ran.says(": answered, not flushed").says("MiB are there");
}

#[test]
fn a_write_fails_when_the_target_is_cut_off() {
    if let Some(ran) = write("$ROCE fabric do h2 cut") {
        check_failed(&ran);
    }
}

#[test]
fn a_write_fails_when_the_target_is_frozen_for_long() {
    if let Some(ran) = write("$ROCE fabric do h2 freeze") {
        check_failed(&ran);
    }
}

#[test]
fn a_write_fails_when_the_target_is_killed() {
    if let Some(ran) = write("$ROCE fabric do h2 kill") {
        check_failed(&ran);
    }
}

#[test]
fn a_write_survives_a_target_that_is_frozen_for_a_moment() {
    if !testkit::is_installed_or_skip("ps") {
        return;
    }
    let what = "
        $ROCE fabric do h2 freeze
        until $ROCE fabric ssh h2 'ps -o stat= -C nvme-rdma-under' | grep -q ^T; do runs; done
        $ROCE fabric do h2 thaw";
    let Some(ran) = write(what) else { return };
    ran.ends_with(0).says("the first write is intact");
    ran.says("64 MiB are there");
}
