//! Profiles both ends of `roce perf` with the kernel's `perf`.

use super::stacks::{self, Stack};
use crate::output::output;
use crate::peers::serve;
use crate::roce::PROFILE;
use crate::veth::{ADDRESSES, VethPair};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Samples per second: not a divisor of timer frequencies.
const FREQUENCY: &str = "1999";

/// The profiles of both ends.
#[derive(Debug)]
pub struct Profiles {
    /// The end that writes.
    pub sender: Vec<Stack>,
    /// The end that is written to.
    pub receiver: Vec<Stack>,
    /// Payload bits per second while the samples were taken.
    pub bits_per_second: f64,
}

/// Builds the `roce` command with optimisation and with frame pointers, which `perf` needs to find
/// stacks. Returns its path.
///
/// # Errors
/// If cargo fails.
pub fn build() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = own
        .parent()
        .and_then(Path::parent)
        .ok_or("this program lies in no target folder")?
        .join("frame-pointers");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--profile", PROFILE, "--quiet", "-p", "roce"]);
    cargo.arg("--target-dir").arg(&target);
    cargo.env("RUSTFLAGS", "-C force-frame-pointers=yes");
    output(cargo)?;
    Ok(target.join(PROFILE).join("roce"))
}

/// Profiles WRITEs of `size` bytes from host 1 to host 0, with a datapath as in `ROCE_DATAPATH`.
/// perf writes its files to `folder`.
///
/// # Errors
/// If an end or perf fails.
pub fn write(
    pair: &VethPair,
    roce: &Path,
    folder: &Path,
    datapath: &str,
    size: usize,
    seconds: u32,
) -> Result<Profiles, String> {
    let [sender, receiver] = ["sender", "receiver"].map(|end| folder.join(format!("{end}.perf")));
    let mut server = perf(pair, 0, &receiver, roce);
    server.env("ROCE_DATAPATH", datapath);
    server.args(["--once", "--server", ADDRESSES[0]]);
    let server = serve(server, "listening")?;
    let mut client = perf(pair, 1, &sender, roce);
    client.env("ROCE_DATAPATH", datapath);
    client.args([ADDRESSES[0], "--op", "write", "--json"]);
    client.args(["--iterations", "100", "--size", &size.to_string()]);
    client.args(["--duration", &(1000 * seconds).to_string()]);
    let json: serde_json::Value =
        serde_json::from_str(&output(client)?).map_err(|e| format!("roce perf: {e}"))?;
    server.wait()?;
    let name = roce.file_name().unwrap_or_default().to_string_lossy();
    Ok(Profiles {
        sender: stacks::parse(&script(&sender)?, &name),
        receiver: stacks::parse(&script(&receiver)?, &name),
        bits_per_second: json["rows"][0]["bits_per_second"]
            .as_f64()
            .ok_or("roce perf gave no rate")?,
    })
}

/// `perf record` of `roce perf` on a host.
fn perf(pair: &VethPair, host: usize, file: &Path, roce: &Path) -> Command {
    let mut command = pair.command(host, "perf");
    command.args(["record", "--quiet", "-g", "-e", "cpu-clock"]);
    command.args(["-F", FREQUENCY, "-o"]).arg(file);
    command.arg("--").arg(roce).arg("perf");
    command
}

fn script(file: &Path) -> Result<String, String> {
    let mut command = Command::new("perf");
    command
        .args(["script", "-F", "comm,ip,sym,dso", "-i"])
        .arg(file);
    output(command)
}
