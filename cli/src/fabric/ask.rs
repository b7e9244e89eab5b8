//! `roce fabric ssh`, `do` and `top`: what programs ask of a fabric that runs.

use crate::error::Error;
use clap::Args;
use roce_fabric::{Answer, Request, ask};
use roce_trust::output;
use std::env;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// Run a command on another host of the fabric that this program runs on
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  roce fabric ssh h2 hostname
  mpirun --mca plm_rsh_agent 'roce fabric ssh' …    programs of a fabric have this set already")]
pub(super) struct SshArgs {
    #[command(flatten)]
    which: Which,

    /// The host, h2 for example
    host: String,

    /// The command, which the host's shell gets as one line; without one, a shell
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

/// Change the network, or what happens to a host's programs
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Changes:
  h1-s1 down, h1-s1 up     the link is cut, or reconnected
  h1-s1 rate=100M          the link has another rate
  h1-s1 loss=5%,dup=1%     the link has these faults, and no others; h1->s1: in one direction
  h1-s1 heal               the link has no faults
  h1 cut, h1 join          as down and up for the host's link
  h1 freeze, h1 thaw       the host's programs stop, or go on
  h1 kill                  the host's programs are killed
  s1 forget, s1 remember   the switch has no routes, or has them again")]
pub(super) struct DoArgs {
    #[command(flatten)]
    which: Which,

    /// The change: a link, a host or a switch, and its new state
    #[arg(value_name = "CHANGE", required = true, num_args = 1..)]
    words: Vec<String>,
}

/// Show ports and hosts of the fabric, live
#[derive(Args, Clone, Debug)]
pub(super) struct TopArgs {
    #[command(flatten)]
    which: Which,

    /// Print the state once
    #[arg(long)]
    once: bool,
}

#[derive(Args, Clone, Debug)]
struct Which {
    /// The process ID of the `roce fabric` that is meant, outside of it
    #[arg(long = "fabric", value_name = "PID")]
    pid: Option<u32>,
}

impl Which {
    fn ask(&self, what: &str, request: &Request) -> Result<Answer, Error> {
        match ask(self.pid, request).map_err(|error| Error::system(what, error))? {
            Answer::Failed(why) => Err(Error::system(what, why)),
            answer => Ok(answer),
        }
    }
}

pub(super) fn ssh(args: &SshArgs) -> Result<ExitCode, Error> {
    let what = format!("run a command on {}", args.host);
    let words = match &args.words[..] {
        [] => vec!["sh".to_owned()],
        // As with ssh, so that quoted words become several.
        words => vec!["sh".to_owned(), "-c".to_owned(), words.join(" ")],
    };
    let folder = env::current_dir().map_err(|error| Error::system(&what, error))?;
    let request = Request::Run {
        host: args.host.clone(),
        words,
        folder: folder.to_string_lossy().into_owned(),
    };
    match args.which.ask(&what, &request)? {
        Answer::Ended(code) => Ok(ExitCode::from(code)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

pub(super) fn change(args: &DoArgs) -> Result<ExitCode, Error> {
    let text = args.words.join(" ");
    args.which
        .ask("change the fabric", &Request::Change { text })?;
    Ok(ExitCode::SUCCESS)
}

/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[J";

pub(super) fn top(args: &TopArgs) -> Result<ExitCode, Error> {
    let live = !args.once && io::stdout().is_terminal();
    loop {
        let what = "read the state of the fabric";
        if let Answer::Done(text) = args.which.ask(what, &Request::State)? {
            let clear = if live { CLEAR } else { "" };
            // Not through `out`, which makes it harmless. An error comes again with the text.
            let _ = io::stdout().write_all(clear.as_bytes());
            output::print_stream(format_args!("{text}"))?;
        }
        if !live {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}
