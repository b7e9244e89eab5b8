//! The guest's first file system: busybox, the modules that Soft-RoCE and the
//! shared root need, and the lab's own scripts. It is a cpio archive of format "newc", written here
//! because tools would need a folder of device nodes.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kernel::{self, Kernel};
use super::{Flavour, LabError};

const INIT: &str = include_str!("../../lab/init.sh");
const STAGE2: &str = include_str!("../../lab/stage2.sh");
const AGENT: &str = include_str!("../../lab/agent.py");
const PEER: &str = include_str!("../../lab/peer.py");

/// Returns the archive's path. Rewrites it only if its contents have changed.
pub(super) fn build(cache: &Path, kernel: &Kernel, flavour: Flavour) -> Result<PathBuf, LabError> {
    let folder = flavour.folder(cache);
    let _lock = kernel::lock(&folder)?;
    let modules = flavour.modules();
    let mut hasher = DefaultHasher::new();
    (&modules, INIT, STAGE2, AGENT, PEER, &kernel.version).hash(&mut hasher);
    let path = folder.join(format!("initramfs-{:016x}", hasher.finish()));
    if !path.exists() {
        let partial = path.with_extension("partial");
        fs::write(&partial, archive(kernel, &modules)?)
            .map_err(|e| LabError::io("write", &partial, &e))?;
        fs::rename(&partial, &path).map_err(|e| LabError::io("create", &path, &e))?;
    }
    Ok(path)
}

fn archive(kernel: &Kernel, modules: &[&str]) -> Result<Vec<u8>, LabError> {
    let busybox = testkit::find("busybox")
        .ok_or_else(|| LabError::poor_machine("busybox is not installed"))?;
    let mut cpio = Cpio::default();
    for folder in ["bin", "modules"] {
        cpio.folder(folder);
    }
    let program = fs::read(&busybox).map_err(|e| LabError::io("read", &busybox, &e))?;
    cpio.file("bin/busybox", &program);
    let mut order = String::new();
    for file in kernel.modules_for(modules)? {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{}.ko", name.trim_end_matches(".ko"));
        cpio.file(&format!("modules/{name}"), &read_module(&file)?);
        order += &format!("{name}\n");
    }
    cpio.file("modules.order", order.as_bytes());
    cpio.file("init", INIT.as_bytes());
    cpio.file("stage2.sh", STAGE2.as_bytes());
    cpio.file("agent.py", AGENT.as_bytes());
    cpio.file("peer.py", PEER.as_bytes());
    Ok(cpio.finish())
}

/// A module's bytes, uncompressed: busybox loads nothing else.
fn read_module(file: &Path) -> Result<Vec<u8>, LabError> {
    if file.extension().is_some_and(|e| e == "xz") {
        let output = Command::new("xz")
            .arg("-dc")
            .arg(file)
            .output()
            .map_err(|e| LabError::io("run xz for", file, &e))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        return Err(LabError::new(format!(
            "xz cannot unpack {}",
            file.display()
        )));
    }
    fs::read(file).map_err(|e| LabError::io("read", file, &e))
}

/// Writer of the kernel's initramfs format: for each file a header of 110 ASCII
/// characters, the name, the content, each padded to a multiple of four bytes.
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
}

impl Cpio {
    fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, 0o100_755, content);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let fields = [
            self.inode,
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            u32::try_from(content.len()).expect("a module is smaller than 4 GiB"),
            0, // device, major and minor
            0,
            0, // device of a node, major and minor
            0,
            u32::try_from(name.len() + 1).expect("names are short"),
            0, // checksum, not used
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
