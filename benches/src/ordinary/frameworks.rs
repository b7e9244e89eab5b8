//! UCX and Open MPI between two hosts, which are two network namespaces.

use crate::frameworks::Figures;
use crate::output::output;
use crate::peers::serve;
use crate::veth::{ADDRESSES, VethPair};
use std::path::Path;
use std::process::Command;

/// The bits of 1 MiB, in which `ucx_perftest` counts what it calls MB.
const MIB_BITS: f64 = 8.0 * 1024.0 * 1024.0;

/// UCX's transports over this stack, and over TCP. Shared memory is left out, which UCX would take since
/// both hosts have one kernel.
fn transports(tcp: bool) -> [(&'static str, &'static str); 1] {
    [match tcp {
        true => ("UCX_TLS", "tcp,self"),
        false => ("UCX_TLS", "rc_v,ud_v,tcp,self"),
    }]
}

/// A program on host 0 or 1, on this stack or over TCP.
fn command(pair: &VethPair, roce: &Path, host: usize, program: &str, tcp: bool) -> Command {
    // Without stdbuf, it would buffer its output to a pipe.
    let mut command = pair.command(host, "stdbuf");
    command.arg("-oL");
    if !tcp {
        command.arg(roce).args(["run", "-q", "--"]);
    }
    command.arg(program);
    command.envs(transports(tcp)).env("ROCE_DATAPATH", "udp");
    command
}

/// UCX's tag messages between the two hosts.
pub(super) fn measure_ucx(pair: &VethPair, roce: &Path, tcp: bool) -> Result<Figures, String> {
    // The columns: iterations, typical, average and overall latency, average and overall MB/s.
    let figure = |test, size, count, column| {
        let server = command(pair, roce, 0, "ucx_perftest", tcp);
        let server = serve(server, "Waiting for connection")?;
        let mut client = command(pair, roce, 1, "ucx_perftest", tcp);
        client.args([ADDRESSES[0], "-t", test, "-s", size, "-n", count]);
        client.args(["-w", "100", "-f", "-v"]);
        let text = output(client)?;
        server.wait()?;
        let line = text.lines().last().unwrap_or_default();
        let figure = line.split(',').nth(column);
        let figure = figure.and_then(|figure| figure.parse::<f64>().ok());
        figure.ok_or_else(|| format!("ucx_perftest gave no figures:\n{text}"))
    };
    Ok(Figures {
        latency: Some(figure("tag_lat", "8", "20000", 1)?),
        medium: Some(MIB_BITS * figure("tag_bw", "65536", "20000", 5)?),
        large: Some(MIB_BITS * figure("tag_bw", "1048576", "1500", 5)?),
        ..Figures::default()
    })
}

/// Open MPI's messages between two ranks, one on each host.
pub(super) fn measure_open_mpi(
    pair: &VethPair,
    roce: &Path,
    program: &Path,
    tcp: bool,
) -> Result<Figures, String> {
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/src/frameworks/agent.sh");
    let mut command = pair.command(0, "unshare");
    command.args([
        "--uts",
        "sh",
        "-c",
        "hostname $0 && exec \"$@\"",
        ADDRESSES[0],
    ]);
    command.args(["mpirun.openmpi", "-n", "2", "--host", &ADDRESSES.join(",")]);
    // Otherwise, both daemons bind their rank to the first processor.
    command.args(["--bind-to", "none"]);
    command.args(["--mca", "plm_rsh_agent", &format!("sh {agent}")]);
    command.args(["--mca", "oob_tcp_if_include", "veth0"]);
    command.args(["--mca", "btl_tcp_if_include", "veth0"]);
    let pml: &[&str] = match tcp {
        true => &["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"],
        false => &["--mca", "pml", "ucx"],
    };
    command.args(pml);
    for (name, value) in transports(tcp) {
        command.args(["-x", &format!("{name}={value}")]);
    }
    if !tcp {
        command.arg(roce).args(["run", "-q", "--"]);
    }
    command.arg(program);
    command.env("PEER_NAMESPACE", pair.namespace(1).path());
    for variable in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(variable, "1");
    }
    Figures::of("Open MPI", &output(command)?)
}
