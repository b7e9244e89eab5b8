//! `cargo xtask dist`: a tarball and a Debian package of the commands and the libraries, and their
//! bill of materials (SBOM).
//!
//! The first two contain the same files. They are built without a distribution's tools, and the same files
//! always give the same bytes. The files do not depend on the folders in which they were built:
//! `.ci/check-reproducible` builds twice and compares.

// They panic if the output can't be written: `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod build;
mod contents;
mod deb;
mod documents;
mod pages;
mod sbom;
mod tarball;
#[cfg(test)]
mod tests;

use clap::{Parser, Subcommand};
use roce_trust::output::{exit_code_of_usage, print_line, say};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    /// Build a tarball and a .deb of the commands and the libraries, and list the crates in them (SBOM)
    Dist {
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
    },
}

fn main() -> ExitCode {
    let task = match Arguments::try_parse() {
        Ok(arguments) => arguments.task,
        Err(shown) => return exit_code_of_usage(NAME, shown.print(), !shown.use_stderr()),
    };
    let Task::Dist { out, from, profile } = task;
    match dist(&out, from.as_deref(), &profile) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(NAME, error);
            ExitCode::FAILURE
        }
    }
}

fn dist(out: &Path, from: Option<&Path>, profile: &str) -> Result<(), Box<dyn Error>> {
    let built = match from {
        Some(folder) => build::found(folder)?,
        None => {
            say(
                NAME,
                format_args!("building with the profile {profile}, which takes minutes"),
            );
            build::build(profile)?
        }
    };
    say(NAME, "packing");
    let contents = contents::all(&built)?;
    fs::create_dir_all(out)?;
    let version = env!("CARGO_PKG_VERSION");
    // The files of a folder may have been built from other sources.
    if from.is_none() {
        let bill = out.join(format!("roce-{version}.cdx.json"));
        fs::write(&bill, sbom::of_workspace(version)?)?;
        print_line(bill.display())?;
    }
    let tarball = out.join(format!("roce-{version}-{}.tar.gz", std::env::consts::ARCH));
    fs::write(&tarball, tarball::pack(&contents, version)?)?;
    print_line(tarball.display())?;
    let package = deb::Package {
        version,
        architecture: deb::architecture(std::env::consts::ARCH)?,
        libc: deb::newest_libc(&contents),
    };
    let deb = out.join(package.file_name());
    fs::write(&deb, package.pack(&contents)?)?;
    print_line(deb.display())?;
    Ok(())
}
