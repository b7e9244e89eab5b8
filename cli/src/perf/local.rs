//! Both ends on this machine: a second process of this program is the server.

use super::args::PerfArgs;
use super::client;
use super::report::Report;
use crate::error::Error;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};

/// The server's process, which is killed when this value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two addresses of the loopback network, so that both processes can have UDP port 4791. They
/// depend on the process ID, so that parallel runs do not collide.
fn addresses() -> (IpAddr, IpAddr) {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = |last| IpAddr::V4(Ipv4Addr::new(127, 128 | (high & 0x7f), low, last));
    (address(1), address(2))
}

/// Starts a server and measures against it.
pub(super) fn run(args: &PerfArgs) -> Result<Vec<Report>, Error> {
    let (here, there) = addresses();
    let (_server, port) = start(args, there)?;
    client::run(args, &there.to_string(), port, Some(here))
}

/// Starts the server. Returns its process and its port.
fn start(args: &PerfArgs, address: IpAddr) -> Result<(Server, u16), Error> {
    let failed = |e: std::io::Error| Error::new(format_args!("starting a second process: {e}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(["perf", "--once", "--port", "0", "--server"])
        .arg(address.to_string());
    if let Some(mtu) = args.mtu {
        command.arg("--mtu").arg(mtu.to_string());
    }
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let stdout = child.stdout.take();
    let server = Server(child);
    let mut line = String::new();
    if let Some(stdout) = stdout {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    let port = line
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|port| port.parse().ok());
    let port = port.ok_or_else(|| {
        Error::new(format_args!(
            "the second process did not start to serve: {line:?}"
        ))
    })?;
    Ok((server, port))
}
