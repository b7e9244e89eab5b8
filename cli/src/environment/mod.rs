//! `roce env`: the environment that `roce run` sets, for programs that are started in other ways.

mod export;
mod format;

use crate::error::Error;
use crate::run::{DeviceFiles, Library, Settings, fits_in_search_path, no_links};
use clap::{Args, ValueEnum};
use roce_trust::output;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use format::{Environment, Variable};

/// The output language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Commands for a POSIX shell.
    #[default]
    Shell,
    /// One object.
    Json,
    /// ENV instructions.
    Dockerfile,
    /// Lines for $GITHUB_ENV.
    Github,
}

/// Print the environment in which programs run on this stack
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  eval \"$(roce env)\"                         for this shell and what it starts
  eval \"$(roce env --write /tmp/rdma)\"       also if no library is installed: makes links to it
  roce env --format github >> $GITHUB_ENV    all further steps of a job
  roce env --format dockerfile               lines for a Dockerfile
  roce env --json                            the same as JSON

Programs then load the library, but see no devices in /sys/class/infiniband: only `roce run`
puts them there. --write FOLDER makes the same files in FOLDER/sys and FOLDER/dev, for you to
mount, for example; libraries that read SYSFS_PATH find them by it.")]
pub struct EnvArgs {
    /// The settings for the program
    #[command(flatten)]
    pub settings: Settings,

    /// Make links to the library, and the files that describe its devices, in this folder, which
    /// must be new, empty, or made by this command before
    #[arg(long, value_name = "FOLDER")]
    pub write: Option<PathBuf>,

    /// The output's language
    #[arg(long, value_name = "LANGUAGE", default_value = "shell")]
    pub format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Prints the environment.
///
/// # Errors
/// If the library is missing, an argument is wrong, or a file can't be written.
pub fn run(args: &EnvArgs) -> Result<ExitCode, Error> {
    let environment = environment(args)?;
    let format = if args.json { Format::Json } else { args.format };
    let text = environment.text(format)?;
    output::print(format_args!("{text}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The folder of the library in an image that is made as docs/run.md says.
const IN_IMAGE: &str = "/usr/local/lib/roce";

/// The folder beside a library in a build tree that contains links with the right names.
const LINKS: &str = "roce-links";

/// Makes links to a library that is not in a folder under its right name, as in a build tree. They
/// are in a folder beside it.
fn folder_with_links(library: &Library) -> Result<PathBuf, Error> {
    let no_links = || no_links(library.path());
    let folder = library.path().parent().ok_or_else(no_links)?.join(LINKS);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(no_links()),
        _ => {}
    }
    // Retry once, in case another process makes the same links at the same time.
    library
        .link_into(&folder)
        .or_else(|_| library.link_into(&folder))
        .map_err(|_| no_links())?;
    Ok(folder)
}

fn environment(args: &EnvArgs) -> Result<Environment, Error> {
    let chosen = args.settings.variables()?;
    let found = Library::find(args.settings.library.as_deref());
    // An image has a library of its own. Where this machine's is installed, its folder is that of
    // the image, too.
    let is_for_image = args.format == Format::Dockerfile && args.write.is_none();
    let in_image = match &found {
        Ok(library) => library.folder().is_none(),
        Err(_) => args.settings.library.is_none(),
    };
    if is_for_image && in_image {
        let folder = Variable::prepended("LD_LIBRARY_PATH", IN_IMAGE.into());
        return Ok(Environment {
            variables: variables(args, folder, None, chosen)?,
            library: PathBuf::from(IN_IMAGE).join("libibverbs.so.1"),
            devices: Vec::new(),
            notes: vec![format!(
                "Copy libroce_verbs_shim.so to {IN_IMAGE}/libibverbs.so.1, and roce to /usr/local/bin"
            )],
        });
    }
    let library = found?;
    let devices = args.settings.devices()?;
    let (links, sysfs) = match &args.write {
        Some(folder) => {
            let device_files = DeviceFiles::of(&devices, &args.settings.datapath()?);
            let folder = export::write(folder, &library, &device_files)?;
            (folder.join("lib"), Some(folder.join("sys")))
        }
        None => match library.folder() {
            Some(folder) => (folder.to_owned(), None),
            None => (folder_with_links(&library)?, None),
        },
    };
    if !fits_in_search_path(&links) {
        return Err(Error::usage(format_args!(
            "the loader can't search {}: colons, semicolons and $ have a meaning in search paths; \
             use a folder without them",
            links.display()
        )));
    }
    let links = Variable::prepended("LD_LIBRARY_PATH", links.into_os_string());
    Ok(Environment {
        variables: variables(args, links, sysfs, chosen)?,
        library: library.path().to_owned(),
        devices: devices.iter().map(roce_verbs::Device::name).collect(),
        notes: Vec::new(),
    })
}

fn variables(
    args: &EnvArgs,
    libraries: Variable,
    sysfs: Option<PathBuf>,
    chosen: Vec<(&'static str, OsString)>,
) -> Result<Vec<Variable>, Error> {
    let sysfs = sysfs.map(|folder| Variable::new("SYSFS_PATH", folder.into_os_string()));
    let others = chosen.into_iter().chain(args.settings.frameworks()?);
    let others = others.map(|(name, value)| Variable::new(name, value));
    let all = std::iter::once(libraries).chain(sysfs).chain(others);
    Ok(all.collect())
}
