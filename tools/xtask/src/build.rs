//! Builds the commands and the libraries for distribution.

use crate::linker;
use serde_json::Value;
use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files built.
pub(crate) struct Built {
    /// The `roce` command.
    pub(crate) command: Vec<u8>,
    /// The `nvme-rdma` command.
    pub(crate) storage: Vec<u8>,
    /// The library that replaces libibverbs.
    pub(crate) library: Vec<u8>,
    /// The library that shows the device files where mounts are not allowed.
    pub(crate) preload: Vec<u8>,
    /// The library that puts TCP sockets on RDMA.
    pub(crate) sockets: Vec<u8>,
}

/// The file names that cargo uses.
const COMMAND: &str = "roce";
const STORAGE: &str = "nvme-rdma";
const LIBRARY: &str = "libroce_verbs_shim.so";
const PRELOAD: &str = "libroce_preload.so";
const SOCKETS: &str = "libroce_rspreload.so";

/// The separator of flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// Builds everything with `profile`, without debugging information, and without the paths of this
/// machine, so that the same sources give the same files in every folder. `target` is a target of Rust, if it is not
/// this machine; `linker` is the folder by which this program links.
pub(crate) fn build(
    profile: &str,
    target: Option<&str>,
    linker: Option<&Path>,
) -> Result<Built, Box<dyn Error>> {
    let strip = format!("profile.{profile}.strip=\"symbols\"");
    let mut flags = flags()?;
    let mut command = Command::new(env!("CARGO"));
    command.arg("build");
    if let Some(target) = target {
        command.args(["--target", target]);
    }
    if let (Some(target), Some(folder)) = (target, linker) {
        let name = target.to_uppercase().replace('-', "_");
        command.env(format!("CARGO_TARGET_{name}_LINKER"), env::current_exe()?);
        command.env(linker::VARIABLE, folder);
        // Cargo links again if its flags change, but not if what is in the folder does. A search path that does not
        // exist makes no difference to the linker.
        let version = folder.file_name().unwrap_or_default();
        flags.push(format!("-Clink-arg=-L/{}", version.display()));
    }
    let output = command
        .args(["--profile", profile, "--locked"])
        .args(["--package", "roce", "--package", "roce-verbs-shim"])
        .args(["--package", "roce-preload", "--package", "roce-rspreload"])
        .args(["--package", "roce-nvme"])
        .args(["--config", &strip])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR))
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo build ended with {}", output.status).into());
    }
    let messages = String::from_utf8(output.stdout)?;
    read_all(|name| find(&messages, name))
}

fn read_all<E>(read: impl Fn(&str) -> Result<Vec<u8>, E>) -> Result<Built, E> {
    Ok(Built {
        command: read(COMMAND)?,
        storage: read(STORAGE)?,
        library: read(LIBRARY)?,
        preload: read(PRELOAD)?,
        sockets: read(SOCKETS)?,
    })
}

/// The compiler's flags: the flags in the environment, and
/// other names for this checkout and for the folder with the sources of all other crates. Messages
/// of panics contain such paths.
fn flags() -> Result<Vec<String>, Box<dyn Error>> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let checkout = checkout.ok_or("this crate is not in the workspace")?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let mut all: Vec<String> = match env::var("CARGO_ENCODED_RUSTFLAGS") {
        Ok(encoded) => encoded.split(SEPARATOR).map(str::to_owned).collect(),
        Err(_) => env::var("RUSTFLAGS")
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    };
    all.retain(|flag| !flag.is_empty());
    for (from, to) in [(checkout, "/roce"), (&home, "/cargo")] {
        all.push(format!("--remap-path-prefix={}={to}", from.display()));
    }
    Ok(all)
}

/// Reads the files from a folder that cargo has built into.
pub(crate) fn found(folder: &Path) -> io::Result<Built> {
    read_all(|name| read(&folder.join(name)))
}

/// Reads a file. The error names it.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Reads the file with that name from the list of files that cargo has built.
fn find(messages: &str, name: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let lines = messages.lines().map(serde_json::from_str);
    for message in lines.collect::<Result<Vec<Value>, _>>()? {
        let files = message["filenames"].as_array();
        let paths = files.into_iter().flatten().filter_map(Value::as_str);
        let mut paths = paths.map(Path::new);
        if let Some(path) = paths.find(|path| path.file_name() == Some(name.as_ref())) {
            return Ok(read(path)?);
        }
    }
    Err(format!("cargo build made no {name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_among_what_cargo_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("roce");
        fs::write(&path, "the command").expect("written");
        let artifact = |path: &str| {
            let message = serde_json::json!({"reason": "compiler-artifact", "filenames": [path]});
            message.to_string()
        };
        let path = path.to_str().expect("text");
        let other = artifact("/target/libroce.rlib");
        let messages = [&other, "{\"reason\":\"build-finished\"}", &artifact(path)].join("\n");
        assert_eq!(find(&messages, "roce").ok(), Some(b"the command".to_vec()));
        let missing = find(&messages, "libroce_verbs_shim.so").expect_err("not built");
        assert!(missing.to_string().contains("libroce_verbs_shim.so"));
        assert!(find("no JSON", "roce").is_err());
        let gone = find(&artifact("/nonexistent/roce"), "roce").expect_err("not there");
        assert!(gone.to_string().contains("/nonexistent/roce"), "{gone}");
    }

    #[test]
    fn files_are_taken_from_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [COMMAND, STORAGE, LIBRARY, SOCKETS] {
            fs::write(folder.path().join(name), name).expect("written");
        }
        let missing = found(folder.path()).err().expect("one is missing");
        assert!(missing.to_string().contains(PRELOAD), "{missing}");
        fs::write(folder.path().join(PRELOAD), PRELOAD).expect("written");
        let built = found(folder.path()).expect("all are there");
        let commands = [built.command, built.storage];
        assert_eq!(commands, [COMMAND, STORAGE].map(Vec::from));
        let libraries = [built.library, built.preload, built.sockets];
        assert_eq!(libraries, [LIBRARY, PRELOAD, SOCKETS].map(Vec::from));
    }
}
