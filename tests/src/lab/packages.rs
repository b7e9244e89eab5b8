//! Packages of this machine's mirror: downloaded and unpacked, never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::LabError;

/// The files in which Debian's package of keyrings has the keys of its archive.
const KEYRINGS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

/// One suite of the mirror that this machine's apt uses.
#[derive(Debug)]
pub(super) struct Suite {
    /// Options of apt-get and apt-cache.
    options: Vec<String>,
}

impl Suite {
    /// All suites that this machine's apt knows.
    pub(super) fn own() -> Self {
        Self {
            options: Vec::new(),
        }
    }

    /// The suite `name`, which need not be among the sources of this machine. All of apt's state
    /// about it is in `folder`.
    ///
    /// # Errors
    /// If no mirror of Debian is among the machine's sources, or it has no such suite.
    pub(super) fn named(name: &str, folder: &Path) -> Result<Self, LabError> {
        let mirror = mirror()?;
        let failed = |e: LabError| {
            e.context(format!(
                "the mirror {mirror} of this machine's apt gives no suite {name}"
            ))
        };
        for part in ["lists/partial", "cache/archives/partial"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(|e| LabError::io("create", &path, &e))?;
        }
        let sources = folder.join("lab.sources");
        fs::write(&sources, entry(&mirror, name))
            .map_err(|e| LabError::io("write", &sources, &e))?;
        let place = |option: &str, path: &Path| format!("{option}={}", path.display());
        let suite = Self {
            options: vec![
                place("Dir::Etc::SourceList", &sources),
                place("Dir::Etc::SourceParts", Path::new("/dev/null")),
                place("Dir::State::Lists", &folder.join("lists")),
                place("Dir::Cache", &folder.join("cache")),
                "Acquire::Languages=none".to_owned(),
                // Other users can't read root's folders.
                "APT::Sandbox::User=root".to_owned(),
                // By default a missing suite is only a warning.
                "APT::Update::Error-Mode=any".to_owned(),
            ],
        };
        run(suite.apt("apt-get")?.args(["-q", "update"])).map_err(failed)?;
        Ok(suite)
    }

    /// The packages that `package` depends on.
    pub(super) fn depends(&self, package: &str) -> Result<Vec<String>, LabError> {
        let text = run(self.apt("apt-cache")?.args(["depends", package]))?;
        Ok(text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect())
    }

    /// Downloads packages and unpacks them into `folder`.
    pub(super) fn unpack(&self, packages: &[String], folder: &Path) -> Result<(), LabError> {
        run(self
            .apt("apt-get")?
            .args(["-q", "download"])
            .args(packages)
            .current_dir(folder))?;
        let archives = archives(folder)?;
        if archives.len() < packages.len() {
            let what = format!("apt-get left no file of {}", packages.join(", "));
            return Err(LabError::new(what));
        }
        for archive in archives {
            run(Command::new(tool("dpkg")?)
                .arg("-x")
                .arg(&archive)
                .arg(folder))?;
            fs::remove_file(&archive).map_err(|e| LabError::io("remove", &archive, &e))?;
        }
        Ok(())
    }

    fn apt(&self, program: &str) -> Result<Command, LabError> {
        let mut command = Command::new(tool(program)?);
        // Its output is parsed here.
        command.env("LC_ALL", "C");
        for option in &self.options {
            command.args(["-o", option]);
        }
        Ok(command)
    }
}

/// The address of the mirror of Debian that this machine's apt uses.
///
/// # Errors
/// If there is no apt-get, or none of its sources is Debian.
pub fn mirror() -> Result<String, LabError> {
    let format = "$(REPO_URI) $(ORIGIN) $(LABEL)";
    let text = run(Command::new(tool("apt-get")?).args([
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]))?;
    debian_of(&text)
        .map(str::to_owned)
        .ok_or_else(|| LabError::new("this machine's apt knows no mirror of Debian"))
}

/// The first mirror of Debian itself, and not of its security updates, in a list of
/// address, origin and label.
fn debian_of(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next()?;
        (words.next() == Some("Debian") && words.next() == Some("Debian")).then_some(address)
    })
}

/// A source of apt: the packages of one suite, and no other lists.
fn entry(mirror: &str, suite: &str) -> String {
    let keyring = KEYRINGS.iter().find(|path| Path::new(path).is_file());
    let signed_by = keyring.map_or_else(String::new, |path| format!("Signed-By: {path}\n"));
    format!(
        "Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nTargets: Packages\n\
         {signed_by}"
    )
}

fn archives(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    Ok(fs::read_dir(folder)
        .map_err(|e| LabError::io("list", folder, &e))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "deb"))
        .collect())
}

/// A program by its full path: root's folders are not in every PATH.
pub(super) fn tool(name: &str) -> Result<PathBuf, LabError> {
    testkit::find(name).ok_or_else(|| LabError::poor_machine(format!("{name} is not installed")))
}

/// Runs a command to its end and returns its stdout.
pub(super) fn run(command: &mut Command) -> Result<String, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|e| LabError::new(format!("cannot run {program}: {e}")))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(LabError::new(format!(
            "{program}: {}: {}",
            output.status,
            errors.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::debian_of;

    #[test]
    fn the_mirror_is_debians_and_not_that_of_its_security_updates() {
        let list = "http://b.example/extra/ Somebody Debian\n\
                    http://b.example/none/\n\
                    http://a.example/debian-security/ Debian Debian-Security\n\
                    http://a.example/debian/ Debian Debian\n\
                    http://c.example/debian/ Debian Debian\n";
        assert_eq!(debian_of(list), Some("http://a.example/debian/"));
        assert_eq!(debian_of("http://a.example/x/ Other Other\n"), None);
    }
}
