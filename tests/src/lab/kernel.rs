//! The guest's kernel: Debian's, downloaded once, unpacked, never installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{Suite, run, tool};
use super::{Flavour, LabError};

/// The package that always depends on Debian's newest kernel of the release.
const META_PACKAGE: &str = "linux-image-amd64";

/// Prefixes of the names of the packages into which newer kernels are split.
const PARTS: &[&str] = &["linux-base-", "linux-binary-", "linux-modules-"];

/// An unpacked kernel package.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// The output of `uname -r` in the guest.
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
        // Newer packages have it in the folder of the modules.
        let image = Some(image)
            .filter(|image| image.is_file())
            .unwrap_or_else(|| modules.join(&version).join("vmlinuz"));
        Ok(Self {
            version,
            image,
            root: root.to_owned(),
        })
    }

    /// The modules to load for all of `names`, in this order.
    pub(super) fn modules_for(&self, names: &[&str]) -> Result<Vec<PathBuf>, LabError> {
        let mut files = Vec::new();
        for name in names {
            // This machine's configuration may replace modules by commands, as ndctl's does.
            let text = run(Command::new(tool("modprobe")?)
                .args(["-C", "/dev/null"])
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

/// The kernel in the cache; downloads it if there is none yet. Concurrent processes wait for the
/// first.
pub(super) fn obtain(cache: &Path, flavour: Flavour) -> Result<Kernel, LabError> {
    let folder = flavour.folder(cache);
    fs::create_dir_all(&folder).map_err(|e| LabError::io("create", &folder, &e))?;
    let _lock = lock(&folder)?;
    let root = folder.join("kernel");
    if !root.is_dir() {
        let partial = folder.join("kernel.partial");
        remove(&partial)?;
        fs::create_dir(&partial).map_err(|e| LabError::io("create", &partial, &e))?;
        download(&partial, flavour)?;
        fs::rename(&partial, &root).map_err(|e| LabError::io("create", &root, &e))?;
    }
    Kernel::find(&root)
}

pub(super) fn remove(folder: &Path) -> Result<(), LabError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|e| LabError::io("remove", folder, &e))?;
    }
    Ok(())
}

/// Locks the cache while a file in it is created.
pub(super) fn lock(cache: &Path) -> Result<File, LabError> {
    let path = cache.join("lock");
    let file = File::create(&path).map_err(|e| LabError::io("create", &path, &e))?;
    file.lock().map_err(|e| LabError::io("lock", &path, &e))?;
    Ok(file)
}

/// Downloads and unpacks the kernel's packages into `folder`.
fn download(folder: &Path, flavour: Flavour) -> Result<(), LabError> {
    let poor = |e: LabError| {
        let what = format!(
            "no kernel for the guest: {e} (is this Debian, is there a network, \
             has `apt-get update` been run?)"
        );
        LabError::poor_machine(what)
    };
    let apt = folder.join("apt");
    let suite = flavour
        .suite()
        .map_or_else(|| Ok(Suite::own()), |name| Suite::named(name, &apt))
        .map_err(poor)?;
    let packages = kernel_packages(&suite).map_err(poor)?;
    eprintln!(
        "lab: downloading {} for the guest, once",
        packages.join(", ")
    );
    suite.unpack(&packages, folder).map_err(poor)?;
    remove(&apt)?;
    // depmod searches here.
    let (merged, plain) = (folder.join("usr/lib"), folder.join("lib"));
    if !plain.exists() {
        fs::rename(&merged, &plain).map_err(|e| LabError::io("rename", &merged, &e))?;
    }
    let version = Kernel::find(folder)?.version;
    run(Command::new(tool("depmod")?)
        .arg("-b")
        .arg(folder)
        .arg(version))
    .map(drop)
}

/// Names of the packages that hold the kernel that the meta package depends on today.
fn kernel_packages(suite: &Suite) -> Result<Vec<String>, LabError> {
    let image = suite
        .depends(META_PACKAGE)?
        .into_iter()
        .find(|name| name.starts_with("linux-image-"))
        .ok_or_else(|| LabError::new(format!("apt knows no kernel behind {META_PACKAGE}")))?;
    let version = image.trim_start_matches("linux-image-");
    let is_part = |name: &str| PARTS.iter().any(|part| name == format!("{part}{version}"));
    let mut parts = suite.depends(&image)?;
    parts.retain(|name| is_part(name));
    Ok(if parts.is_empty() { vec![image] } else { parts })
}
