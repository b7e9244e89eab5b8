//! Debian packages: an ar archive with two tar archives, deb(5).

use crate::contents::{Body, Content, compress};
use crate::tarball;
use std::io;

/// The fields of its control file.
pub(crate) struct Package<'a> {
    pub(crate) version: &'a str,
    pub(crate) architecture: &'static str,
    /// The minimum version of libc.
    pub(crate) libc: (u32, u32),
}

/// Debian's name of an architecture.
pub(crate) fn architecture(rust: &str) -> Result<&'static str, String> {
    match rust {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        "riscv64" => Ok("riscv64"),
        "powerpc64" => Ok("ppc64el"),
        "s390x" => Ok("s390x"),
        other => Err(format!(
            "Debian's name of {other} is not known here: add it"
        )),
    }
}

impl Package<'_> {
    pub(crate) fn file_name(&self) -> String {
        format!("roce_{}_{}.deb", self.version, self.architecture)
    }

    /// Builds the package.
    pub(crate) fn pack(&self, contents: &[Content]) -> io::Result<Vec<u8>> {
        let control = [Content {
            path: "control".to_owned(),
            body: Body::File(self.control(contents).into()),
        }];
        let control = compress(&tarball::archive(&control, "")?)?;
        let data = compress(&tarball::archive(contents, "usr/")?)?;
        let mut builder = ar::Builder::new(Vec::new());
        for (name, bytes) in [
            ("debian-binary", b"2.0\n".as_slice()),
            ("control.tar.gz", &control),
            ("data.tar.gz", &data),
        ] {
            let mut header = ar::Header::new(name.into(), bytes.len() as u64);
            header.set_mode(0o100_644);
            builder.append(&header, bytes)?;
        }
        builder.into_inner()
    }

    fn control(&self, contents: &[Content]) -> String {
        let bytes: usize = contents.iter().map(|content| size(&content.body)).sum();
        let (major, minor) = self.libc;
        format!(
            "Package: roce\n\
             Version: {}\n\
             Architecture: {}\n\
             Maintainer: the authors of roce <roce@invalid>\n\
             Installed-Size: {}\n\
             Depends: libc6 (>= {major}.{minor}), libgcc-s1 | libgcc1\n\
             Suggests: ibverbs-utils, perftest\n\
             Section: net\n\
             Priority: optional\n\
             Description: RDMA without RDMA hardware\n \
             RoCEv2 in userspace, on any network card: `roce run PROGRAM` starts RDMA\n \
             programs on it, without a kernel module and without root. It does not\n \
             replace the system's libibverbs, and gets along with it.\n",
            self.version,
            self.architecture,
            bytes.div_ceil(1024)
        )
    }
}

fn size(body: &Body) -> usize {
    match body {
        Body::File(bytes) | Body::Program(bytes) => bytes.len(),
        Body::Link(_) => 0,
    }
}
