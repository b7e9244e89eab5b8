//! `roce run`: an unmodified RDMA program on this stack.
//!
//! It prepends to the environment what the program needs: the library, the variables that the stack
//! reads, and, in a private mount namespace, the files that programs read directly. Then this
//! process becomes the program. So there is no parent that would have to forward signals, terminals
//! and exit codes, or that could die before its child.

mod folder;
pub(crate) mod frameworks;
pub mod hunt;
mod library;
mod loading;
mod namespace;
pub(crate) mod parent;
mod prepared;
mod program;
mod settings;
mod sockets;
mod summary;
mod tree;
mod view;

pub use settings::{DatapathName, Settings};

pub(crate) use library::{Library, MARK, fits_in_search_path, no_links, prepend};
pub(crate) use namespace::probe as probe_namespace;
pub(crate) use tree::DeviceFiles;

use crate::error::Error;
use clap::{Args, ValueEnum};
use folder::Folder;
use hunt::HuntArgs;
use library::fits_in_ld_preload;
use parent::ProgramEnd;
use prepared::Prepared;
use roce_trust::output::{self, say};
use roce_verbs::Device;
use roce_verbs::observation::{Tally, Totals};
use roce_verbs::why::{WHY_PCAP_VARIABLE, WHY_VARIABLE};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The only argument of a process that is to run [`probe`].
pub(crate) const PROBE: &str = "probe-namespace";

/// The only argument of a process that is to run [`make_device_files`]. The library that shows the files has
/// the same.
pub(crate) const MAKE_DEVICE_FILES: &str = "make-device-files";

/// The exit code with `--require-traffic` if a program succeeds without traffic.
const NO_TRAFFIC: u8 = 120;

/// The way that the program sees its devices' files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Namespace {
    /// In a mount namespace of its own, or by a preloaded library if a namespace is not possible.
    Auto,
    /// In a mount namespace of its own; if that is not possible, the program is not started.
    Require,
    /// By a preloaded library, without a namespace.
    Preload,
    /// Not at all: it sees the system's own files.
    None,
}

/// Whether the library is loaded before the program asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preload {
    /// Into every process, so that it replaces the copies that programs bundle.
    Auto,
    /// Only into programs that load `libibverbs.so.1` themselves.
    Never,
}

/// Run an RDMA program on this stack, instead of on libibverbs and RDMA hardware
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "roce run [OPTIONS] [--] PROGRAM [ARGUMENT]...",
    after_help = "\
Examples:
  roce run ibv_devinfo                            any program that uses libibverbs.so.1
  roce run ib_write_bw -d roce_eth0 -x 1          options after the program are its own
  roce run --faults loss=1%,seed=7 -- ./server    on a network that loses packets
  roce run --pcap run-%p.pcapng -- mpirun -n 2 …  a capture of each process that mpirun starts
  roce run --devices eth0 -- sh                   a shell: all programs in it run on this stack
  roce run --require-traffic -- mpirun -n 2 …     for CI: fails if no data goes by RDMA
  roce run --summary -- ./benchmark               reports at the end what was sent and received
  roce run --sockets -- redis-server              its TCP sockets go by RDMA where the peer's do
  roce run --hunt 100 -- ./test                   runs it 100 times, with other faults each time
  roce run --hunt 50 --hunt-format junit -- ./test > hunt.xml   for CI systems
  roce run --hunt 50 --hunt-with errors --hunt-accept 1 -- ./test   calls fail, and exit code 1 is right

The program also sees its devices in /sys/class/infiniband and /dev/infiniband: in a mount
namespace of its own, which needs no privilege where user namespaces are allowed, or by a
preloaded library, as in a container with Docker's default profile. This process becomes the
program, so signals and the exit code are the program's own. If the program does not start, the
exit code is 127 if there is no such program, 126 if it can't be started, 125 if something else
failed, 2 for wrong usage.

With --summary or --require-traffic this process stays and waits for the program: it forwards
signals, and ends with the program's exit code or signal, or with 120 as --require-traffic says.

With --hunt, too, this process stays. Its exit code is 0 if no run failed, and 1 if one did; 120 if
the test opens no device. What was drawn, and how to repeat it, is in the report.

The program does not see RDMA hardware of this machine, because a process has one libibverbs. To
use the hardware, run the program without `roce run`."
)]
pub struct RunArgs {
    /// The settings for the program
    #[command(flatten)]
    pub settings: Settings,

    /// How the program sees the files of its devices, /sys/class/infiniband and /dev/infiniband
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub namespace: Namespace,

    /// Whether to preload the library, so that it replaces renamed copies of libibverbs in
    /// wheels and packages
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub preload: Preload,

    /// Do not warn about settings that can keep the program from finding devices
    #[arg(long, short)]
    pub quiet: bool,

    /// Report how the program sees its devices, and why not in a better way
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,

    /// Put the program's TCP sockets on RDMA, and those of all programs that it starts: rsockets,
    /// as rdma-core's librspreload does. WORDS, separated by commas: log, only (no TCP), loopback,
    /// quiet, wait=MILLISECONDS (ROCE_SOCKETS)
    #[arg(long, value_name = "WORDS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub sockets: Option<String>,

    /// At the end, print on stderr the traffic of the program, and of all processes that it
    /// started
    #[arg(long)]
    pub summary: bool,

    /// End with exit code 120 if the program succeeds but none of its operations went through this
    /// stack
    #[arg(long)]
    pub require_traffic: bool,

    /// Hunting for faults that a test does not survive
    #[command(flatten)]
    pub hunt: HuntArgs,

    /// The program, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required = true)]
    pub command: Vec<OsString>,
}

/// Becomes the program; or waits for it, if there is something to report at the end.
pub fn run(args: &RunArgs) -> Result<ExitCode, Error> {
    match args.hunt.runs {
        Some(runs) => hunt::run(args, runs),
        None => start(args, None),
    }
}

/// Someone who watches a program while it runs, and reports when it has ended.
pub(crate) trait Observer {
    /// The file to which the program's processes write why their QPs fail.
    fn file(&self) -> &Path;

    /// The file to which they write the packets of these QPs, if it is wanted.
    fn packets(&self) -> Option<&Path>;

    /// The program is about to start.
    fn starts(&mut self);

    /// The program is about to get a signal that another process has sent.
    fn may_end(&mut self);

    /// The program has ended, and whether it succeeded.
    fn has_ended(&mut self, succeeded: bool, totals: &Totals);
}

/// Waits for the program, and tells the observer of its start and end.
pub(crate) fn run_observed(args: &RunArgs, observer: &mut dyn Observer) -> Result<ExitCode, Error> {
    start(args, Some(observer))
}

fn start(args: &RunArgs, observer: Option<&mut dyn Observer>) -> Result<ExitCode, Error> {
    let prepared = Prepared::new(args)?;
    let mut command = prepared.command();
    if args.summary || args.require_traffic || observer.is_some() {
        if let Some(observer) = &observer {
            command.env(WHY_VARIABLE, observer.file());
            command.envs(observer.packets().map(|file| (WHY_PCAP_VARIABLE, file)));
        }
        let tally = tally()?;
        command.envs([tally.variable()]);
        prepared.let_programs_open_descriptors()?;
        return wait_for(args, command, &tally, observer)
            .map_err(|error| prepared.not_started(error));
    }
    // The program itself reports at its end if it opened no device.
    let _tally = match reports_unused_stack(args) {
        true => {
            let tally = tally()?;
            command.envs([tally.variable()]);
            Some(tally)
        }
        false => None,
    };
    Err(prepared.not_started(command.exec()))
}

/// Runs the program, and reports its end. Returns this process's exit code.
fn wait_for(
    args: &RunArgs,
    command: Command,
    tally: &Tally,
    mut observer: Option<&mut dyn Observer>,
) -> io::Result<ExitCode> {
    if let Some(observer) = &mut observer {
        observer.starts();
    }
    let end = parent::run(command, &mut || {
        if let Some(observer) = &mut observer {
            observer.may_end();
        }
    })?;
    let totals = tally.totals();
    if let Some(observer) = observer {
        observer.has_ended(end == ProgramEnd::Code(0), &totals);
    }
    Ok(report_end(args, &args.command[0], end, &totals))
}

fn tally() -> Result<Tally, Error> {
    Tally::new().map_err(|error| Error::system("allocate memory for the traffic counters", error))
}

/// Whether the program reports at its end that it opened no device. An interactive shell does not,
/// since its user expects that.
fn reports_unused_stack(args: &RunArgs) -> bool {
    const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh"];
    let name = args
        .command
        .first()
        .map(Path::new)
        .and_then(Path::file_name);
    let is_shell = SHELLS.iter().any(|shell| name == Some(shell.as_ref()));
    let is_interactive = is_shell && args.command.len() == 1;
    !args.quiet && args.preload == Preload::Auto && !is_interactive
}

/// Prints what the program did. Returns this process's exit code.
fn report_end(args: &RunArgs, name: &OsStr, end: ProgramEnd, totals: &Totals) -> ExitCode {
    let name = name.to_string_lossy();
    let devices: Vec<String> = match totals.devices_opened {
        // They were listed before the program ran. An error now must not hide how the program ended.
        0 => args
            .settings
            .devices()
            .iter()
            .flatten()
            .map(Device::name)
            .collect(),
        _ => Vec::new(),
    };
    let succeeded = end == ProgramEnd::Code(0);
    let has_listed = succeeded && totals.only_lists();
    let nothing = totals.misses_device(succeeded) && !args.quiet;
    if args.require_traffic && succeeded && !totals.has_traffic() {
        if args.summary {
            say(
                "roce run",
                summary::text(&name, totals, &devices, has_listed),
            );
        }
        say("roce run", summary::no_traffic(&name, totals));
        return ExitCode::from(NO_TRAFFIC);
    }
    if args.summary || nothing {
        say(
            "roce run",
            summary::text(&name, totals, &devices, has_listed),
        );
    }
    end.repeat()
}

/// Tries to enter a user namespace, and prints why if it can't. A process can't leave a namespace
/// that it entered, so [`run`] tries it in another process first.
pub(crate) fn probe() -> ExitCode {
    match namespace::enter_as_user(&DeviceFiles::none(), None) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say("roce", &error);
            ExitCode::FAILURE
        }
    }
}

/// Makes the files of the devices, for a program that was not started by `roce run` but preloads the library
/// that shows them, and prints their folder.
pub(crate) fn make_device_files() -> ExitCode {
    match device_folder().and_then(|folder| {
        let line = folder.root().display();
        Ok(output::print_line(line)?)
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(
                "roce",
                format_args!("no files in /sys/class/infiniband and /dev/infiniband: {error}"),
            );
            ExitCode::FAILURE
        }
    }
}

fn device_folder() -> Result<Folder, Error> {
    let settings = Settings::default();
    let library = Library::find(None)?;
    let files = DeviceFiles::of(&settings.devices()?, &settings.datapath()?);
    Folder::of(&files, &library).map_err(Error::new)
}
