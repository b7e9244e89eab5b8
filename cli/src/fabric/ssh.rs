//! `roce fabric ssh`: a command on another host, as MPI starts its daemons.

use super::error::FabricCommandError;
use clap::Args;
use roce_fabric::{Answer, Request, ask};
use std::env;
use std::process::ExitCode;

/// Run a command on another host of the fabric that this program runs on
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  roce fabric ssh h2 hostname
  mpirun --mca plm_rsh_agent 'roce fabric ssh' …    it is set already in a fabric")]
pub(super) struct SshArgs {
    /// The host, h2 for example
    host: String,

    /// The command, which the host's shell gets as one line; without one, a shell
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(super) fn run(args: &SshArgs) -> Result<ExitCode, FabricCommandError> {
    let system = |source| FabricCommandError::System {
        what: format!("run a command on {}", args.host),
        source,
    };
    let words = match &args.words[..] {
        [] => vec!["sh".to_owned()],
        // As with ssh, so that quoted words become several.
        words => vec!["sh".to_owned(), "-c".to_owned(), words.join(" ")],
    };
    let folder = env::current_dir().map_err(system)?;
    let request = Request::Run {
        host: args.host.clone(),
        words,
        folder: folder.to_string_lossy().into_owned(),
    };
    match ask(&request).map_err(system)? {
        Answer::Ended(code) => Ok(ExitCode::from(code)),
        Answer::Failed(why) => Err(system(std::io::Error::other(why))),
    }
}
