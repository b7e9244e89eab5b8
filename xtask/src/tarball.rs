//! Archives in tar, compressed with gzip: the same bytes for the same contents.

use crate::contents::{Body, Content, compress};
use std::collections::BTreeSet;
use std::io;
use tar::{Builder, EntryType, Header};

/// A tarball with one folder, to be unpacked anywhere.
///
/// # Errors
/// If a path is longer than tar can say.
pub(crate) fn pack(contents: &[Content], version: &str) -> io::Result<Vec<u8>> {
    compress(&archive(contents, &format!("roce-{version}/"))?)
}

/// The contents below `prefix`, which ends in a slash, and all folders on the way.
///
/// # Errors
/// If a path is longer than tar can say.
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

/// Of root, and of no time.
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
