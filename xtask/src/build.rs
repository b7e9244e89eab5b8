//! The command and its libraries, built for others.

use serde_json::Value;
use std::error::Error;
use std::fs;
use std::io;
use std::process::{Command, Stdio};

/// The files that were built.
pub(crate) struct Built {
    /// The `roce` command.
    pub(crate) command: Vec<u8>,
    /// The library that takes the place of libibverbs.
    pub(crate) library: Vec<u8>,
    /// The library that shows made-up files where no mount is allowed.
    pub(crate) preload: Vec<u8>,
}

/// Builds all, without what only debuggers read.
pub(crate) fn build() -> Result<Built, Box<dyn Error>> {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked"])
        .args(["--package", "roce", "--package", "roce-verbs-shim"])
        .args(["--package", "roce-preload"])
        .args(["--config", "profile.release.strip=\"symbols\""])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo build ended with {}", output.status).into());
    }
    let messages = String::from_utf8(output.stdout)?;
    Ok(Built {
        command: find(&messages, "/roce")?,
        library: find(&messages, "/libroce_verbs_shim.so")?,
        preload: find(&messages, "/libroce_preload.so")?,
    })
}

/// Reads the file, among those that cargo has built, whose path ends so.
fn find(messages: &str, end: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let lines = messages.lines().map(serde_json::from_str);
    for message in lines.collect::<Result<Vec<Value>, _>>()? {
        let files = message["filenames"].as_array();
        let paths = files.into_iter().flatten().filter_map(Value::as_str);
        if let Some(path) = paths.into_iter().find(|path| path.ends_with(end)) {
            return fs::read(path)
                .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")).into());
        }
    }
    Err(format!("cargo build made no file that ends in {end}").into())
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
        assert_eq!(find(&messages, "/roce").ok(), Some(b"the command".to_vec()));
        let missing = find(&messages, "/libroce_verbs_shim.so").expect_err("not built");
        assert!(missing.to_string().contains("libroce_verbs_shim.so"));
        assert!(find("no JSON", "/roce").is_err());
        let gone = find(&artifact("/nonexistent/roce"), "/roce").expect_err("not there");
        assert!(gone.to_string().contains("/nonexistent/roce"), "{gone}");
    }
}
