//! `cargo xtask dist`: a tarball, a Debian package and a Python wheel of the commands and the libraries, and their
//! bill of materials (SBOM).
//!
//! The first three contain the same files. They are built without a distribution's tools, and the same files
//! always give the same bytes. The files do not depend on the folders in which they were built:
//! `.ci/check-reproducible` builds twice and compares. They run on older systems than this one: `linker`.

// They panic if the output can't be written: `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod build;
mod contents;
mod deb;
mod documents;
mod libc;
mod linker;
mod pages;
mod sbom;
mod tarball;
#[cfg(test)]
mod tests;
mod wheel;

use build::Built;
use clap::{Args, Parser, Subcommand};
use roce_trust::output::{exit_code_of_usage, print_line, say};
use std::env;
use std::env::consts::ARCH;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use wheel::Wheel;

/// The name before messages.
const NAME: &str = "cargo xtask dist";

/// Project tasks besides building and testing.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build a tarball, a .deb and a Python wheel of the commands and the libraries, and list the crates in them (SBOM)
    Dist(Dist),
}

#[derive(Args)]
struct Dist {
    /// Where to put them
    #[arg(long, default_value = "target/dist", value_name = "FOLDER")]
    out: PathBuf,

    /// Pack `roce`, `nvme-rdma`, `libroce_verbs_shim.so`, `libroce_preload.so` and
    /// `libroce_rspreload.so` from this folder, as they are, instead of building them
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,

    /// Build with another profile of Cargo.toml; `release` builds faster, and makes slower programs
    #[arg(long, default_value = "fat-lto", conflicts_with = "from")]
    profile: String,

    /// Build for this target of Rust, such as aarch64-unknown-linux-gnu [default: this machine]
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,

    /// The glibc that the programs may need at most: a version, for which zig links (`pip install ziglang`), or
    /// `host`, that of this machine [default: 2.28 if zig is installed, else host]
    #[arg(long, value_name = "VERSION")]
    glibc: Option<Limit>,
}

/// The newest glibc that the programs may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Version((u32, u32)),
    Host,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match libc::version(text) {
            Some(version) => Ok(Self::Version(version)),
            None if text == "host" => Ok(Self::Host),
            None => Err("it is a version, such as 2.28, or host".to_owned()),
        }
    }
}

/// That of RHEL 8. Debian 10 has it, too, and Ubuntu 20.04 a newer one.
const PORTABLE: Limit = Limit::Version((2, 28));

fn main() -> ExitCode {
    if let Some(folder) = env::var_os(linker::VARIABLE) {
        return exit_code(linker::run(Path::new(&folder)));
    }
    let task = match Arguments::try_parse() {
        Ok(arguments) => arguments.task,
        Err(shown) => return exit_code_of_usage(NAME, shown.print(), !shown.use_stderr()),
    };
    let Task::Dist(options) = task;
    exit_code(dist(&options).map(|()| ExitCode::SUCCESS))
}

fn exit_code(result: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    result.unwrap_or_else(|error| {
        say(NAME, error);
        ExitCode::FAILURE
    })
}

fn dist(options: &Dist) -> Result<(), Box<dyn Error>> {
    let Dist { out, from, .. } = options;
    let target = match &options.target {
        Some(target) => target.clone(),
        None => format!("{ARCH}-unknown-linux-gnu"),
    };
    let (built, limit) = match from {
        Some(folder) => (build::found(folder)?, options.glibc),
        None => {
            let (built, limit) = build(options, &target)?;
            (built, Some(limit))
        }
    };
    say(NAME, "packing");
    let contents = contents::all(&built)?;
    let libc = libc::newest(&contents);
    if let Some(Limit::Version(limit)) = limit {
        libc::check(&contents, limit)?;
    }
    fs::create_dir_all(out)?;
    let version = env!("CARGO_PKG_VERSION");
    let write = |name: String, bytes: Vec<u8>| {
        let path = out.join(name);
        fs::write(&path, bytes)?;
        print_line(path.display())
    };
    // The files of a folder may have been built from other sources.
    if from.is_none() {
        let bill = sbom::of_workspace(version, &target)?;
        write(format!("roce-{version}.cdx.json"), bill)?;
    }
    let architecture = architecture(&target);
    let tarball = format!("roce-{version}-{architecture}.tar.gz");
    write(tarball, tarball::pack(&contents, version)?)?;
    let package = deb::Package {
        version,
        architecture: deb::architecture(architecture)?,
        libc,
    };
    write(package.file_name(), package.pack(&contents)?)?;
    let wheel = Wheel {
        version,
        architecture: wheel::architecture(architecture)?,
        libc,
    };
    write(wheel.file_name(), wheel.pack(&contents)?)?;
    let (major, minor) = libc;
    say(
        NAME,
        format_args!("the programs need glibc {major}.{minor} or newer"),
    );
    Ok(())
}

/// Builds for the glibc that is asked for, and says which.
fn build(options: &Dist, target: &str) -> Result<(Built, Limit), Box<dyn Error>> {
    let (zig, limit) = match (options.glibc, linker::zig()) {
        (Some(Limit::Host), _) => (None, Limit::Host),
        (None, None) if options.target.is_none() => {
            let install = linker::INSTALL;
            say(
                NAME,
                format_args!(
                    "zig is not installed, so the programs will need a glibc as new as this machine's: `{install}` before makes them run on older systems"
                ),
            );
            (None, Limit::Host)
        }
        (_, None) => {
            let install = linker::INSTALL;
            return Err(format!("zig links for an older glibc and for other processors, and is not installed: `{install}`, or --glibc host for this machine's glibc and linker").into());
        }
        (limit, zig) => (zig, limit.unwrap_or(PORTABLE)),
    };
    let linker = match (zig, limit) {
        (Some(zig), Limit::Version(libc)) => Some(linker::prepare(&zig, target, libc)?),
        _ => None,
    };
    let profile = &options.profile;
    say(
        NAME,
        format_args!("building with the profile {profile}, which takes minutes"),
    );
    let target = (linker.is_some() || options.target.is_some()).then_some(target);
    Ok((build::build(profile, target, linker.as_deref())?, limit))
}

/// The architecture of a target, as in `std::env::consts::ARCH`.
fn architecture(target: &str) -> &str {
    match target.split('-').next().unwrap_or_default() {
        "riscv64gc" => "riscv64",
        "powerpc64le" => "powerpc64",
        architecture => architecture,
    }
}
