//! Links for an older glibc than this machine's, with zig: zig knows which symbols each version of glibc has, and
//! makes stub libraries with them.
//!
//! Zig's own front end (`zig cc`) can't link the library for C programs, since it passes on only the last of several
//! version scripts, and it replaces libgcc_s by an unwinder of its own, which must not meet the frames of
//! `pthread_cancel`. So cargo calls this program as its linker, and this program calls `zig ld.lld` with the files
//! that `zig cc` would link, and a stub of libgcc_s (docs/adr/0068).

use serde_json::{Value, json};
use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The environment variable that makes this program a linker. Its value is the folder that `prepare` made.
pub(crate) const VARIABLE: &str = "XTASK_LINK";

/// The command that installs zig.
pub(crate) const INSTALL: &str = "pip install ziglang";

/// The file in the folder that says how to link.
const PLAN: &str = "plan.json";

/// The functions of libgcc_s that Rust's standard library may call, in the same versions on every processor.
const UNWIND: [(&str, &[&str]); 3] = [
    (
        "GCC_3.0",
        &[
            "_Unwind_DeleteException",
            "_Unwind_ForcedUnwind",
            "_Unwind_GetDataRelBase",
            "_Unwind_GetGR",
            "_Unwind_GetIP",
            "_Unwind_GetLanguageSpecificData",
            "_Unwind_GetRegionStart",
            "_Unwind_GetTextRelBase",
            "_Unwind_RaiseException",
            "_Unwind_Resume",
            "_Unwind_SetGR",
            "_Unwind_SetIP",
        ],
    ),
    (
        "GCC_3.3",
        &[
            "_Unwind_Backtrace",
            "_Unwind_FindEnclosingFunction",
            "_Unwind_GetCFA",
            "_Unwind_Resume_or_Rethrow",
        ],
    ),
    ("GCC_4.2.0", &["_Unwind_GetIPInfo"]),
];

/// The command that runs zig, if it is installed.
pub(crate) fn zig() -> Option<Vec<&'static str>> {
    let commands = [vec!["zig"], vec!["python3", "-m", "ziglang"]];
    commands.into_iter().find(|command| {
        let output = Command::new(command[0])
            .args(&command[1..])
            .arg("version")
            .output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// Makes a folder with all that [`run`] needs to link programs for `target` that run on glibc `libc` and newer.
pub(crate) fn prepare(
    zig: &[&str],
    target: &str,
    libc: (u32, u32),
) -> Result<PathBuf, Box<dyn Error>> {
    let own = env::current_exe()?;
    // The folder of the profile, such as debug, is in the target folder.
    let base = own.ancestors().nth(2).ok_or("this program is nowhere")?;
    let base = base.join("portable");
    let zig_target = zig_target(target, libc);
    let folder = base.join(&zig_target);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let cc = |args: &[&str]| {
        let mut command = Command::new(zig[0]);
        command.args(&zig[1..]).args(["cc", "-target", &zig_target]);
        command.args(["-O2", "-fno-sanitize=all", "-w"]).args(args);
        // Relative names of files have no spaces, so the line that zig prints can be divided into words.
        let command = command.current_dir(&base);
        output_of(command.env("ZIG_GLOBAL_CACHE_DIR", base.join("cache")))
    };
    let empty = folder.join("empty.c");
    fs::write(&empty, "int main(void) { return 0; }\n")?;
    let source = format!("{zig_target}/empty.c");
    let program = format!("{zig_target}/empty");
    let said = cc(&["-pie", "-v", &source, "-o", &program])?;
    let files = Files::of(&said, &program)
        .ok_or_else(|| format!("`zig cc -v` does not print what it links: {said}"))?;
    for (name, path) in &files.links {
        symlink(base.join(path), folder.join(name))?;
    }
    let functions = UNWIND.iter().flat_map(|(_, functions)| *functions);
    let code: String = functions
        .map(|it| format!("void {it}(void) {{}}\n"))
        .collect();
    fs::write(folder.join("unwind.c"), code)?;
    let nodes =
        UNWIND.map(|(version, functions)| format!("{version} {{ {}; }};\n", functions.join("; ")));
    fs::write(folder.join("unwind.map"), nodes.concat())?;
    cc(&[
        "-shared",
        "-nostdlib",
        "-fno-builtin",
        "-Wl,-soname,libgcc_s.so.1",
        &format!("-Wl,--version-script={zig_target}/unwind.map"),
        &format!("{zig_target}/unwind.c"),
        "-o",
        &format!("{zig_target}/libgcc_s.so"),
    ])?;
    let plan = json!({ "zig": zig, "machine": files.machine, "loader": files.loader });
    fs::write(folder.join(PLAN), plan.to_string())?;
    Ok(folder)
}

/// Zig's name of a target of Rust, with the version of glibc.
fn zig_target(target: &str, (major, minor): (u32, u32)) -> String {
    let processor = target.split('-').next().unwrap_or_default();
    let processor = if processor == "riscv64gc" {
        "riscv64"
    } else {
        processor
    };
    format!("{processor}-linux-gnu.{major}.{minor}")
}

/// Runs zig, and returns what it said.
fn output_of(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{command:?} ended with {}: {said}", output.status).into()),
    }
}

/// The files that `zig cc` links, and their format.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    /// The linker's name of the format, such as `elf_x86_64`.
    machine: String,
    /// The path of the dynamic loader.
    loader: String,
    /// The name under which the linker finds each file, and its path.
    links: Vec<(String, String)>,
}

impl Files {
    /// Takes them from the line of `zig cc -v` that links `program`.
    fn of(said: &str, program: &str) -> Option<Self> {
        let lines = said.lines().filter(|line| line.starts_with("ld.lld "));
        let mut lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let after = |words: &[&str], option: &str| {
            let at = words.iter().position(|word| *word == option)?;
            Some((*words.get(at + 1)?).to_owned())
        };
        let words = lines.rfind(|words| after(words, "-o").as_deref() == Some(program))?;
        let links: Vec<_> = words.iter().filter_map(|word| link(word)).collect();
        for needed in ["Scrt1.o", "libc.so", "libc_nonshared.a", "libld.so"] {
            links.iter().find(|(name, _)| name == needed)?;
        }
        Some(Self {
            machine: after(&words, "-m")?,
            loader: after(&words, "--dynamic-linker")?,
            links,
        })
    }
}

/// The name under which the linker finds a file of zig's line: `libc.so` for `libc.so.6`. The loader's path is absolute.
fn link(path: &str) -> Option<(String, String)> {
    if path.starts_with('/') {
        return None;
    }
    let name = Path::new(path).file_name()?.to_str()?;
    let library = name
        .split_once(".so.")
        .map(|(name, _)| format!("{name}.so"));
    let is_kept = matches!(name, "Scrt1.o" | "libc_nonshared.a");
    let name = library.or_else(|| is_kept.then(|| name.to_owned()))?;
    Some((name, path.to_owned()))
}

/// Links what cargo asks for in this program's arguments, which are those of a C compiler.
pub(crate) fn run(folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let plan: Value = serde_json::from_slice(&fs::read(folder.join(PLAN))?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let zig: Vec<String> = plan["zig"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    let (zig, words) = zig.split_first().ok_or("the plan names no zig")?;
    let given: Vec<OsString> = env::args_os().skip(1).collect();
    let status = Command::new(zig)
        .args(words)
        .arg("ld.lld")
        .args(["-m", &text(&plan["machine"])])
        .args(["--dynamic-linker", &text(&plan["loader"])])
        .args(arguments(&given, folder))
        .status()?;
    match status.success() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(io::Error::other(format!("zig ld.lld ended with {status}")).into()),
    }
}

/// The linker's arguments for those of a C compiler that links.
fn arguments(given: &[OsString], folder: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["--eh-frame-hdr".into(), "-L".into(), folder.into()];
    if !given.iter().any(|argument| argument == "-shared") {
        all.push(folder.join("Scrt1.o").into());
    }
    // The static part of the C library has the `pthread_atfork` and `stat` to link, so it precedes the shared part. It
    // follows all that is Rust, which may have a `stat` of its own.
    let libraries = given
        .iter()
        .position(|it| it.to_string_lossy().starts_with("-l"));
    for (at, argument) in given.iter().enumerate() {
        if Some(at) == libraries {
            all.push(folder.join("libc_nonshared.a").into());
        }
        let text = argument.to_str().unwrap_or_default();
        match text.strip_prefix("-Wl,") {
            Some(several) => all.extend(several.split(',').map(OsString::from)),
            None if is_for_compiler(text) => {}
            None => all.push(argument.clone()),
        }
    }
    // The loader has `__tls_get_addr`.
    all.extend(["--as-needed", "-lld"].map(|it| OsStr::new(it).to_owned()));
    all
}

/// Whether an argument means something to a C compiler only. `-Xlinker` precedes an argument of the linker.
fn is_for_compiler(argument: &str) -> bool {
    matches!(
        argument,
        "-Xlinker" | "-nodefaultlibs" | "-nostartfiles" | "-no-pie"
    ) || argument == "-m64"
        || argument.starts_with("-fuse-ld=")
        || argument.starts_with("-B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_gets_both_version_scripts() {
        let given = [
            "-m64",
            "-Wl,--version-script=/tmp/list",
            "a.o",
            "-lgcc_s",
            "-lc",
            "-L",
            "/x",
            "-o",
            "lib.so",
            "-shared",
            "-nodefaultlibs",
            "-fuse-ld=lld",
            "-Wl,-z,relro,-z,now",
            "-Xlinker",
            "--version-script=/a,b/versions.map",
        ];
        let translated = arguments(&given.map(OsString::from), Path::new("/p"));
        let expected = [
            "--eh-frame-hdr",
            "-L",
            "/p",
            "--version-script=/tmp/list",
            "a.o",
            "/p/libc_nonshared.a",
            "-lgcc_s",
            "-lc",
            "-L",
            "/x",
            "-o",
            "lib.so",
            "-shared",
            "-z",
            "relro",
            "-z",
            "now",
            "--version-script=/a,b/versions.map",
            "--as-needed",
            "-lld",
        ];
        assert_eq!(translated, expected.map(OsString::from));
        let program = arguments(&["-pie".into()], Path::new("/p"));
        assert!(program.contains(&"/p/Scrt1.o".into()), "{program:?}");
    }

    #[test]
    fn files_are_those_that_zig_links_into_a_program() {
        let said = "ld.lld -r -m elf_x86_64 -o cache/o/1/Scrt1.o cache/o/2/start.o\n\
                    ld.lld -z stack-size=16777216 -m elf_x86_64 -pie -o t/empty cache/o/1/Scrt1.o \
                    --dynamic-linker /lib64/ld.so.2 cache/o/3/empty.o --as-needed cache/o/4/libc.so.6 \
                    cache/o/4/libld.so.2 cache/o/5/libc_nonshared.a cache/o/6/libcompiler_rt.a\n";
        let files = Files::of(said, "t/empty").expect("all found");
        assert_eq!(files.machine, "elf_x86_64");
        assert_eq!(files.loader, "/lib64/ld.so.2");
        let links = [
            ("Scrt1.o", "cache/o/1/Scrt1.o"),
            ("libc.so", "cache/o/4/libc.so.6"),
            ("libld.so", "cache/o/4/libld.so.2"),
            ("libc_nonshared.a", "cache/o/5/libc_nonshared.a"),
        ];
        assert_eq!(
            files.links,
            links.map(|(name, path)| (name.to_owned(), path.to_owned()))
        );
        assert_eq!(Files::of(&said.replace("libld.so.2", ""), "t/empty"), None);
        assert_eq!(Files::of(said, "t/other"), None);
    }

    #[test]
    fn targets_have_zigs_names() {
        assert_eq!(
            zig_target("aarch64-unknown-linux-gnu", (2, 28)),
            "aarch64-linux-gnu.2.28"
        );
        assert_eq!(
            zig_target("riscv64gc-unknown-linux-gnu", (2, 31)),
            "riscv64-linux-gnu.2.31"
        );
    }
}
