//! Everything that is prepared before a program starts: its path, the library, the environment, and the files of
//! its devices.

use super::RunArgs;
use super::library::Library;
use super::view::{self, DeviceView};
use super::{loading, parent, program, sockets};
use crate::error::Error;
use roce_trust::output::say;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// A program that can be started, as often as wanted.
pub(super) struct Prepared {
    path: PathBuf,
    /// The name by which the program was asked for, and its arguments.
    words: Vec<OsString>,
    variables: Vec<(&'static str, OsString)>,
    /// Whether this process has entered a user namespace.
    as_user: bool,
}

impl Prepared {
    /// Finds the program and the library, and makes the device files, for which this process may
    /// enter a namespace.
    pub(super) fn new(args: &RunArgs) -> Result<Self, Error> {
        let Some(name) = args.command.first() else {
            return Err(Error::usage("name a program to start"));
        };
        let notice = |text: &str| {
            if !args.quiet {
                say("roce run", text);
            }
        };
        let mut variables = args.settings.variables()?;
        if let Some(words) = &args.sockets {
            sockets::check(words)?;
        }
        let path = program::find(name)?;
        let mut identity = program::Identity::of(&path);
        let library = Library::find(args.settings.library.as_deref())?;
        if let Some(faults) = args.settings.faults()? {
            notice(&format!("faults are on: {faults}"));
        }
        let had_capabilities = has_capabilities();
        let shown = view::make(args, &library, &notice)?;
        let as_user =
            matches!(&shown, DeviceView::Namespace(entered) if entered.mount_denied.is_some());
        if as_user && had_capabilities {
            notice(
                "the program loses this process's capabilities in its user namespace, and AF_XDP \
                 needs some of them: --namespace none keeps them",
            );
        }
        if as_user {
            identity = identity.in_user_namespace();
        }
        if let Some(obstacle) = program::obstacle(&path, identity) {
            notice(&obstacle);
        }
        variables.extend(args.settings.frameworks()?);
        let sockets = args.sockets.as_ref();
        let on_rdma = sockets.is_some();
        variables.extend(loading::variables(
            &library,
            &shown,
            args.preload,
            on_rdma,
            &notice,
        )?);
        let words = sockets.filter(|words| !words.is_empty());
        variables.extend(words.map(|words| ("ROCE_SOCKETS", words.into())));
        Ok(Self {
            path,
            words: args.command.clone(),
            variables,
            as_user,
        })
    }

    /// A command that starts the program.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .arg0(self.name())
            .args(self.words.iter().skip(1))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The name by which the program was asked for.
    pub(super) fn name(&self) -> &OsStr {
        self.words
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// Lets programs open this process's descriptors by `/proc`, which needs as few rights here as
    /// they have.
    pub(super) fn let_programs_open_descriptors(&self) -> Result<(), Error> {
        match self.as_user {
            true => parent::drop_capabilities()
                .map_err(|error| Error::system("give up capabilities", error)),
            false => Ok(()),
        }
    }

    /// The error that the program can't be started.
    pub(super) fn not_started(&self, source: io::Error) -> Error {
        let source = match source.kind() {
            // The program was there before.
            io::ErrorKind::NotFound if self.path.exists() => io::Error::other(format!(
                "{source}: it names an interpreter or a loader that is not there"
            )),
            _ => source,
        };
        program::not_started(&self.path, &source)
    }
}

/// Whether this process has capabilities that an ordinary user lacks.
fn has_capabilities() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set != 0)
}
