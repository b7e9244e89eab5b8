//! `roce run`: an unmodified RDMA program on this stack.
//!
//! It prepends to the environment what the program needs: the library, the variables that the stack
//! reads, and, in a private mount namespace, the files that programs read directly. Then this
//! process becomes the program. So there is no parent that would have to forward signals, terminals
//! and exit codes, or that could die before its child.

mod error;
mod folder;
mod library;
mod loading;
mod namespace;
pub(crate) mod nccl;
mod parent;
mod program;
mod settings;
mod summary;
mod tree;

pub use error::RunError;
pub use settings::{DatapathName, Settings};

pub(crate) use library::{Library, fits_in_search_path, prepend};
pub(crate) use tree::DeviceFiles;

use crate::say::say;
use clap::{Args, ValueEnum};
use folder::Folder;
use loading::fits_in_ld_preload;
use namespace::{Entered, Privilege};
use parent::ProgramEnd;
use roce_verbs::Device;
use roce_verbs::observation::{Tally, Totals};
use roce_verbs::why::{WHY_PCAP_VARIABLE, WHY_VARIABLE};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The only argument of a process that is to run [`probe`].
pub(crate) const PROBE: &str = "probe-namespace";

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

The program also sees its devices in /sys/class/infiniband and /dev/infiniband: in a mount
namespace of its own, which needs no privilege where user namespaces are allowed, or by a
preloaded library, as in a container with Docker's default profile. This process becomes the
program, so signals and the exit code are the program's own. If the program does not start, the
exit code is 127 if there is no such program, 126 if it can't be started, 125 if something else
failed, 2 for wrong usage.

With --summary or --require-traffic this process stays and waits for the program: it forwards
signals, and ends with the program's exit code or signal, or with 120 as --require-traffic says.

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

    /// At the end, print on stderr the traffic of the program, and of all processes that it
    /// started
    #[arg(long)]
    pub summary: bool,

    /// End with exit code 120 if the program succeeds but no data went through this stack
    #[arg(long)]
    pub require_traffic: bool,

    /// The program, and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    pub command: Vec<OsString>,
}

/// Becomes the program; or waits for it, if there is something to report at the end.
///
/// # Errors
/// If something is missing or not permitted, or an argument is wrong.
pub fn run(args: &RunArgs) -> Result<ExitCode, RunError> {
    start(args, None)
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
///
/// # Errors
/// As [`run`].
pub(crate) fn run_observed(
    args: &RunArgs,
    observer: &mut dyn Observer,
) -> Result<ExitCode, RunError> {
    start(args, Some(observer))
}

fn start(args: &RunArgs, observer: Option<&mut dyn Observer>) -> Result<ExitCode, RunError> {
    let Some((name, arguments)) = args.command.split_first() else {
        return Err(RunError::Usage("name a program to start".to_owned()));
    };
    let notice = |text: &str| {
        if !args.quiet {
            say("roce run", text);
        }
    };
    let variables = args.settings.variables()?;
    let path = program::find(name)?;
    let library = Library::find(args.settings.library.as_deref())?;
    if let Some(faults) = args.settings.faults()? {
        notice(&format!("faults are on: {faults}"));
    }
    let had_capabilities = has_capabilities();
    let shown = show(args, &library, &notice)?;
    let as_user = matches!(
        shown,
        DeviceView::Namespace(Entered {
            privilege: Privilege::UserNamespace,
            ..
        })
    );
    if as_user && had_capabilities {
        notice(
            "the program loses this process's capabilities in its user namespace, and AF_XDP \
             needs some of them: --namespace none keeps them",
        );
    }
    if let Some(obstacle) = program::obstacle(&path, as_user) {
        notice(&obstacle);
    }
    let mut command = Command::new(&path);
    command
        .arg0(name)
        .args(arguments)
        .envs(variables)
        .envs(args.settings.nccl())
        .envs(loading::variables(&library, &shown, args.preload, &notice)?);
    let not_started = |source| RunError::NotStarted {
        program: path,
        source,
    };
    if args.summary || args.require_traffic || observer.is_some() {
        if let Some(observer) = &observer {
            command.env(WHY_VARIABLE, observer.file());
            command.envs(observer.packets().map(|file| (WHY_PCAP_VARIABLE, file)));
        }
        let tally = tally()?;
        command.envs([tally.variable()]);
        if as_user {
            let failed = |error| RunError::system("give up capabilities", error);
            parent::drop_capabilities().map_err(failed)?;
        }
        return wait_for(args, command, &tally, observer).map_err(not_started);
    }
    // The program itself reports at its end if it opened no device.
    let _tally = match reports_unused_stack(args) {
        true => {
            let mut tally = tally()?;
            let failed = |error| RunError::system("keep a descriptor open for the program", error);
            tally.keep_open().map_err(failed)?;
            command.envs([tally.variable()]);
            Some(tally)
        }
        false => None,
    };
    Err(not_started(command.exec()))
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

fn tally() -> Result<Tally, RunError> {
    Tally::new()
        .map_err(|error| RunError::system("allocate memory for the traffic counters", error))
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
    let nothing = totals.devices_opened == 0 && !args.quiet;
    let devices: Vec<String> = match totals.devices_opened {
        0 => args.settings.devices().iter().map(Device::name).collect(),
        _ => Vec::new(),
    };
    let succeeded = end == ProgramEnd::Code(0);
    if args.require_traffic && succeeded && !totals.has_traffic() {
        if args.summary {
            say("roce run", summary::text(&name, totals, &devices));
        }
        say("roce run", summary::no_traffic(&name, totals));
        return ExitCode::from(NO_TRAFFIC);
    }
    if args.summary || nothing {
        say("roce run", summary::text(&name, totals, &devices));
    }
    match end {
        ProgramEnd::Code(code) => ExitCode::from(code),
        ProgramEnd::Signal(signal) => {
            parent::die_by_signal(signal);
            // The shell's convention, in case this process survives the signal.
            ExitCode::from(128_u8.saturating_add(signal as u8))
        }
    }
}

/// How the program sees its devices' files.
enum DeviceView {
    /// In a namespace that this process has entered.
    Namespace(Entered),
    /// In a folder, with a library that the program preloads.
    Folder(Folder),
    /// In neither way: it sees the system's own files.
    System,
}

/// Makes the device files, as far as they are wanted and permitted.
fn show(args: &RunArgs, library: &Library, notice: &impl Fn(&str)) -> Result<DeviceView, RunError> {
    let devices = args.settings.devices();
    if devices.is_empty() {
        notice("no interface is up and has an address: the program will find no device");
    }
    let device_files = || Ok(DeviceFiles::of(&devices, &args.settings.datapath()?));
    let why = match args.namespace {
        Namespace::None => return Ok(DeviceView::System),
        Namespace::Preload => "--namespace preload requests no other way".to_owned(),
        Namespace::Auto | Namespace::Require => match namespace::enter(&device_files()?, library) {
            Ok(entered) => {
                report_view(&entered, args.verbose, notice);
                return Ok(DeviceView::Namespace(entered));
            }
            Err(why) => format!("not way 1 or 2, a mount namespace: {why}"),
        },
    };
    if args.namespace == Namespace::Require {
        return Err(RunError::NoNamespace(format!("{why} ({REMEDY})")));
    }
    let made = match args.preload {
        Preload::Auto => Folder::of(&device_files()?, library),
        Preload::Never => Err("--preload never".to_owned()),
    };
    match made {
        Ok(folder) => {
            if args.verbose {
                notice(&format!(
                    "way 3 of 3, a preloaded library: it shows the files of {} as /sys/class and \
                     /dev ({why})",
                    folder.root().display()
                ));
            }
            Ok(DeviceView::Folder(folder))
        }
        Err(error) => {
            notice(&format!(
                "the program does not see its devices in /sys/class/infiniband and \
                 /dev/infiniband, only through the library: {why} ({REMEDY}); not way 3, a \
                 preloaded library: {error}; --namespace none silences this message"
            ));
            Ok(DeviceView::System)
        }
    }
}

/// Settings that permit a namespace.
const REMEDY: &str = "where user namespaces are forbidden: sysctl user.max_user_namespaces, \
                      kernel.unprivileged_userns_clone, \
                      kernel.apparmor_restrict_unprivileged_userns; in a container, docs/run.md \
                      says what to allow";

fn report_view(entered: &Entered, verbose: bool, notice: &impl Fn(&str)) {
    if verbose {
        notice(&entered.to_string());
    }
    if let Err(why) = &entered.dev {
        notice(&format!(
            "the program sees no /dev/infiniband of this stack, so UCX will find no device: {why}"
        ));
    }
}

/// Whether this process has capabilities that an ordinary user lacks.
fn has_capabilities() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set != 0)
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
