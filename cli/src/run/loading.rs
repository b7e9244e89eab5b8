//! The variables that make the loader use the library.

use super::Preload;
use super::library::{Library, fits_in_ld_preload, fits_in_search_path, no_links, prepend};
use super::namespace::LINKS;
use super::view::DeviceView;
use crate::error::Error;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A variable and its value.
type Variable = (&'static str, OsString);

/// The variables.
///
/// # Errors
/// If no folder has the library under its proper name, and it can't be preloaded.
pub(super) fn variables(
    library: &Library,
    shown: &DeviceView,
    preload: Preload,
    sockets: bool,
    notice: &impl Fn(&str),
) -> Result<Vec<Variable>, Error> {
    let mut variables = Vec::new();
    let mut preloaded = Vec::new();
    let links: Option<PathBuf> = match shown {
        DeviceView::Namespace(_) => Some(LINKS.into()),
        DeviceView::Folder(folder) => {
            variables.push(("ROCE_FILES", folder.root().as_os_str().to_owned()));
            preloaded.push(folder.preload());
            Some(folder.links())
        }
        DeviceView::System => {
            let folder = library
                .folder()
                .filter(|folder| fits_in_search_path(folder));
            folder.map(Path::to_owned)
        }
    };
    // The loader identifies a loaded library by its soname. So if no folder has it under its proper
    // name, preloading it is sufficient and necessary.
    let path = match (&links, shown) {
        (Some(links), DeviceView::Namespace(_) | DeviceView::Folder(_)) => {
            links.join("libibverbs.so.1")
        }
        _ => library.path().to_owned(),
    };
    let needed = links.is_none();
    if needed && !fits_in_ld_preload(&path) {
        return Err(no_links(&path));
    }
    if needed || preload == Preload::Auto {
        if fits_in_ld_preload(&path) {
            preloaded.push(path);
        } else {
            notice(&format!(
                "the program's bundled copies of libibverbs are not replaced: the path {} has a \
                 character that LD_PRELOAD can't contain",
                path.display()
            ));
        }
    }
    if sockets {
        preloaded.push(sockets_library(library)?);
    }
    if let Some(links) = links {
        let before = env::var_os("LD_LIBRARY_PATH");
        variables.push(("LD_LIBRARY_PATH", prepend(&links, before.as_deref())));
    }
    if !preloaded.is_empty() {
        variables.push(ld_preload(&preloaded));
        variables.push(asan_options());
    }
    Ok(variables)
}

/// The library that puts TCP sockets on RDMA.
fn sockets_library(library: &Library) -> Result<PathBuf, Error> {
    let found = library.sockets();
    let path = found.map_err(|searched| {
        Error::not_run(format_args!(
            "the library for --sockets is not there (looked for {searched}): build it with `cargo build \
             -p roce-rspreload`, in the profile of this command"
        ))
    })?;
    if !fits_in_ld_preload(&path) {
        return Err(no_links(&path));
    }
    Ok(path)
}

/// `LD_PRELOAD` with `libraries` in front.
fn ld_preload(libraries: &[PathBuf]) -> Variable {
    const NAME: &str = "LD_PRELOAD";
    let before = env::var_os(NAME);
    let joined = libraries.iter().rev().fold(before, |before, library| {
        Some(prepend(library, before.as_deref()))
    });
    (NAME, joined.unwrap_or_default())
}

/// Programs with GCC's address sanitizer refuse to start if another library is loaded before the
/// sanitizer's, unless this option is set. These libraries replace none of its functions.
fn asan_options() -> Variable {
    const NAME: &str = "ASAN_OPTIONS";
    const OPTION: &str = "verify_asan_link_order=0";
    let value = match env::var_os(NAME).filter(|value| !value.is_empty()) {
        // The last setting wins, and the user's must not be overridden.
        Some(mut before) if !before.to_string_lossy().contains("verify_asan_link_order") => {
            before.push(":");
            before.push(OPTION);
            before
        }
        Some(before) => before,
        None => OPTION.into(),
    };
    (NAME, value)
}
