//! Images of Debian, made from its packages alone.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The programs of the image.
const PACKAGES: &str = "ibverbs-utils,perftest,rdmacm-utils,ucx-utils";

/// Its glibc is older than what cargo builds here needs.
const OLDEST: &str = "bullseye";

/// The tarball of `cargo xtask dist` that containers get instead of what cargo built with this test.
pub(crate) fn package() -> Option<PathBuf> {
    let package = std::env::var_os("ROCE_PACKAGE").filter(|it| !it.is_empty())?;
    Some(std::path::absolute(package).expect("a path"))
}

/// The releases of Debian to try.
pub(crate) fn suites() -> &'static [&'static str] {
    let all = std::env::var_os("ROCE_PROGRAMS").is_some_and(|value| value == "all");
    match (all, package()) {
        (true, _) => &["bookworm", "trixie", OLDEST],
        (false, Some(_)) => &["bookworm", OLDEST],
        (false, None) => &["bookworm"],
    }
}

/// The file system of an image, packed.
pub(crate) struct Image {
    _folder: TempDir,
    pub(crate) file: PathBuf,
}

impl Image {
    /// Makes it, which takes a minute or two. Skips the test if this machine can't.
    pub(crate) fn make_or_skip(suite: &str) -> Option<Self> {
        if !testkit::root_or_skip() || !testkit::is_installed_or_skip("debootstrap") {
            return None;
        }
        if suite == OLDEST && package().is_none() {
            let why = "ROCE_PACKAGE names no tarball of `cargo xtask dist`";
            testkit::skip("a package for Debian 11", why);
            return None;
        }
        let Ok(mirror) = roce_tests::lab::debian_mirror() else {
            testkit::skip("a mirror of Debian among the sources of apt", "");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("allowed");
        let root = folder.path().join("root");
        let made = Command::new("debootstrap")
            .args(["--variant=minbase", "--include", PACKAGES, suite])
            .arg(&root)
            .arg(&mirror)
            .output()
            .expect("it starts");
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stdout).into_owned();
            let why = said.lines().find(|line| line.starts_with("E: "));
            testkit::skip("a mirror of Debian that answers", why.unwrap_or(&said));
            return None;
        }
        let file = folder.path().join("image.tar");
        pack(&root, &file);
        fs::remove_dir_all(&root).expect("removed");
        Some(Self {
            _folder: folder,
            file,
        })
    }
}

/// Packs everything but device files, which an ordinary user can't unpack.
fn pack(root: &Path, file: &Path) {
    let to = File::create(file).expect("made");
    let packed = Command::new("tar")
        .args(["--create", "--exclude=./dev/*", "--exclude=./var/cache/*"])
        .arg("--directory")
        .arg(root)
        .arg(".")
        .stdout(to)
        .status();
    assert!(packed.expect("it starts").success());
}
