//! Python wheels: a zip archive that pip unpacks into the folders of an environment.

use crate::contents::{Body, Content};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use sha2::{Digest, Sha256};
use std::error::Error;
use std::io::Write;

/// A wheel of the commands and the libraries. It has no Python code.
pub(crate) struct Wheel<'a> {
    pub(crate) version: &'a str,
    /// Python's name of the architecture.
    pub(crate) architecture: &'static str,
    /// The minimum version of libc.
    pub(crate) libc: (u32, u32),
}

/// Python's name of an architecture.
pub(crate) fn architecture(rust: &str) -> Result<&'static str, String> {
    match rust {
        "x86_64" => Ok("x86_64"),
        "aarch64" => Ok("aarch64"),
        "riscv64" => Ok("riscv64"),
        "powerpc64" => Ok("ppc64le"),
        "s390x" => Ok("s390x"),
        other => Err(format!(
            "Python's name of {other} is not known here: add it"
        )),
    }
}

/// The library's name in the wheel. Wheels have no links, so it can't have all names that programs use. `roce run`
/// and `roce env` make links for a library with this name, as in a build tree.
const LIBRARY: &str = "lib/roce/libroce_verbs_shim.so";

impl Wheel<'_> {
    pub(crate) fn file_name(&self) -> String {
        format!("roce-{}-{}.whl", self.version, self.tag())
    }

    /// Any Python 3, and the libc that the programs need.
    fn tag(&self) -> String {
        let (major, minor) = self.libc;
        format!("py3-none-manylinux_{major}_{minor}_{}", self.architecture)
    }

    /// Builds the wheel.
    pub(crate) fn pack(&self, contents: &[Content]) -> Result<Vec<u8>, Box<dyn Error>> {
        let mut files: Vec<File> = contents.iter().filter_map(|it| self.file(it)).collect();
        let info = format!("roce-{}.dist-info", self.version);
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let path = format!("share/doc/roce/{licence}");
            let text = contents.iter().find(|content| content.path == path);
            if let Some(Body::File(bytes)) = text.map(|content| &content.body) {
                files.push(File::new(
                    format!("{info}/licenses/{licence}"),
                    0o644,
                    bytes,
                ));
            }
        }
        let (metadata, wheel) = (self.metadata(), self.wheel());
        files.push(File::new(
            format!("{info}/METADATA"),
            0o644,
            metadata.as_bytes(),
        ));
        files.push(File::new(format!("{info}/WHEEL"), 0o644, wheel.as_bytes()));
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let record = format!("{info}/RECORD");
        let mut lines: String = files.iter().map(File::record).collect();
        lines.push_str(&format!("{record},,\n"));
        // Its place is the end of the archive, after the files that it lists.
        files.push(File::new(record, 0o644, lines.as_bytes()));
        zip(&files)
    }

    /// The file of the wheel for a file of the packages, in the folder from which pip installs it.
    fn file<'c>(&self, content: &'c Content) -> Option<File<'c>> {
        let data = format!("roce-{}.data", self.version);
        let (mode, bytes) = match &content.body {
            Body::File(bytes) => (0o644, bytes),
            Body::Program(bytes) => (0o755, bytes),
            Body::Link(_) => return None,
        };
        let path = match content.path.strip_prefix("bin/") {
            Some(program) => format!("{data}/scripts/{program}"),
            None if content.path == crate::contents::LIBRARY => format!("{data}/data/{LIBRARY}"),
            None => format!("{data}/data/{}", content.path),
        };
        Some(File::new(path, mode, bytes))
    }

    fn metadata(&self) -> String {
        format!(
            "Metadata-Version: 2.4\n\
             Name: roce\n\
             Version: {}\n\
             Summary: RDMA without RDMA hardware: RoCEv2 in userspace, on any network card\n\
             License-Expression: MIT OR Apache-2.0\n\
             License-File: LICENSE-APACHE\n\
             License-File: LICENSE-MIT\n\
             Requires-Python: >=3.7\n\
             Description-Content-Type: text/markdown\n\
             \n\
             `roce run PROGRAM` starts an RDMA program, unchanged, on a network card in software: without RDMA \
             hardware, without a kernel module and without root. `roce run pytest` does so with all tests.\n\
             \n\
             The documentation is in `share/doc/roce`, and man pages are in `share/man`, below the folder of the \
             environment.\n",
            self.version
        )
    }

    fn wheel(&self) -> String {
        format!(
            "Wheel-Version: 1.0\n\
             Generator: cargo xtask dist\n\
             Root-Is-Purelib: false\n\
             Tag: {}\n",
            self.tag()
        )
    }
}

/// A file in the wheel.
struct File<'a> {
    path: String,
    mode: u32,
    bytes: &'a [u8],
}

impl<'a> File<'a> {
    fn new(path: String, mode: u32, bytes: &'a [u8]) -> Self {
        Self { path, mode, bytes }
    }

    /// Its line in RECORD.
    fn record(&self) -> String {
        let hash = base64(&Sha256::digest(self.bytes));
        format!("{},sha256={hash},{}\n", self.path, self.bytes.len())
    }
}

/// Encodes as URL-safe base64 without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = bytes.chunks(3).flat_map(|chunk| {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let digit =
            move |index: usize| char::from(DIGITS[(bits >> (18 - 6 * index)) as usize & 63]);
        (0..=chunk.len()).map(digit)
    });
    digits.collect()
}

/// A zip archive, whose bytes depend on the files only.
fn zip(files: &[File]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    // The earliest time that the format can express.
    let time = UtcDateTime::from_components(1980, 1, 1, 0, 0, 0, 0).ok_or("no such time")?;
    for file in files {
        let entry = archive
            .new_file(file.path.as_str())
            .compression_method(CompressionMethod::DEFLATE)
            .last_modified(time)
            .unix_permissions(0o100_000 | file.mode);
        let (mut entry, config) = entry.start()?;
        let encoder = DeflateEncoder::new(&mut entry, Compression::best());
        let mut writer = config.wrap(encoder);
        writer.write_all(file.bytes)?;
        let (encoder, descriptor) = writer.finish()?;
        encoder.finish()?;
        entry.finish(descriptor)?;
    }
    Ok(archive.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let encoded =
            ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(
            encoded,
            ["", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"]
        );
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
    }
}
