//! Unpacks the packages with the same crates and, where they are installed, with dpkg and pip.

use crate::build::Built;
use crate::contents::{self, Body, Content};
use crate::wheel::{self, Wheel};
use crate::{Limit, deb, libc, pages, tarball};
use flate2::read::{DeflateDecoder, GzDecoder};
use rawzip::ZipArchive;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Command;
use std::sync::LazyLock;

/// Fake files in place of those that take minutes to build.
static CONTENTS: LazyLock<Vec<Content>> = LazyLock::new(|| {
    let built = Built {
        command: b"\x7fELF the command GLIBC_2.34\0 GLIBC_2.4\0 GLIBC_PRIVATE\0".to_vec(),
        storage: b"\x7fELF the command for disks".to_vec(),
        library: b"\x7fELF the library rdma_create_event_channel\0".to_vec(),
        preload: b"\x7fELF the preloaded one".to_vec(),
        sockets: b"\x7fELF the one for sockets".to_vec(),
    };
    contents::all(&built).expect("made")
});

fn contents() -> Vec<Content> {
    CONTENTS.clone()
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
    assert_eq!(entries[&at("bin/nvme-rdma")].0, 0o755);
    let pages = [
        "roce",
        "roce-run",
        "roce-env",
        "roce-perf",
        "roce-sim-dcqcn",
    ];
    for page in pages.into_iter().chain(["nvme-rdma", "nvme-rdma-info"]) {
        let page_text = man_page(&entries[&at(&format!("share/man/man1/{page}.1.gz"))].1);
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
    for script in [
        "share/bash-completion/completions/nvme-rdma",
        "share/fish/vendor_completions.d/nvme-rdma.fish",
        "share/zsh/vendor-completions/_nvme-rdma",
    ] {
        assert!(text(entries, &at(script)).contains("discover"), "{script}");
    }
    assert!(text(entries, &at("share/doc/roce/LICENSE-MIT")).contains("MIT"));
}

fn man_page(compressed: &[u8]) -> String {
    let mut text = String::new();
    let read = GzDecoder::new(compressed).read_to_string(&mut text);
    read.expect("text");
    text
}

/// The pages of the packages by path.
fn packed_pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    for Content { path, body } in contents() {
        let (Some(name), Body::File(text)) = (path.strip_prefix("share/doc/roce/"), body) else {
            continue;
        };
        if let Ok(text) = String::from_utf8(text) {
            pages.insert(name.to_owned(), text);
        }
    }
    pages
}

/// The man pages of the packages by name.
fn man_pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    for Content { path, body } in contents() {
        let name = path.strip_prefix("share/man/man1/");
        let name = name.and_then(|name| name.strip_suffix(".1.gz"));
        if let (Some(name), Body::File(page)) = (name, body) {
            pages.insert(name.to_owned(), man_page(&page));
        }
    }
    pages
}

#[test]
fn packed_pages_link_to_packed_files_only() {
    let pages = packed_pages();
    assert!(pages.contains_key("docs/run.md"), "{:?}", pages.keys());
    let mut alive = 0;
    let mut dead = Vec::new();
    for (name, text) in &pages {
        for link in pages::links(text) {
            match pages.contains_key(&pages::resolved(name, link.target)) {
                true => alive += 1,
                false => dead.push(format!("{name}: {}", link.target)),
            }
        }
    }
    assert!(alive > 100, "{alive}");
    assert!(
        dead.is_empty(),
        "these are not packed:\n{}",
        dead.join("\n")
    );
}

/// A user of a package has no sources.
#[test]
fn the_front_page_is_for_users_of_a_package() {
    let pages = packed_pages();
    let front = &pages["README.md"];
    for word in ["cargo", "Rust 1.", "git clone"] {
        assert!(!front.contains(word), "{word}: {front}");
    }
    assert!(
        front.contains("](docs/run.md)") && front.contains("`nvme-rdma`"),
        "{front}"
    );
    let contents = &pages["docs/README.md"];
    assert!(
        contents.contains("(run.md)") && !contents.contains("fuzz/README.md"),
        "{contents}"
    );
}

/// The words of a page that look like `name(1)`.
fn references(page: &str) -> impl Iterator<Item = String> {
    let words = page.split_whitespace().map(|word| word.replace('\\', ""));
    words.filter_map(|word| Some(word.split_once("(1)")?.0.to_owned()))
}

#[test]
fn man_pages_refer_to_installed_pages_only() {
    let (man, pages) = (man_pages(), packed_pages());
    let mut references_found = 0;
    for (name, page) in &man {
        for reference in references(page) {
            references_found += 1;
            assert!(man.contains_key(&reference), "{name}: {reference}(1)");
        }
        let plain = page.replace('\\', "");
        for (at, _) in plain.match_indices("docs/") {
            let end = plain[at..].find(".md");
            let file = end.map(|end| &plain[at..at + end + 3]);
            if let Some(file) = file.filter(|file| !file.contains(char::is_whitespace)) {
                assert!(pages.contains_key(file), "{name}: {file}");
            }
        }
    }
    assert!(references_found > 20, "{references_found}");
}

/// The formatter that `man` runs finds no mistake in any page.
#[test]
fn man_pages_have_no_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut groff = Command::new("groff");
    groff.args(["-man", "-ww", "-z", "-Tutf8", "-Kutf8"]);
    for (name, page) in man_pages() {
        let path = folder.path().join(format!("{name}.1"));
        fs::write(&path, page).expect("written");
        groff.arg(path);
    }
    let Ok(output) = groff.output() else {
        testkit::skip("groff", "");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    // A table's line of one long word.
    let mut mistakes = said
        .lines()
        .filter(|line| !line.contains("cannot adjust line"));
    assert!(output.status.success(), "{said}");
    assert_eq!(mistakes.find(|line| !line.is_empty()), None, "{said}");
}

/// A pager shows each example as it is typed.
#[test]
fn man_pages_keep_each_example_on_a_line() {
    let man = man_pages();
    for (name, page) in &man {
        assert!(!page.contains("EXTRA"), "{name}");
    }
    let (_, examples) = man["roce-run"]
        .split_once(".SH EXAMPLES\n")
        .expect("a section");
    let first = ".PP\n.nf\n\\fBroce run ibv_devinfo\\fR\n.fi\n.RS 4\n\
                 any program that uses libibverbs.so.1\n.RE\n";
    assert!(examples.starts_with(first), "{examples}");
    assert!(man["roce-doctor"].contains(".SH \"EXIT STATUS\"\n"));
    assert!(
        man["roce-doctor"].contains("\"roce 0."),
        "{}",
        man["roce-doctor"]
    );
}

/// `cargo xtask` compiles for minutes.
#[test]
fn cargo_says_what_it_compiles() {
    let config = include_str!("../../../.cargo/config.toml");
    assert!(
        config.contains("xtask = \"run --package xtask --\""),
        "{config}"
    );
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
        libc: libc::newest(&contents),
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

fn wheel() -> (String, Vec<u8>) {
    let contents = contents();
    let wheel = Wheel {
        version: "1.2.3",
        architecture: wheel::architecture("x86_64").expect("known"),
        libc: libc::newest(&contents),
    };
    (wheel.file_name(), wheel.pack(&contents).expect("packed"))
}

/// Mode and bytes by path, in the order of the archive.
fn zipped(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let archive = ZipArchive::from_slice(archive).expect("an archive");
    let mut found = Vec::new();
    for entry in archive.entries() {
        let entry = entry.expect("an entry");
        let path = String::from_utf8(entry.file_path().as_bytes().to_vec()).expect("text");
        let mode = entry.mode().value();
        let file = archive.get_entry(entry.wayfinder()).expect("a file");
        let mut bytes = Vec::new();
        let read = DeflateDecoder::new(file.data()).read_to_end(&mut bytes);
        read.expect("compressed");
        found.push((path, mode, bytes));
    }
    found
}

#[test]
fn the_wheel_holds_all_but_links() {
    let (name, packed) = wheel();
    assert_eq!(name, "roce-1.2.3-py3-none-manylinux_2_34_x86_64.whl");
    let files = zipped(&packed);
    let has = |path: &str, mode: u32, text: &str| {
        let found = files.iter().find(|(name, _, _)| name == path);
        let (_, found_mode, bytes) = found.unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(*found_mode, mode, "{path}");
        assert!(String::from_utf8_lossy(bytes).contains(text), "{path}");
    };
    has("roce-1.2.3.data/scripts/roce", 0o100_755, "the command");
    has("roce-1.2.3.data/scripts/nvme-rdma", 0o100_755, "disks");
    let library = |name: &str| format!("roce-1.2.3.data/data/lib/roce/{name}");
    has(&library("libroce_verbs_shim.so"), 0o100_644, "the library");
    has(&library("libroce_preload.so"), 0o100_644, "preloaded");
    has(&library("librspreload.so"), 0o100_644, "sockets");
    has(
        "roce-1.2.3.data/data/share/doc/roce/docs/run.md",
        0o100_644,
        "roce run",
    );
    has(
        "roce-1.2.3.dist-info/licenses/LICENSE-MIT",
        0o100_644,
        "MIT",
    );
    has(
        "roce-1.2.3.dist-info/METADATA",
        0o100_644,
        "\nName: roce\nVersion: 1.2.3\n",
    );
    let tag = "\nTag: py3-none-manylinux_2_34_x86_64\n";
    has("roce-1.2.3.dist-info/WHEEL", 0o100_644, tag);
    let links = contents()
        .into_iter()
        .filter(|it| matches!(it.body, Body::Link(_)));
    // Two licences, METADATA, WHEEL and RECORD.
    assert_eq!(files.len(), contents().len() - links.count() + 5);
    assert!(packed == wheel().1, "the same bytes each time");
}

/// The same check as pip's, but for every file.
#[test]
fn the_wheel_records_each_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (name, packed) = wheel();
    let path = folder.path().join(name);
    fs::write(&path, packed).expect("written");
    let script = "import base64, csv, hashlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    assert wheel.testzip() is None
    names = wheel.namelist()
    assert names[-1].endswith('/RECORD'), names[-1]
    rows = list(csv.reader(wheel.read(names[-1]).decode().splitlines()))
    assert [row[0] for row in rows] == names, rows
    for name, digest, size in rows[:-1]:
        data = wheel.read(name)
        right = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        assert (digest, size) == ('sha256=' + right, str(len(data))), name
    assert rows[-1][1:] == ['', ''], rows[-1]
print(len(names), 'files')";
    let python = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .output();
    let Ok(checked) = python else {
        testkit::skip("python3", "");
        return;
    };
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn the_limit_of_glibc_is_a_version_or_this_machines() {
    assert_eq!("2.28".parse(), Ok(Limit::Version((2, 28))));
    assert_eq!("host".parse(), Ok(Limit::Host));
    for wrong in ["2", "new", "2.x", ""] {
        let error = wrong.parse::<Limit>().expect_err(wrong);
        assert!(error.contains("2.28"), "{error}");
    }
}
