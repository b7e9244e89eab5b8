//! The test programs: how they are built, and in which order they run.

use crate::{Copy, Edit};
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A crate, and the tests that detect mutations in it.
struct Tested {
    /// Its folder.
    folder: &'static str,
    /// The tests that detect most mutations, the most promising first: arguments of `cargo test`.
    near: &'static [&'static str],
    /// The tests for the rest.
    wide: &'static [&'static str],
}

/// The crates whose mutations are detected. The codec does not depend on the stack, nor the stack
/// on communication management. The tests of these three are deterministic. Those of the others
/// use real sockets and threads, so only tests that need neither privilege nor the lab count.
const CRATES: &[Tested] = &[
    Tested {
        folder: "wire",
        near: &[
            "-p roce-wire --lib",
            "-p roce-stack --tests",
            "-p roce-cm --tests",
        ],
        wide: &["-p roce-sim --tests"],
    },
    Tested {
        folder: "stack",
        near: &["-p roce-stack --tests", "-p roce-cm --tests"],
        wide: &["-p roce-sim --tests"],
    },
    Tested {
        folder: "instruments/observe",
        near: &["-p roce-observe --lib", "-p roce-stack --test transport"],
        wide: &["-p roce-verbs --test capture --test watch --test watching --test why"],
    },
    Tested {
        folder: "instruments/faults",
        near: &["-p roce-faults --lib"],
        wide: &[],
    },
    Tested {
        folder: "cm",
        near: &["-p roce-cm --tests"],
        wide: &["-p roce-sim --tests"],
    },
    Tested {
        folder: "port",
        near: &["-p roce-port --lib"],
        wide: &[],
    },
    Tested {
        folder: "port/trust",
        near: &["-p roce-trust --tests"],
        wide: &["-p roce-udp --test sharing"],
    },
    Tested {
        folder: "udp",
        near: &[
            "-p roce-udp --lib",
            "-p roce-udp --test loopback --test sharing",
        ],
        wide: &[],
    },
    Tested {
        folder: "xdp",
        near: &["-p roce-xdp --lib"],
        wide: &[],
    },
    Tested {
        folder: "verbs",
        near: &["-p roce-verbs --lib", "-p roce-verbs --test loopback"],
        wide: &[],
    },
    Tested {
        folder: "verbs-shim",
        near: &["-p roce-verbs-shim --lib"],
        wide: &[],
    },
    Tested {
        folder: "apps/nvme",
        near: &["-p roce-nvme --tests"],
        wide: &[],
    },
    Tested {
        folder: "apps/rsockets",
        near: &["-p roce-rsockets --tests"],
        wide: &["-p roce-verbs-shim --test libibverbs -- sockets_over_rdma"],
    },
    Tested {
        folder: "cli",
        near: &["-p roce --lib"],
        wide: &[],
    },
];

fn tested(edit: &Edit) -> Option<&'static Tested> {
    CRATES
        .iter()
        .filter(|of| Path::new(&edit.file).starts_with(of.folder))
        .max_by_key(|of| of.folder.len())
}

/// The package of the crate that a file belongs to.
pub(crate) fn package(file: &str) -> String {
    let (folder, _) = file.split_once("/src/").unwrap_or((file, ""));
    match folder.rsplit_once('/').map_or(folder, |(_, name)| name) {
        "cli" => "roce".to_owned(),
        name => format!("roce-{name}"),
    }
}

/// Tests that cargo builds in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Arguments of `cargo test`, which select the programs.
    pub(crate) build: String,
    /// The tests to run, by parts of their names. All of them, if this is empty.
    names: Vec<String>,
}

impl Step {
    /// Parses arguments of `cargo test`, and names after `--`.
    fn parse(text: &str) -> Self {
        let (build, names) = text.split_once(" -- ").unwrap_or((text, ""));
        Self {
            build: build.to_owned(),
            names: names.split_whitespace().map(str::to_owned).collect(),
        }
    }

    fn all(texts: &[&str]) -> Vec<Self> {
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    /// The steps that detect `edit` most likely, the most promising first.
    pub(crate) fn near(edit: &Edit) -> Vec<Self> {
        match (&edit.tests, tested(edit)) {
            (Some(tests), _) => vec![Self::parse(tests)],
            (None, tested) => Self::all(tested.map_or(&[], |of| of.near)),
        }
    }

    /// The steps for an edit that survives the nearest.
    pub(crate) fn wide(edit: &Edit) -> Vec<Self> {
        match (&edit.tests, tested(edit)) {
            (Some(_), _) | (None, None) => Vec::new(),
            (None, Some(of)) => Self::all(of.wide),
        }
    }

    /// The quick tests of the step, whose programs are these.
    pub(crate) fn quick(&self, programs: &[Program]) -> Vec<Suite> {
        if self.names.is_empty() {
            return quick(programs);
        }
        suites(programs, &self.names, QUICK_SECONDS)
    }

    /// The other tests of the step.
    pub(crate) fn slow(&self, programs: &[Program]) -> Vec<Suite> {
        if self.names.is_empty() {
            return slow(programs);
        }
        Vec::new()
    }
}

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// The working directory in which cargo would run it.
    pub(crate) folder: PathBuf,
}

/// Why a program was not built.
#[derive(Debug)]
pub(crate) struct BuildFailure {
    /// The positions of the errors: the file, and the line counted from 1.
    pub(crate) places: Vec<(String, usize)>,
    /// The compiler's output.
    pub(crate) said: String,
}

/// Builds the test programs that the arguments `which` select.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn build(copy: &Copy, which: &str) -> io::Result<Result<Vec<Program>, BuildFailure>> {
    cargo(copy, &["test", "--no-run"], which)
}

/// Checks whether the libraries compile.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn check(copy: &Copy, which: &str) -> io::Result<Result<(), BuildFailure>> {
    Ok(cargo(copy, &["check"], which)?.map(drop))
}

fn cargo(
    copy: &Copy,
    command: &[&str],
    which: &str,
) -> io::Result<Result<Vec<Program>, BuildFailure>> {
    let output = Command::new("cargo")
        .current_dir(&copy.checkout)
        .env("CARGO_TARGET_DIR", &copy.target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "1")
        // A mutation may leave something unused, or make an expression overflow.
        .env("RUSTFLAGS", "--cap-lints=allow")
        .args(command)
        .args(["--message-format=json", "--quiet"])
        .args(which.split_whitespace())
        .stdin(Stdio::null())
        .output()?;
    let (mut programs, mut places, mut said) = (Vec::new(), Vec::new(), String::new());
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            continue;
        };
        let is_test = line.profile.is_some_and(|profile| profile.test);
        if let (true, Some(path), Some(manifest)) = (is_test, line.executable, line.manifest_path) {
            let folder = manifest.parent().map_or(PathBuf::new(), PathBuf::from);
            programs.push(Program { path, folder });
        }
        let Some(message) = line.message.filter(|message| message.level == "error") else {
            continue;
        };
        said.push_str(&message.rendered.unwrap_or_default());
        let primary = message.spans.into_iter().filter(|span| span.is_primary);
        places.extend(primary.map(|span| (span.file_name, span.line_start)));
    }
    if output.status.success() {
        return Ok(Ok(programs));
    }
    if said.is_empty() {
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Ok(Err(BuildFailure { places, said }))
}

/// The relevant parts of cargo's output.
#[derive(Deserialize)]
struct Line {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
    message: Option<Message>,
}

/// How a program is compiled. Beside the tests of a package, cargo builds the programs that they
/// start, which are no tests.
#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

/// A subset of a program's tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) program: Program,
    pub(crate) arguments: Vec<String>,
    /// The limit of their processor time in seconds. A program that exceeds it hangs.
    pub(crate) seconds: u32,
}

impl Suite {
    /// Whether its tests are quick.
    pub(crate) fn is_quick(&self) -> bool {
        self.seconds <= QUICK_SECONDS
    }

    /// The time limit in seconds, for programs that wait. Even on a slow machine, one that takes
    /// longer hangs.
    pub(crate) fn most_seconds(&self) -> u32 {
        if self.is_quick() { 300 } else { 1800 }
    }

    /// A suite of the tests with these names.
    pub(crate) fn named(program: &Program, names: impl Iterator<Item = String>) -> Self {
        Self {
            program: program.clone(),
            arguments: std::iter::once("--exact".to_owned()).chain(names).collect(),
            seconds: 5,
        }
    }
}

/// The time limit of all quick tests together, in seconds.
const QUICK_SECONDS: u32 = 40;

/// The slowest tests, by parts of their names.
const SLOW: &[&str] = &[
    "soak::",
    "hostile_packets_do_no_harm",
    "hostile_datagrams_do_no_harm",
    "is_as_calculated",
    "each_of_many_keeps_to_its_rate",
];

/// The quick tests of `programs`, which detect most mutations.
fn quick(programs: &[Program]) -> Vec<Suite> {
    let skipping = SLOW.iter().flat_map(|name| ["--skip", name]);
    let arguments: Vec<_> = skipping.map(str::to_owned).collect();
    suites(programs, &arguments, QUICK_SECONDS)
}

/// The other tests.
fn slow(programs: &[Program]) -> Vec<Suite> {
    let arguments: Vec<_> = SLOW.iter().map(|name| (*name).to_owned()).collect();
    suites(programs, &arguments, 200)
}

fn suites(programs: &[Program], arguments: &[String], seconds: u32) -> Vec<Suite> {
    let suite = |program: &Program| Suite {
        program: program.clone(),
        arguments: arguments.to_vec(),
        seconds,
    };
    programs.iter().map(suite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(file: &str, tests: Option<&str>) -> Edit {
        Edit {
            name: String::new(),
            file: file.to_owned(),
            line: 0,
            text: String::new(),
            at: 0..0,
            new: String::new(),
            tests: tests.map(str::to_owned),
        }
    }

    fn builds(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.build.as_str()).collect()
    }

    #[test]
    fn a_crate_has_its_tests() {
        let edit = edit("cm/src/lib.rs", None);
        assert_eq!(builds(&Step::near(&edit)), ["-p roce-cm --tests"]);
        assert_eq!(builds(&Step::wide(&edit)), ["-p roce-sim --tests"]);
        assert_eq!(package("verbs-shim/src/qp/mod.rs"), "roce-verbs-shim");
        assert_eq!(package("cli/src/lib.rs"), "roce");
        assert_eq!(package("port/trust/src/files.rs"), "roce-trust");
    }

    #[test]
    fn a_mutation_may_name_the_tests_that_detect_it() {
        let edit = edit("udp/src/bind.rs", Some("-p roce-udp --test sharing -- a b"));
        let steps = Step::near(&edit);
        assert_eq!(builds(&steps), ["-p roce-udp --test sharing"]);
        let program = Program {
            path: "/p".into(),
            folder: "/".into(),
        };
        let suites = steps[0].quick(&[program]);
        assert_eq!(suites[0].arguments, ["a", "b"]);
        assert_eq!(Step::wide(&edit), []);
    }
}
