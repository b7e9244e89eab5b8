//! The files that the dynamic loader would load for a program (ld.so(8)), and where it would find them.

use super::machine::Machine;
use crate::elf::Image;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

/// The most files to look at for one program.
const MAX_FILES: usize = 2000;

/// The deepest nesting of includes in /etc/ld.so.conf.
const MAX_INCLUDES: usize = 8;

/// The folders searched last.
const DEFAULT: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The way that the program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Directly, in this environment.
    Directly,
    /// By `roce run`, which puts this stack's library in front of LD_LIBRARY_PATH.
    ByRun,
}

/// A library that the loader would load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The name that it is requested by.
    pub(super) name: String,
    /// The file; `None` if it is not found.
    pub(super) path: Option<PathBuf>,
    /// The file that requests it.
    pub(super) by: PathBuf,
}

/// Finds libraries as the loader does.
#[derive(Debug)]
pub(super) struct Loader<'a> {
    machine: &'a Machine,
    start: Start,
    /// The folders of LD_LIBRARY_PATH.
    search: Vec<PathBuf>,
    /// The folders of /etc/ld.so.conf, and the default ones.
    system: Vec<PathBuf>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(machine: &'a Machine, start: Start) -> Self {
        let search = machine.variable("LD_LIBRARY_PATH").unwrap_or_default();
        let separator = |sign| sign == ':' || sign == ';';
        let search = search.split(separator).filter(|part| !part.is_empty());
        let mut system = Vec::new();
        configured(machine, "/etc/ld.so.conf", 0, &mut system);
        system.extend(DEFAULT.map(|folder| machine.at(folder)));
        Self {
            machine,
            start,
            search: search.map(|folder| place(machine, folder)).collect(),
            system,
        }
    }

    /// The libraries that a program loads when it starts, including those of LD_PRELOAD, in the
    /// loader's order.
    pub(super) fn tree(&self, program: &Path) -> Vec<Loaded> {
        let mut found: BTreeMap<String, Loaded> = BTreeMap::new();
        let mut order = Vec::new();
        // A file, and the rpaths of the files that needed it.
        let mut queue = VecDeque::new();
        let preload = self.machine.variable("LD_PRELOAD").unwrap_or_default();
        let is_separator = |sign: char| sign == ':' || sign.is_whitespace();
        let preloaded = preload.split(is_separator).filter(|name| !name.is_empty());
        for name in preloaded {
            let path = self.named(name).or_else(|| self.resolve(name, &[], &[]));
            let by = PathBuf::from("LD_PRELOAD");
            let inner = name.rsplit('/').next().unwrap_or(name).to_owned();
            order.push(inner.clone());
            queue.extend(path.clone().map(|path| (path, Vec::new())));
            let name = inner.clone();
            found.insert(inner, Loaded { name, path, by });
        }
        queue.push_back((program.to_owned(), Vec::new()));
        while let Some((file, inherited)) = queue.pop_front() {
            let Some(image) = Image::read(&file) else {
                continue;
            };
            let origin = file.canonicalize().unwrap_or_else(|_| file.clone());
            let expand = |folders: &[String]| -> Vec<PathBuf> {
                let of = |folder: &String| self.expand(folder, &origin);
                folders.iter().flat_map(of).collect()
            };
            let runpath = expand(&image.runpath);
            let mut rpath = Vec::new();
            if image.runpath.is_empty() {
                rpath = expand(&image.rpath);
                rpath.extend(inherited);
            }
            for name in image.needed {
                if found.contains_key(&name) || found.len() >= MAX_FILES {
                    continue;
                }
                let path = self
                    .named(&name)
                    .or_else(|| self.resolve(&name, &rpath, &runpath));
                queue.extend(path.clone().map(|path| (path, rpath.clone())));
                order.push(name.clone());
                let by = file.clone();
                found.insert(name.clone(), Loaded { name, path, by });
            }
        }
        order.iter().filter_map(|name| found.remove(name)).collect()
    }

    /// The library that a program without a search path of its own gets when it opens `name` at run
    /// time.
    pub(super) fn opened(&self, name: &str) -> Option<PathBuf> {
        self.resolve(name, &[], &[])
    }

    /// Resolves a name that is a path.
    fn named(&self, name: &str) -> Option<PathBuf> {
        let path = name.contains('/').then(|| place(self.machine, name))?;
        path.is_file().then_some(path)
    }

    fn resolve(&self, name: &str, rpath: &[PathBuf], runpath: &[PathBuf]) -> Option<PathBuf> {
        let in_one_of = |folders: &[PathBuf]| {
            let mut places = folders.iter().map(|folder| folder.join(name));
            places.find(|path| path.is_file())
        };
        in_one_of(rpath)
            .or_else(|| self.by_run(name))
            .or_else(|| in_one_of(&self.search))
            .or_else(|| in_one_of(runpath))
            .or_else(|| in_one_of(&self.system))
    }

    /// This stack's library, if `roce run` would put it there.
    fn by_run(&self, name: &str) -> Option<PathBuf> {
        const NAMES: [&str; 4] = [
            "libibverbs.so.1",
            "libibverbs.so",
            "librdmacm.so.1",
            "librdmacm.so",
        ];
        let offered = self.start == Start::ByRun && NAMES.contains(&name);
        self.machine.library.clone().ok().filter(|_| offered)
    }

    /// Expands a folder in a file's search path.
    fn expand(&self, folder: &str, file: &Path) -> Vec<PathBuf> {
        let origin = file.parent().unwrap_or(Path::new("/")).display();
        let origin = origin.to_string();
        let with = |lib: &str| {
            let text = ["$ORIGIN", "${ORIGIN}"]
                .iter()
                .fold(folder.to_owned(), |text, sign| text.replace(sign, &origin));
            text.replace("${LIB}", lib).replace("$LIB", lib)
        };
        let libs: &[&str] = match folder.contains("LIB") {
            true => &[
                "lib64",
                "lib/x86_64-linux-gnu",
                "lib/aarch64-linux-gnu",
                "lib",
            ],
            false => &[""],
        };
        let place = |text: String| match folder.contains("ORIGIN") {
            true => PathBuf::from(text),
            false => place(self.machine, &text),
        };
        let folders = libs.iter().map(|lib| place(with(lib)));
        folders.filter(|folder| folder.is_dir()).collect()
    }
}

/// A path as a program on the machine sees it.
pub(super) fn place(machine: &Machine, path: &str) -> PathBuf {
    match path.starts_with('/') {
        true => machine.at(path),
        false => machine.current_dir.join(path),
    }
}

/// The folders listed in a file like /etc/ld.so.conf.
fn configured(machine: &Machine, file: &str, depth: usize, folders: &mut Vec<PathBuf>) {
    let text = machine.text(file).unwrap_or_default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("include ") {
            Some(pattern) if depth < MAX_INCLUDES => {
                // The only pattern in use: /etc/ld.so.conf.d/*.conf
                let (folder, name) = pattern.trim().rsplit_once('/').unwrap_or(("", pattern));
                let ending = name.trim_start_matches('*');
                for name in machine.names(folder) {
                    if name.ends_with(ending) {
                        configured(machine, &format!("{folder}/{name}"), depth + 1, folders);
                    }
                }
            }
            Some(_) => {}
            None if line.starts_with('/') => folders.push(machine.at(line)),
            None => {}
        }
    }
}

/// Whether a file is a libibverbs or librdmacm by its name, with any suffix.
pub(super) fn is_verbs(name: &str) -> bool {
    let rest = ["libibverbs", "librdmacm"]
        .iter()
        .find_map(|start| name.strip_prefix(start));
    // `libibverbs-8f14e45f.so.1.14.39.0` is one, `libibverbs_helper.so` is not.
    rest.is_some_and(|rest| {
        rest.starts_with(".so") || rest.starts_with('-') && rest.contains(".so")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::testing::{FakeMachine, elf};

    /// The file that a program of this fake machine gets as libibverbs.so.1.
    fn got(fake: &FakeMachine, start: Start) -> Option<String> {
        let tree = Loader::new(&fake.machine, start).tree(&fake.machine.at("/usr/bin/program"));
        let loaded = tree.into_iter().find(|l| l.name == "libibverbs.so.1")?;
        Some(fake.machine.display_path(&loaded.path?))
    }

    #[test]
    fn the_order_is_the_loaders() {
        let mut fake = FakeMachine::healthy();
        fake.write("/usr/bin/program", elf(&["libmiddle.so"], None, None));
        fake.write(
            "/usr/lib/libmiddle.so",
            elf(&["libibverbs.so.1"], None, None),
        );
        assert_eq!(got(&fake, Start::Directly), None);
        let ours = Some("/opt/roce/libibverbs.so.1".to_owned());
        assert_eq!(got(&fake, Start::ByRun), ours);

        fake.write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
        fake.write("/etc/ld.so.conf.d/a.conf", "# x\n/usr/lib/here # y\n");
        fake.write("/usr/lib/here/libibverbs.so.1", "system's");
        let system = Some("/usr/lib/here/libibverbs.so.1".to_owned());
        assert_eq!(got(&fake, Start::Directly), system);
        assert_eq!(got(&fake, Start::ByRun), ours);

        // A runpath is searched after LD_LIBRARY_PATH …
        fake.write("/usr/lib/inner/libibverbs.so.1", "bundled");
        let bundled = Some("/usr/lib/inner/libibverbs.so.1".to_owned());
        let needs = ["libibverbs.so.1"];
        fake.write(
            "/usr/lib/libmiddle.so",
            elf(&needs, None, Some("$ORIGIN/inner")),
        );
        assert_eq!(got(&fake, Start::Directly), bundled);
        assert_eq!(got(&fake, Start::ByRun), ours);
        fake.set("LD_LIBRARY_PATH", "/nowhere:/usr/lib/here");
        assert_eq!(got(&fake, Start::Directly), system);
        // … and an rpath before it, including the program's.
        fake.write(
            "/usr/lib/libmiddle.so",
            elf(&needs, Some("${ORIGIN}/inner"), None),
        );
        assert_eq!(got(&fake, Start::ByRun), bundled);
        fake.write("/usr/lib/libmiddle.so", elf(&needs, None, None));
        fake.write(
            "/usr/bin/program",
            elf(&["libmiddle.so"], Some("/usr/lib/inner"), None),
        );
        assert_eq!(got(&fake, Start::ByRun), bundled);
    }

    #[test]
    fn preloaded_libraries_come_first() {
        let mut fake = FakeMachine::healthy();
        fake.write(
            "/usr/bin/program",
            elf(&["libibverbs.so.1"], Some("/usr/lib"), None),
        );
        fake.write("/usr/lib/libibverbs.so.1", "system's");
        fake.set("LD_PRELOAD", "/opt/roce/libibverbs.so.1 libx.so");
        let ours = Some("/opt/roce/libibverbs.so.1".to_owned());
        assert_eq!(got(&fake, Start::Directly), ours);
    }

    /// Compares with ldd(1) for programs of this machine.
    #[test]
    fn the_real_loader_finds_the_same() {
        let mut compared = 0;
        let own = std::env::current_exe().expect("a path");
        let others = [
            "/bin/sh",
            "/usr/bin/ibv_devinfo",
            "/usr/bin/rping",
            "/usr/bin/ucx_info",
        ];
        for program in std::iter::once(own).chain(others.map(PathBuf::from)) {
            let output = std::process::Command::new("ldd").arg(&program).output();
            let Ok(output) = output else { continue };
            let machine = Machine::here(None);
            let tree = Loader::new(&machine, Start::Directly).tree(&program);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`
            for line in text.lines() {
                let Some((name, rest)) = line.trim().split_once(" => ") else {
                    continue;
                };
                let theirs = rest.split(' ').next().unwrap_or_default();
                let loaded = tree.iter().find(|loaded| loaded.name == name);
                let loaded = loaded.unwrap_or_else(|| panic!("{name} of {text}: {tree:#?}"));
                let ours = loaded
                    .path
                    .as_ref()
                    .and_then(|path| path.canonicalize().ok());
                assert_eq!(
                    ours,
                    Path::new(theirs).canonicalize().ok(),
                    "{name} of {text}"
                );
                compared += 1;
            }
        }
        let has_ldd = std::process::Command::new("ldd").arg("--version").output();
        assert!(compared > 0 || has_ldd.is_err());
    }

    #[test]
    fn cyclic_dependencies_and_includes_end() {
        let fake = FakeMachine::healthy();
        fake.write("/usr/bin/program", elf(&["a.so"], None, None));
        fake.write("/lib/a.so", elf(&["b.so", "a.so"], None, None));
        fake.write("/lib/b.so", elf(&["a.so"], None, None));
        fake.write("/etc/ld.so.conf", "include /etc/*.conf\n");
        let loader = Loader::new(&fake.machine, Start::Directly);
        assert_eq!(loader.tree(&fake.machine.at("/usr/bin/program")).len(), 2);
    }
}
