//! `roce why`: why requests failed.
//!
//! With a program, runs it as `roce run` does, and explains at the end each QP that failed. With a
//! number, explains the code that a failed completion carries in `vendor_err`.

use crate::run::{self, Namespace, Preload, RunArgs, RunError, Settings};
use crate::say::say;
use crate::top::plain;
use clap::Args;
use roce_verbs::observation::watch_processes;
use roce_verbs::why::{KINDS, Kind, kind_of_code};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Explain why requests of a program failed, or what a code in vendor_err means
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "roce why [OPTIONS] [--] PROGRAM [ARGUMENT]...\n       roce why CODE\n       roce why --pid PID",
    after_help = "\
Examples:
  roce why ib_write_bw -d roce_eth0 -x 1 server    runs it, and explains each QP that failed
  roce why --faults loss=100% -- ./client server   what it looks like if nothing arrives
  roce why --pid 4711                              the failed QPs of a running process
  roce why 0x211                                   the meaning of vendor_err 0x211 (529)
  roce why list                                    all codes

The program runs as with `roce run`, and the exit code is its own. Only the first failure of each
QP is explained, because others follow from it: requests that are flushed, for instance. What the
peer found is in the peer's own report, so run both ends with `roce why`.

Programs that are started by others: ROCE_WHY=stderr, or ROCE_WHY=FILE."
)]
pub struct WhyArgs {
    /// The settings for the program
    #[command(flatten)]
    pub settings: Settings,

    /// Explain the failed QPs of this running process, of the same user
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// The program and its arguments; or a code, in hexadecimal with 0x, or decimal
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "pid"
    )]
    pub command: Vec<OsString>,
}

/// Runs the program and explains its failures, or explains a code.
///
/// # Errors
/// If the program can't be started, or there is no such code.
pub fn run(args: &WhyArgs) -> Result<ExitCode, RunError> {
    if let Some(pid) = args.pid {
        return explain_process(pid);
    }
    if let [only] = args.command.as_slice()
        && let Some(only) = only.to_str()
    {
        if only == "list" {
            return print(&list());
        }
        if let Some(code) = parse_code(only) {
            let Some(kind) = kind_of_code(code) else {
                return Err(RunError::Usage(format!(
                    "no failure has the code {only}; `roce why list` prints all"
                )));
            };
            return print(&meaning(code, kind));
        }
    }
    explain_program(args)
}

fn print(text: &str) -> Result<ExitCode, RunError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| RunError::system("print", error))?;
    Ok(ExitCode::SUCCESS)
}

fn parse_code(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn meaning(code: u32, kind: &Kind) -> String {
    let mut text = format!("{code:#x}: {}", kind.meaning);
    if let Some(way) = kind.way(code) {
        text.push_str(&format!(": {way}"));
    }
    text.push('\n');
    if !kind.event.is_empty() {
        text.push_str(&format!("  reported by {}\n", kind.event));
    }
    for (number, line) in kind.advice_for(code).enumerate() {
        let label = if number == 0 { "do" } else { "" };
        text.push_str(&format!("  {label:<11} {line}\n"));
    }
    text
}

fn list() -> String {
    let mut text = String::new();
    for kind in KINDS {
        let Kind {
            number,
            event,
            meaning,
            ..
        } = kind;
        match kind.ways {
            [] => text.push_str(&format!("{number:#x}0  {event:<24}  {meaning}\n")),
            ways => {
                for (way, how) in ways {
                    let line = format!("{number:#x}{way:x}  {event:<24}  {meaning}: {how}\n");
                    text.push_str(&line);
                }
            }
        }
    }
    text
}

/// The code of [`Cause::Application`].
const MOVED: u32 = 0x520;

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

fn explain_process(pid: u32) -> Result<ExitCode, RunError> {
    let found =
        watch_processes(PATIENCE).map_err(|error| RunError::system("look for processes", error))?;
    let Some(process) = found.snapshots.iter().find(|process| process.pid == pid) else {
        return Err(RunError::Usage(format!(
            "process {pid} has no device open in this network namespace, or is another user's; `roce \
             top --once` lists those that have"
        )));
    };
    let mut text = String::new();
    for device in &process.devices {
        for qp in &device.qps {
            // An application that moved its QP to the error state knows why.
            let (Some(why), Some(code)) = (&qp.why, qp.why_code.filter(|code| *code != MOVED))
            else {
                continue;
            };
            // The texts are another process's.
            let (device, service) = (plain(&device.device, 64), plain(&qp.service, 16));
            let why = plain(why, 1024);
            text.push_str(&format!(
                "QP {:#08x} of {device}, {service}: {why}\n",
                qp.qpn
            ));
            text.push_str(&kind_of_code(code).map_or_else(String::new, |k| meaning(code, k)));
        }
    }
    if text.is_empty() {
        text = format!("no QP of process {pid} has failed\n");
    }
    print(&text)
}

fn explain_program(args: &WhyArgs) -> Result<ExitCode, RunError> {
    let report = Report::create()?;
    let run_args = RunArgs {
        settings: args.settings.clone(),
        namespace: Namespace::Auto,
        preload: Preload::Auto,
        quiet: false,
        verbose: false,
        summary: false,
        require_traffic: false,
        command: args.command.clone(),
    };
    run::run_explained(&run_args, &report.path, || report.print())
}

/// The file to which the program's processes write why their QPs failed.
struct Report {
    path: PathBuf,
}

impl Report {
    fn create() -> Result<Self, RunError> {
        let failed = |error| RunError::system("create a file for the report", error);
        // Nobody else can guess the name.
        let random = getrandom::u64()
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(failed)?;
        let path = std::env::temp_dir().join(format!("roce-why-{random:016x}"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&path).map_err(failed)?;
        Ok(Self { path })
    }

    /// Prints the report, and removes the file: this process may end by the program's signal.
    fn print(&self) {
        match fs::read(&self.path) {
            Ok(text) if text.is_empty() => say("roce why", "no QP failed"),
            Ok(text) => {
                let _ = std::io::stderr().write_all(&text);
            }
            Err(error) => say(
                "roce why",
                format!("reading the report {}: {error}", self.path.display()),
            ),
        }
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_hexadecimal_or_decimal() {
        assert_eq!(parse_code("0x211"), Some(0x211));
        assert_eq!(parse_code("529"), Some(0x211));
        assert_eq!(parse_code("./program"), None);
    }

    #[test]
    fn the_meaning_of_a_code_names_its_status_and_advice() {
        let kind = kind_of_code(0x211).expect("a kind");
        let text = meaning(0x211, kind);
        let first = "0x211: the peer does not answer: the peer has never answered this QP\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("IBV_WC_RETRY_EXC_ERR"), "{text}");
        assert!(text.contains("4791"), "{text}");
    }

    #[test]
    fn each_line_of_the_list_has_a_code_that_is_explained() {
        for line in list().lines() {
            let code = parse_code(line.split(' ').next().unwrap_or("")).expect("a code");
            let kind = kind_of_code(code).expect("a kind");
            let first = meaning(code, kind);
            let first = first.lines().next().expect("a line");
            let (_, words) = first.split_once(": ").expect("a meaning");
            assert!(line.ends_with(words), "{line}: {first}");
        }
    }

    #[test]
    fn only_codes_that_occur_are_explained() {
        for code in [0, 0x210, 0x213, 0x411 + 7, 0x430 + 1, u32::MAX] {
            assert!(kind_of_code(code).is_none(), "{code:#x}");
        }
        assert_eq!(kind_of_code(MOVED).map(|kind| kind.number), Some(0x52));
        assert_eq!(roce_verbs::why::Cause::Application.code(), MOVED);
    }
}
