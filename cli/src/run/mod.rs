//! `roce run`: an unmodified RDMA program on this stack.
//!
//! What the program needs is put in front of what the system has: the library, the variables
//! that the stack reads, and, in a mount namespace of its own, the files that programs read
//! behind the library's back. Then this process becomes the program: there is no parent that
//! would have to forward signals, terminals and exit codes, or that could die before its child.

mod error;
mod library;
mod namespace;
mod program;
mod settings;
mod tree;

pub use error::RunError;
pub use settings::{DatapathName, Settings};

pub(crate) use library::{Library, can_be_searched, prepend};
pub(crate) use tree::MadeUp;

use crate::say::say;
use clap::{Args, ValueEnum};
use namespace::{Entered, Privilege};
use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The only argument of a process that shall [`probe`].
pub(crate) const PROBE: &str = "probe-namespace";

/// Whether the program gets a mount namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Namespace {
    /// If it is allowed; otherwise it is said what the program does not see.
    Auto,
    /// Or the program is not started.
    Require,
    /// It sees the system's own files.
    None,
}

/// Start an RDMA program on this stack, in the place of libibverbs and RDMA hardware
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "roce run [OPTIONS] [--] PROGRAM [ARGUMENT]...",
    after_help = "\
Examples:
  roce run ibv_devinfo                            any program that uses libibverbs.so.1
  roce run ib_write_bw -d roce_eth0 -x 1          options after the program are its own
  roce run --faults loss=1%,seed=7 -- ./server    on a network that loses packets
  roce run --pcap run-%p.pcapng -- mpirun -n 2 …  with what a program starts, each captured
  roce run --devices eth0 -- sh                   a shell in which all programs run so

The program sees its devices in /sys/class/infiniband, too: in a mount namespace of its own,
which takes no privilege where user namespaces are allowed. This process becomes the program,
so signals and the exit code are the program's own. Otherwise the exit code is 127 if there is
no such program, 126 if it can't be started, 125 if something else failed, 2 for wrong usage.

RDMA hardware of this machine is not seen under `roce run`: a process has one libibverbs. Run
the program without it to use that."
)]
pub struct RunArgs {
    /// What is chosen for the program
    #[command(flatten)]
    pub settings: Settings,

    /// Whether the program sees made-up files in /sys/class/infiniband
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub namespace: Namespace,

    /// Say nothing of what may keep the program from finding devices
    #[arg(long, short)]
    pub quiet: bool,

    /// Say by which means the program sees its devices, and why not by a better one
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,

    /// The program, and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    pub command: Vec<OsString>,
}

/// Becomes the program. Returns only if that fails.
///
/// # Errors
/// If something is missing or forbidden, or an argument is wrong.
pub fn run(args: &RunArgs) -> Result<Infallible, RunError> {
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
    let entered = enter(args, &library, &notice)?;
    let as_user = matches!(
        entered,
        Some(Entered {
            privilege: Privilege::UserNamespace,
            ..
        })
    );
    if as_user && had_capabilities {
        notice(
            "the capabilities of this process count for nothing in its user namespace, and AF_XDP \
             takes some: --namespace none keeps them",
        );
    }
    if let Some(obstacle) = program::obstacle(&path, as_user) {
        notice(&obstacle);
    }
    let source = Command::new(&path)
        .arg0(name)
        .args(arguments)
        .envs(variables)
        .envs([loading(&library, entered.as_ref())?])
        .exec();
    Err(RunError::NotStarted {
        program: path,
        source,
    })
}

/// Enters the namespace, as far as it is wanted and allowed.
fn enter(
    args: &RunArgs,
    library: &Library,
    notice: &impl Fn(&str),
) -> Result<Option<Entered>, RunError> {
    let devices = args.settings.devices();
    if devices.is_empty() {
        notice("no interface is up and has an address: the program will find no device");
    }
    if args.namespace == Namespace::None {
        return Ok(None);
    }
    let why = match namespace::enter(&MadeUp::of(&devices, &args.settings.datapath()?), library) {
        Ok(entered) => {
            if args.verbose {
                notice(&entered.to_string());
            }
            if let Err(why) = &entered.dev {
                notice(&format!(
                    "the program sees no /dev/infiniband of this stack, so UCX will find no \
                     device: {why}"
                ));
            }
            return Ok(Some(entered));
        }
        Err(why) => format!(
            "{why} (where user namespaces are forbidden: sysctl user.max_user_namespaces, \
             kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in \
             a container, docs/run.md says what to allow)"
        ),
    };
    if args.namespace == Namespace::Require {
        return Err(RunError::NoNamespace(why));
    }
    notice(&format!(
        "the program does not see its devices in /sys/class/infiniband, only through the library: \
         {why}; --namespace none says that this is known"
    ));
    Ok(None)
}

/// The variable that makes the loader take the library.
fn loading(
    library: &Library,
    entered: Option<&Entered>,
) -> Result<(&'static str, OsString), RunError> {
    let search = |folder: &Path| {
        let before = env::var_os("LD_LIBRARY_PATH");
        ("LD_LIBRARY_PATH", prepend(folder, before.as_deref()))
    };
    if let Some(entered) = entered {
        return Ok(search(&entered.links));
    }
    if let Some(folder) = library.folder().filter(|folder| can_be_searched(folder)) {
        return Ok(search(folder));
    }
    // No folder has it under its right name, and one that was made would have to be removed
    // by somebody. But the loader takes a library that is loaded already for the one of its
    // inner name.
    let path = library.path();
    let is_separator = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n');
    let bytes = path.as_os_str().as_encoded_bytes();
    if !can_be_searched(path) || bytes.iter().any(is_separator) {
        let library = path.to_owned();
        return Err(RunError::NoLinks { library });
    }
    let before: Option<OsString> = env::var_os("LD_PRELOAD");
    let before = before.as_deref().map(OsStr::new);
    Ok(("LD_PRELOAD", prepend(path, before)))
}

/// Whether this process may do more than an ordinary user's.
fn has_capabilities() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set != 0)
}

/// Tries a user namespace and says why there is none: a process that has entered one can't go
/// back, so [`run`] has another one try first.
pub(crate) fn probe() -> ExitCode {
    match namespace::enter_as_user(&MadeUp::none(), None) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say("roce", &error);
            ExitCode::FAILURE
        }
    }
}
