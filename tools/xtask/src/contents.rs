//! The contents of a package, below its prefix.

use crate::build::Built;
use crate::{documents, pages};
use flate2::{Compression, GzBuilder};
use roce_cli::cdi;
use std::io::{self, Write};
use std::path::Path;

/// A file or a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The path below the prefix, such as `/usr`.
    pub(crate) path: String,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A file to read.
    File(Vec<u8>),
    /// A file to execute.
    Program(Vec<u8>),
    /// A symbolic link.
    Link(&'static str),
}

/// The path at which `roce run` looks for the library, relative to the command.
pub(crate) const LIBRARY: &str = "lib/roce/libibverbs.so.1";

/// A symbol of the connection manager: a library that exports it serves as librdmacm, too.
const CM_SYMBOL: &[u8] = b"rdma_create_event_channel\0";

/// All contents, ordered by path.
pub(crate) fn all(built: &Built) -> io::Result<Vec<Content>> {
    let mut all = vec![
        content("bin/roce", Body::Program(built.command.clone())),
        content("bin/nvme-rdma", Body::Program(built.storage.clone())),
        content(LIBRARY, Body::File(built.library.clone())),
        content("lib/roce/libibverbs.so", Body::Link("libibverbs.so.1")),
        content(
            "lib/roce/libroce_preload.so",
            Body::File(built.preload.clone()),
        ),
        content(
            "lib/roce/librspreload.so",
            Body::File(built.sockets.clone()),
        ),
        content(
            format!("lib/roce/{}", cdi::PRELOAD_LIST_NAME),
            Body::File(cdi::PRELOAD_LIST.into()),
        ),
    ];
    if memchr::memmem::find(&built.library, CM_SYMBOL).is_some() {
        for name in ["librdmacm.so.1", "librdmacm.so"] {
            all.push(content(
                format!("lib/roce/{name}"),
                Body::Link("libibverbs.so.1"),
            ));
        }
    }
    for (name, page) in documents::man_pages()? {
        let page = compress(&page)?;
        all.push(content(
            format!("share/man/man1/{name}.1.gz"),
            Body::File(page),
        ));
    }
    for (path, script) in documents::completions() {
        all.push(content(path, Body::File(script)));
    }
    let doc = |name: &str| format!("share/doc/roce/{name}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, text) in pages::all(&root)? {
        all.push(content(doc(&name), Body::File(text.into())));
    }
    all.push(content(doc("copyright"), Body::File(COPYRIGHT.into())));
    let changes = compress(include_bytes!("../../../CHANGELOG.md"))?;
    all.push(content(doc("changelog.gz"), Body::File(changes)));
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// The copyright file of Debian's packages.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: roce

Files: *
Copyright: the authors of roce
License: MIT or Apache-2.0
 The texts are in LICENSE-MIT and LICENSE-APACHE beside this file.
";

fn content(path: impl Into<String>, body: Body) -> Content {
    Content {
        path: path.into(),
        body,
    }
}

/// Compresses with gzip, without a timestamp.
pub(crate) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    writer.finish()
}
