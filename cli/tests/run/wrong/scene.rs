//! A mistake of whole programs or networks, how it is made, and what the reports say about it.

use super::*;
use std::fmt;

/// The shell's part.
const SCRIPT: &str = include_str!("scene.sh");

/// Something of each end.
#[derive(Clone, Debug, Default)]
pub(super) struct Two<T> {
    pub(super) server: T,
    pub(super) client: T,
}

/// A mistake.
pub(super) struct Scene {
    /// The heading in the page.
    pub(super) title: &'static str,
    /// What the user did, and why it is wrong: for the page.
    pub(super) about: &'static str,
    /// Whether a router is between the hosts.
    pub(super) routed: bool,
    /// Commands before the programs start.
    pub(super) before: &'static str,
    /// What users type at each end; nothing if there is no server.
    pub(super) run: Two<&'static str>,
    /// Commands that wait until the server is ready.
    pub(super) ready: &'static str,
    /// Commands that break something when the server is ready.
    pub(super) breaks: &'static str,
    /// Commands that end the server, if it does not end by itself.
    pub(super) ends: &'static str,
    /// Commands that decide when users give up, where the programs wait for ever.
    pub(super) gives_up: &'static str,
    /// Parts of what the client's program itself says.
    pub(super) says: &'static [&'static str],
    /// Parts of the reports, in their order. Without any, the page does not show that end.
    pub(super) reports: Two<&'static [&'static str]>,
    /// What the reports let the reader do: for the page.
    pub(super) mend: &'static str,
    /// Whether the page shows the commands and reports, and not only a row.
    pub(super) is_on_page: bool,
}

/// A scene in which nothing is said yet. The server listens at the TCP port of pingpongs and perftest.
pub(super) const SCENE: Scene = Scene {
    title: "",
    about: "",
    routed: false,
    before: ":",
    run: Two {
        server: "",
        client: "",
    },
    ready: "listens 18515",
    breaks: ":",
    ends: ":",
    gives_up: ":",
    says: &[],
    reports: Two {
        server: &[],
        client: &[],
    },
    mend: "",
    is_on_page: false,
};

/// The output of the ends of a scene.
pub(super) struct Told {
    /// The reports alone.
    pub(super) reports: Two<String>,
    /// All that the client wrote.
    said: String,
    /// All of stderr.
    pub(super) all: Two<String>,
    /// For messages.
    context: String,
}

impl Scene {
    /// Runs the scene, with options for `roce why`.
    pub(super) fn run(&self, who: Who, options: &str) -> Told {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("allowed");
        let output = who
            .command("timeout")
            .args([
                "-k",
                "5",
                "100",
                "unshare",
                "--user",
                "--map-root-user",
                "--net",
            ])
            // So that nothing outlives the scene.
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", SCRIPT])
            .env("ROCE", ROCE)
            .env("LIBRARY", library())
            .env("TEXTBOOK", source("../verbs-shim/examples/textbook.c"))
            .env("OUT", folder.path())
            .env("ROUTED", if self.routed { "1" } else { "" })
            .env("BEFORE", self.before)
            .env("SERVER", self.run.server)
            .env("READY", self.ready)
            .env("BREAKS", self.breaks)
            .env("CLIENT", self.run.client)
            .env("ENDS", self.ends)
            .env("GIVES_UP", self.gives_up)
            .env("OPTIONS", options)
            .output()
            .expect("it starts");
        let read = |name: &str| {
            let bytes = fs::read(folder.path().join(name)).unwrap_or_default();
            text(&bytes)
        };
        let all = Two {
            server: read("server.err"),
            client: read("client.err"),
        };
        let said = read("client.out") + &all.client;
        let out =
            ["server.out", "client.out", "when"].map(|name| format!("{name}: {}", read(name)));
        let told = Told {
            reports: Two {
                server: report_in(&all.server),
                client: report_in(&all.client),
            },
            context: format!("{}: {output:?}\n{}", self.title, out.join("\n")),
            all,
            said,
        };
        assert!(output.status.success(), "{told}");
        told
    }

    /// Whether the reports have their parts.
    pub(super) fn check(&self, told: &Told) -> Result<(), String> {
        let ends = [
            ("program", self.says, &told.said),
            ("server", self.reports.server, &told.reports.server),
            ("client", self.reports.client, &told.reports.client),
        ];
        for (end, parts, report) in ends {
            if let Some(part) = missing_part(report, parts) {
                return Err(format!("{end}: no {part:?} in {told}"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Two { server, client } = &self.all;
        write!(f, "{}\nserver: {server}\nclient: {client}", self.context)
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The first part that a report does not have after those before it.
fn missing_part<'a>(report: &str, parts: &[&'a str]) -> Option<&'a str> {
    let mut rest = report;
    parts
        .iter()
        .copied()
        .find(|part| match rest.split_once(part) {
            Some((_, after)) => {
                rest = after;
                false
            }
            None => true,
        })
}

/// The lines that `roce why` wrote, without the program's own.
fn report_in(stderr: &str) -> String {
    let mut report = String::new();
    let mut is_inside = false;
    for line in stderr.lines() {
        let begins = ["roce: ", "roce why: ", "roce run: "];
        let begins = begins.iter().any(|start| line.starts_with(start));
        is_inside = begins || is_inside && line.starts_with("  ");
        if is_inside {
            report.push_str(line);
            report.push('\n');
        }
    }
    report
}
