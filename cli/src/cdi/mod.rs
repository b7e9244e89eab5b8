//! `roce cdi`: this stack as a device of the Container Device Interface, so that container engines give it to
//! images that know nothing of it.

mod spec;

use crate::error::Error;
use crate::run::Library;
use clap::{Args, Subcommand};
use nix::sys::stat::{Mode, umask};
use roce_trust::output::{self, say};
use roce_trust::{OwnUser, files};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spec::{Mount, Spec};

pub use spec::PRELOAD_LIST;

/// The file with [`PRELOAD_LIST`], beside the library.
pub const PRELOAD_LIST_NAME: &str = "container.ld.so.preload";

/// The endings of file names that engines read.
const ENDINGS: [&str; 2] = ["json", "yaml"];

/// Give containers RDMA devices: describe this stack to Podman, Docker and Kubernetes
#[derive(Args, Clone, Debug)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct CdiArgs {
    /// The action
    #[command(subcommand)]
    command: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Generate(GenerateArgs),
}

/// Describe this stack as a CDI device, roce.dev/nic, for any image
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sudo roce cdi generate --output /etc/cdi/roce.json      for Podman, Docker, containerd and CRI-O
  podman run --device roce.dev/nic=all IMAGE ib_write_bw  root or not, and the same with docker
  podman run --network none --device roce.dev/nic=lo …    a device for the container's loopback
  roce cdi generate                                       prints the specification

roce.dev/nic=all gives each network interface of the container a device, except for the loopback, and
roce.dev/nic=lo gives the loopback one. The container gets this command and its libraries in /opt/roce, read-only, and
an /etc/ld.so.preload by which all its programs load them. Nothing of the image changes. The image needs
glibc, not older than the libraries need, which this command reports.

Engines read files whose names end with .json or .yaml, in /etc/cdi and /var/run/cdi. Podman does so
from 3.2 on; from 5.5 on it also reads the folders of `podman --cdi-spec-dir FOLDER`, and of cdi_spec_dirs in
containers.conf. Docker does from 28.2 on, and from 25 on with {\"features\": {\"cdi\": true}} in its daemon.json.
containerd does from 2.0 on, and 1.7 with enable_cdi = true.

Write the specification again when this command or its libraries have moved.")]
struct GenerateArgs {
    /// The library to give to containers, or its folder [default: ROCE_LIBRARY_DIR, or this command's
    /// folder, or ../lib/roce relative to that]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,

    /// Write to this file instead of standard output; creates its folder
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes or prints what was asked for.
///
/// # Errors
/// If a part of this stack is missing, an argument is wrong, or the output can't be written.
pub fn run(args: &CdiArgs) -> Result<ExitCode, Error> {
    let Action::Generate(args) = &args.command;
    // Engines of other users read these files, and nothing in them is secret.
    umask(Mode::from_bits_truncate(0o022));
    let sources = Sources::find(args.library.as_deref())?;
    let text = Spec::new(sources.mounts()?).text()?;
    match &args.output {
        Some(file) => write(file, &text)?,
        None => output::print(format_args!("{text}"))?,
    }
    sources.report()?;
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    let ending = file.extension().and_then(OsStr::to_str);
    if !ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
        return Err(Error::usage(format_args!(
            "--output is {}: engines read only files whose names end with .json or .yaml, such as \
             /etc/cdi/roce.json",
            file.display()
        )));
    }
    let failed = |error: io::Error| Error::write(file, &error);
    if let Some(folder) = file.parent().filter(|folder| *folder != Path::new("")) {
        files::create_folders(folder).map_err(failed)?;
    }
    files::write(file, text).map_err(failed)
}

/// The files of this machine that a container gets.
struct Sources {
    command: PathBuf,
    library: Library,
    /// Shows programs the files of their devices.
    preload: PathBuf,
    /// Puts TCP sockets on RDMA. It is not always built.
    sockets: Option<PathBuf>,
    preload_list: PathBuf,
}

impl Sources {
    fn find(library: Option<&Path>) -> Result<Self, Error> {
        let own = env::current_exe().and_then(|own| own.canonicalize());
        let command = own.map_err(|error| Error::system("find this command's file", error))?;
        let library = Library::find(library)?;
        let preload = library.preload().map_err(|searched| {
            Error::not_run(format_args!(
                "libroce_preload.so is not there (looked for {searched}): build it with `cargo build -p \
                 roce-preload`"
            ))
        })?;
        let preload_list = preload_list(library.path())?;
        Ok(Self {
            command,
            sockets: library.sockets().ok(),
            library,
            preload,
            preload_list,
        })
    }

    fn mounts(&self) -> Result<Vec<Mount>, Error> {
        let mut mounts = vec![
            Mount::new(&self.command, spec::COMMAND)?,
            Mount::new(&self.preload_list, spec::LD_SO_PRELOAD)?,
            Mount::new(&self.preload, spec::PRELOAD)?,
        ];
        for (name, library) in self.library.links(Path::new(spec::FOLDER)) {
            mounts.push(Mount::new(library, &name.to_string_lossy())?);
        }
        if let Some(sockets) = &self.sockets {
            mounts.push(Mount::new(sockets, spec::SOCKETS)?);
        }
        Ok(mounts)
    }

    /// Says on stderr which images can use the device, and who can change what they run.
    fn report(&self) -> Result<(), Error> {
        let user = OwnUser::now();
        let (mut glibc, mut others) = (0, Vec::new());
        let sources = [&self.command, &self.preload, &self.preload_list].map(PathBuf::as_path);
        let sources = sources.into_iter().chain([self.library.path()]);
        for path in sources.chain(self.sockets.as_deref()) {
            let failed = |error| Error::system(format_args!("read {}", path.display()), error);
            let owner = fs::metadata(path).map_err(failed)?.uid();
            if !user.is_or_root(owner) {
                others.push(format!("{} ({})", path.display(), user.describe(owner)));
            }
            glibc = needed_glibc(&fs::read(path).map_err(failed)?).max(glibc);
        }
        say(
            "roce cdi",
            format_args!("images need glibc 2.{glibc} or newer"),
        );
        if !others.is_empty() {
            say(
                "roce cdi",
                format_args!(
                    "warning: other users own files that every container with this device runs: {}. Install \
                     the package, so that they are root's",
                    others.join(", ")
                ),
            );
        }
        Ok(())
    }
}

/// The file that lists the libraries for the loader. The package has it; in a build tree, it is made beside
/// the library.
fn preload_list(library: &Path) -> Result<PathBuf, Error> {
    let path = library.with_file_name(PRELOAD_LIST_NAME);
    if !fs::read(&path).is_ok_and(|text| text == PRELOAD_LIST.as_bytes()) {
        files::write(&path, PRELOAD_LIST).map_err(|error| Error::write(&path, &error))?;
    }
    Ok(path)
}

/// The minor version of glibc 2 that a program or a library needs; 0 if it names none.
fn needed_glibc(file: &[u8]) -> u32 {
    const BEGIN: &[u8] = b"\0GLIBC_2.";
    let versions = memchr::memmem::find_iter(file, BEGIN).filter_map(|at| {
        let rest = file.get(at + BEGIN.len()..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        str::from_utf8(rest.get(..digits.count())?)
            .ok()?
            .parse()
            .ok()
    });
    versions.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_glibc_counts() {
        assert_eq!(
            needed_glibc(b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE\0"),
            34
        );
        assert_eq!(needed_glibc(b"/opt/roce\n"), 0);
        assert_eq!(needed_glibc(b"\0GLIBC_2."), 0);
    }
}
