//! Unpacks both packages with the same crates and, where it is installed, with dpkg.

use crate::build::Built;
use crate::contents::{self, Content};
use crate::{deb, tarball};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Command;

/// Fake files in place of those that take minutes to build.
fn contents() -> Vec<Content> {
    let built = Built {
        command: b"\x7fELF the command GLIBC_2.34\0 GLIBC_2.4\0 GLIBC_PRIVATE\0".to_vec(),
        library: b"\x7fELF the library rdma_create_event_channel\0".to_vec(),
        preload: b"\x7fELF the preloaded one".to_vec(),
        sockets: b"\x7fELF the one for sockets".to_vec(),
    };
    contents::all(&built).expect("made")
}

/// Mode, and text or target, by path; links begin with an arrow.
fn entries(archive: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let mut entries = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let mode = entry.header().mode().expect("a mode");
        assert_eq!(entry.header().uid().ok(), Some(0), "{path}");
        let target = entry.link_name().expect("readable");
        let mut bytes = Vec::new();
        match target {
            Some(target) => bytes = format!("-> {}", target.display()).into(),
            None => drop(entry.read_to_end(&mut bytes).expect("read")),
        }
        assert!(entries.insert(path, (mode, bytes)).is_none(), "twice");
    }
    entries
}

fn text(entries: &BTreeMap<String, (u32, Vec<u8>)>, path: &str) -> String {
    let (_, bytes) = entries
        .get(path)
        .unwrap_or_else(|| panic!("no {path} in {:?}", entries.keys()));
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks the contents of a package below its prefix.
fn check(entries: &BTreeMap<String, (u32, Vec<u8>)>, prefix: &str) {
    let at = |path: &str| format!("{prefix}{path}");
    assert_eq!(entries[&at("bin/roce")].0, 0o755);
    assert_eq!(entries[&at("lib/roce/libibverbs.so.1")].0, 0o644);
    assert!(text(entries, &at("lib/roce/libibverbs.so.1")).contains("the library"));
    assert!(text(entries, &at("lib/roce/libroce_preload.so")).contains("preloaded"));
    assert!(text(entries, &at("lib/roce/librspreload.so")).contains("sockets"));
    for link in ["libibverbs.so", "librdmacm.so", "librdmacm.so.1"] {
        let target = text(entries, &at(&format!("lib/roce/{link}")));
        assert_eq!(target, "-> libibverbs.so.1");
    }
    for page in ["roce", "roce-run", "roce-env", "roce-perf", "roce-decode"] {
        let path = at(&format!("share/man/man1/{page}.1.gz"));
        let mut page_text = String::new();
        GzDecoder::new(entries[&path].1.as_slice())
            .read_to_string(&mut page_text)
            .expect("text");
        assert!(page_text.contains(".TH "), "{page}: {page_text}");
        assert!(page_text.contains(".SH SYNOPSIS"), "{page}: {page_text}");
    }
    assert!(
        !entries.keys().any(|path| path.contains("probe")),
        "a hidden command"
    );
    for script in [
        "share/bash-completion/completions/roce",
        "share/fish/vendor_completions.d/roce.fish",
        "share/zsh/vendor-completions/_roce",
    ] {
        let script_text = text(entries, &at(script));
        assert!(script_text.contains("datapath"), "{script}");
        assert!(!script_text.contains("probe-namespace"), "{script}");
    }
    assert!(text(entries, &at("share/doc/roce/LICENSE-MIT")).contains("MIT"));
}

#[test]
fn the_tarball_holds_all() {
    let packed = tarball::pack(&contents(), "1.2.3").expect("packed");
    check(&entries(&packed), "roce-1.2.3/");
    let again = tarball::pack(&contents(), "1.2.3").expect("packed");
    assert!(packed == again, "the same bytes each time");
}

fn package() -> Vec<u8> {
    let contents = contents();
    let package = deb::Package {
        version: "1.2.3",
        architecture: deb::architecture("x86_64").expect("known"),
        libc: deb::newest_libc(&contents),
    };
    assert_eq!(package.file_name(), "roce_1.2.3_amd64.deb");
    package.pack(&contents).expect("packed")
}

#[test]
fn the_debian_package_holds_all() {
    let package = package();
    let mut archive = ar::Archive::new(package.as_slice());
    let mut parts = Vec::new();
    while let Some(part) = archive.next_entry() {
        let mut part = part.expect("a part");
        let mut bytes = Vec::new();
        part.read_to_end(&mut bytes).expect("read");
        let name = String::from_utf8_lossy(part.header().identifier()).into_owned();
        parts.push((name, bytes));
    }
    let [(first, format), (second, control), (third, data)] = parts.as_slice() else {
        panic!("{} parts", parts.len());
    };
    assert_eq!(
        (first.as_str(), format.as_slice()),
        ("debian-binary", b"2.0\n".as_slice())
    );
    assert_eq!(second, "control.tar.gz");
    assert_eq!(third, "data.tar.gz");
    let control = text(&entries(control), "control");
    for line in [
        "Version: 1.2.3\n",
        "Architecture: amd64\n",
        "libc6 (>= 2.34)",
    ] {
        assert!(control.contains(line), "{control}");
    }
    check(&entries(data), "usr/");
}

/// Checks with the tool that installs such packages.
#[test]
fn dpkg_understands_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("roce.deb");
    fs::write(&path, package()).expect("written");
    let dpkg = |option: &str| Command::new("dpkg-deb").arg(option).arg(&path).output();
    let Ok(info) = dpkg("--info") else {
        testkit::skip("dpkg-deb", "");
        return;
    };
    assert!(info.status.success(), "{info:?}");
    let listed = dpkg("--contents").expect("it starts");
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.contains("root/root") || listed.contains("0/0"),
        "{listed}"
    );
    assert!(
        listed.contains("usr/lib/roce/libibverbs.so -> libibverbs.so.1"),
        "{listed}"
    );
}
