//! Tar archives, compressed with gzip: the same contents give the same bytes.

use crate::contents::{Body, Content, compress};
use std::collections::BTreeSet;
use std::io;
use tar::{Builder, EntryType, Header};

/// A tarball with one folder, which can be unpacked anywhere.
pub(crate) fn pack(contents: &[Content], version: &str) -> io::Result<Vec<u8>> {
    compress(&archive(contents, &format!("roce-{version}/"))?)
}

/// An archive of the contents below `prefix`, which ends with a slash, with all parent folders.
pub(crate) fn archive(contents: &[Content], prefix: &str) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    let mut folders = BTreeSet::new();
    for Content { path, body } in contents {
        let path = format!("{prefix}{path}");
        for (at, _) in path.match_indices('/') {
            let folder = &path[..=at];
            if folders.insert(folder.to_owned()) {
                add(&mut builder, folder, EntryType::Directory, 0o755, &[])?;
            }
        }
        match body {
            Body::File(bytes) => add(&mut builder, &path, EntryType::Regular, 0o644, bytes)?,
            Body::Program(bytes) => add(&mut builder, &path, EntryType::Regular, 0o755, bytes)?,
            Body::Link(target) => {
                let mut header = header(EntryType::Symlink, 0o777, 0);
                builder.append_link(&mut header, &path, target)?;
            }
        }
    }
    builder.into_inner()
}

fn add(
    builder: &mut Builder<Vec<u8>>,
    path: &str,
    kind: EntryType,
    mode: u32,
    bytes: &[u8],
) -> io::Result<()> {
    let mut header = header(kind, mode, bytes.len() as u64);
    builder.append_data(&mut header, path, bytes)
}

/// Owned by root, without a timestamp.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
