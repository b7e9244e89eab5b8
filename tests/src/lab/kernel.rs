//! The guest's kernel: Debian's, downloaded once, unpacked, never installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::LabError;
use super::machine;

/// The package that always depends on Debian's newest kernel of the release.
const META_PACKAGE: &str = "linux-image-amd64";

/// An unpacked kernel package.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// As `uname -r` says it in the guest.
    pub(super) version: String,
    /// The bootable image.
    pub(super) image: PathBuf,
    /// The folder that holds `lib/modules`.
    pub(super) root: PathBuf,
}

impl Kernel {
    /// The kernel in an unpacked package.
    fn find(root: &Path) -> Result<Self, LabError> {
        let modules = root.join("lib/modules");
        let version = fs::read_dir(&modules)
            .map_err(|e| LabError::io("list", &modules, &e))?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .next()
            .ok_or_else(|| LabError::new(format!("no kernel in {}", modules.display())))?;
        let image = root.join("boot").join(format!("vmlinuz-{version}"));
        Ok(Self {
            version,
            image,
            root: root.to_owned(),
        })
    }

    /// The modules to load, in this order, so that all of `names` work.
    pub(super) fn modules_for(&self, names: &[&str]) -> Result<Vec<PathBuf>, LabError> {
        let mut files = Vec::new();
        for name in names {
            let text = run(Command::new(tool("modprobe")?)
                .args(["-S", &self.version, "--show-depends", name, "-d"])
                .arg(&self.root))?;
            // Lines are "insmod PATH [options]" or "builtin NAME".
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("insmod ") {
                    let file = PathBuf::from(rest.split_whitespace().next().unwrap_or_default());
                    if !files.contains(&file) {
                        files.push(file);
                    }
                }
            }
        }
        Ok(files)
    }
}

/// The kernel in the cache; downloads it if there is none yet. Processes that ask
/// at the same time wait for the first.
pub(super) fn obtain(cache: &Path) -> Result<Kernel, LabError> {
    let _lock = lock(cache)?;
    let root = cache.join("kernel");
    if !root.is_dir() {
        let partial = cache.join("kernel.partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(|e| LabError::io("remove", &partial, &e))?;
        }
        fs::create_dir(&partial).map_err(|e| LabError::io("create", &partial, &e))?;
        download(&partial)?;
        fs::rename(&partial, &root).map_err(|e| LabError::io("create", &root, &e))?;
    }
    Kernel::find(&root)
}

/// Held while something of the cache is made.
pub(super) fn lock(cache: &Path) -> Result<File, LabError> {
    let path = cache.join("lock");
    let file = File::create(&path).map_err(|e| LabError::io("create", &path, &e))?;
    file.lock().map_err(|e| LabError::io("lock", &path, &e))?;
    Ok(file)
}

/// Downloads and unpacks the kernel package into `folder`.
fn download(folder: &Path) -> Result<(), LabError> {
    let poor = |e: LabError| {
        let what = format!(
            "no kernel for the guest: {e} (is this Debian, is there a network, \
             has `apt-get update` been run?)"
        );
        LabError::poor_machine(what)
    };
    let package = kernel_package().map_err(poor)?;
    eprintln!("lab: downloading {package} for the guest, once");
    run(Command::new(tool("apt-get")?)
        .args(["-q", "download", &package])
        .current_dir(folder))
    .map_err(poor)?;
    let archive = fs::read_dir(folder)
        .map_err(|e| LabError::io("list", folder, &e))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .ok_or_else(|| poor(LabError::new(format!("apt-get left no file of {package}"))))?;
    run(Command::new(tool("dpkg")?)
        .arg("-x")
        .arg(&archive)
        .arg(folder))?;
    fs::remove_file(&archive).map_err(|e| LabError::io("remove", &archive, &e))?;
    let version = Kernel::find(folder)?.version;
    run(Command::new(tool("depmod")?)
        .arg("-b")
        .arg(folder)
        .arg(version))
    .map(drop)
}

/// Name of the package that the meta package depends on today.
fn kernel_package() -> Result<String, LabError> {
    let text = run(Command::new(tool("apt-cache")?).args(["depends", META_PACKAGE]))?;
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
        .ok_or_else(|| LabError::new(format!("apt knows no kernel behind {META_PACKAGE}")))
}

/// A program by its full path: root's folders are not in every PATH.
fn tool(name: &str) -> Result<PathBuf, LabError> {
    machine::find(name).ok_or_else(|| LabError::poor_machine(format!("{name} is not installed")))
}

/// Runs a command to its end and returns its stdout.
fn run(command: &mut Command) -> Result<String, LabError> {
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
