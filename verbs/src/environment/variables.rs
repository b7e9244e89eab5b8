//! The environment variables that this project reads: one list for the library, the `roce`
//! command, `roce variables`, and docs/run.md.

/// The reader of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    /// The library, when a program opens devices; this includes `roce run` and `roce perf`.
    Library,
    /// Only the `roce` command.
    Command,
    /// Programs that `roce run` starts. `roce run` sets it, users do not.
    Started,
    /// This project's own tests, benchmarks and tools.
    Tests,
}

/// An environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The valid values, as users write them: `auto|udp|xdp`. Empty for variables that users do not
    /// set.
    pub values: &'static str,
    /// The effect, in one line.
    pub meaning: &'static str,
    /// Its reader.
    pub read_by: ReadBy,
}

impl Variable {
    /// Whether users set it.
    pub fn is_for_users(&self) -> bool {
        matches!(self.read_by, ReadBy::Library | ReadBy::Command)
    }
}

const fn library(name: &'static str, values: &'static str, meaning: &'static str) -> Variable {
    Variable {
        name,
        values,
        meaning,
        read_by: ReadBy::Library,
    }
}

const fn started(name: &'static str) -> Variable {
    Variable {
        read_by: ReadBy::Started,
        ..library(name, "", "")
    }
}

const fn tests(name: &'static str) -> Variable {
    Variable {
        read_by: ReadBy::Tests,
        ..library(name, "", "")
    }
}

/// All variables. Those that users set come first, in the order in which `roce variables` shows them.
/// An empty value counts as unset.
pub const VARIABLES: &[Variable] = &[
    library(
        "ROCE_DEVICES",
        "[^]eth0,...",
        "use only these devices, named by device or by interface; with ^ in front, all but these [default: all]",
    ),
    library(
        "ROCE_DEVICE_NAMES",
        "eth0=mlx5_0,...",
        "give devices other names, for programs that look for a name [default: roce_ and the \
         interface's name]",
    ),
    library(
        "ROCE_DATAPATH",
        "auto|udp|xdp",
        "the datapath [default: auto]: UDP sockets, or AF_XDP, which needs privileges; auto chooses \
         AF_XDP where the driver supports zero-copy",
    ),
    library(
        "ROCE_UDP_BUFFER_MIB",
        "N",
        "with UDP sockets: the receive buffer to request from the kernel [default: 4]",
    ),
    library(
        "ROCE_UDP_FLOWS",
        "N",
        "with UDP sockets: the most sockets for flows, each with its own source port; with 0, \
         all send from port 4791 [default: 128]",
    ),
    library(
        "ROCE_UDP_SPLICE",
        "auto|off|BYTES",
        "with UDP sockets: send datagrams of at least BYTES without a copy by the kernel; auto: those \
         of 16 KiB and more while that costs less [default: auto]",
    ),
    library(
        "ROCE_LOCAL",
        "auto|off",
        "with UDP sockets: packets to other processes of this user on this host go through shared memory; \
         off: through sockets, too [default: auto]",
    ),
    library(
        "ROCE_XDP_MODE",
        "auto|native|generic",
        "with AF_XDP: whether its program runs in the driver or in the kernel",
    ),
    library(
        "ROCE_XDP_QUEUES",
        "N",
        "with AF_XDP: use the interface's first N queues [default: all]",
    ),
    library(
        "ROCE_XDP_CHECKSUM",
        "none|auto|software",
        "with AF_XDP over IPv6: what fills in UDP checksums [default: none]",
    ),
    library(
        "ROCE_XDP_PRIORITY_TAG",
        "0|1",
        "with AF_XDP: frames carry an 802.1Q tag with their priority [default: 0]",
    ),
    library(
        "ROCE_V1",
        "0|1",
        "with AF_XDP: support RoCE v1, too; auto then chooses AF_XDP [default: 0]",
    ),
    library(
        "ROCE_FAULTS",
        "loss=1%,...",
        "inject faults: lose, delay, reorder, duplicate and corrupt packets that arrive; or make calls and \
         completions fail, such as post_send:ENOMEM@3",
    ),
    library(
        "ROCE_CC",
        "dcqcn|delay|none[,paper|connectx][,link=RATE][,NAME=VALUE...]|@FILE",
        "congestion control [default: dcqcn,paper]; its parameters have the names that NVIDIA's \
         adapters use",
    ),
    library(
        "ROCE_QOS",
        "NAME=VALUE,...|@FILE",
        "traffic classes and priorities: default_roce_tos=104, traffic_class=104, sl2dscp=3:26, \
         dscp-prio=26:3",
    ),
    library(
        "ROCE_PCAP",
        "run-%p.pcapng[,limit=SIZE][,files=N]",
        "capture packets, with comments on what became of them; %p is the process ID. The capture \
         ends at 1 GiB, or at limit=SIZE (512M, 4G, none); with files=N, the latest N files of that \
         size are kept",
    ),
    library(
        "ROCE_METRICS",
        "9100",
        "serve metrics for Prometheus over HTTP, at this port of the loopback or at ADDRESS:PORT",
    ),
    library(
        "ROCE_WHY",
        "stderr|FILE",
        "write why QPs fail, as they fail: the cause with its numbers, the evidence and what to do; \
         and which calls are refused; several processes may share a FILE; FILE.jsonl gets JSON",
    ),
    library(
        "ROCE_WHY_PCAP",
        "FILE.pcapng",
        "write the last packets of each QP that fails, with the explanation as a comment; several \
         processes may share the file",
    ),
    library(
        "ROCE_LOG",
        "1",
        "print on stderr, for each call that fails, the function, the error and the value that was \
         wrong",
    ),
    library(
        "ROCE_VENDOR_PART_ID",
        "N",
        "the part number that devices report, for programs that depend on it [default: 0]",
    ),
    library(
        "ROCE_TIE_MEMORY",
        "0|1",
        "a memory region ends when the program unmaps its memory, so that peers never reach what is \
         mapped there later [default: 0]",
    ),
    library(
        "ROCE_SOCKETS",
        "log,only,...",
        "with librspreload.so: log each connection, do without TCP (only), include connections within \
         the host (loopback), say nothing of TCP (quiet), try RDMA for wait=MILLISECONDS [default: \
         3000]; off leaves all sockets alone",
    ),
    Variable {
        name: "ROCE_LIBRARY_DIR",
        values: "FOLDER",
        meaning: "where `roce run` and `roce env` find the library [default: beside the command, or \
                  in ../lib/roce from there]",
        read_by: ReadBy::Command,
    },
    started("ROCE_FILES"),
    started("ROCE_TALLY"),
    tests("ROCE_COMBINATIONS"),
    tests("ROCE_COMMIT"),
    tests("ROCE_CROWD"),
    tests("ROCE_LAB"),
    tests("ROCE_LAB_ACCEL"),
    tests("ROCE_LAB_CACHE"),
    tests("ROCE_LAB_RUN"),
    tests("ROCE_LAB_VICTIM"),
    tests("ROCE_LIBRARY_UNDER_TEST"),
    tests("ROCE_MUTANT"),
    tests("ROCE_PACER_QPS"),
    tests("ROCE_PACKAGE"),
    tests("ROCE_PERFTEST"),
    tests("ROCE_POWER_CUTS"),
    tests("ROCE_PROGRAMS"),
    tests("ROCE_PROGRAMS_DIR"),
    tests("ROCE_PROGRAMS_WAY"),
    tests("ROCE_SEED"),
    tests("ROCE_SEEDS"),
    tests("ROCE_SIM_FROM"),
    tests("ROCE_SOAK_SECONDS"),
    tests("ROCE_TEST_CROWD_AT"),
    tests("ROCE_TEST_LISTENER"),
    tests("ROCE_TEST_SHARING"),
    tests("ROCE_TEST_UNSET_PATH"),
    tests("ROCE_TRACE"),
    tests("ROCE_UNDER_TEST"),
    tests("ROCE_XDP_VICTIM"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// The names in `text` that are string literals of their own.
    fn quoted(text: &str) -> impl Iterator<Item = &str> {
        text.split('"').skip(1).filter(|part| {
            let is_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
            part.strip_prefix("ROCE_")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_name))
        })
    }

    fn sources(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                let skipped = ["target", "shared", "corpus", "docs"];
                let is_hidden = name.as_encoded_bytes().starts_with(b".");
                if !is_hidden && !skipped.iter().any(|skip| name == *skip) {
                    sources(&path, found);
                }
            } else if path.extension().is_some_and(|ext| ext == "rs")
                // The tests of that file have many names that are wrong on purpose.
                && !path.ends_with("environment/unknown.rs")
            {
                let text = fs::read_to_string(&path).expect("a source");
                found.extend(quoted(&text).map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_variable_that_the_sources_name_is_listed_once() {
        let mut found = BTreeSet::new();
        sources(&root(), &mut found);
        assert!(found.contains("ROCE_PCAP"), "{found:?}");
        let listed: BTreeSet<_> = VARIABLES.iter().map(|v| v.name.to_owned()).collect();
        assert_eq!(listed.len(), VARIABLES.len(), "a name is listed twice");
        // Tests elsewhere misspell it on purpose.
        let misspelt = "ROCE_FAULT";
        let unlisted = found.difference(&listed);
        let unlisted: Vec<_> = unlisted.filter(|name| *name != misspelt).collect();
        assert!(
            unlisted.is_empty(),
            "add to verbs/src/environment/variables.rs: {unlisted:?}"
        );
        let stale: Vec<_> = listed.difference(&found).collect();
        assert!(stale.is_empty(), "nothing reads {stale:?}");
    }

    /// docs/run.md has a row for each variable that users set, with the same text.
    #[test]
    fn the_documentation_has_the_same_list() {
        let path = root().join("docs/run.md");
        let text = fs::read_to_string(path).expect("docs/run.md");
        let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("| `ROCE_")).collect();
        let expected: Vec<String> = VARIABLES
            .iter()
            .filter(|variable| variable.is_for_users())
            .map(|v| {
                let values = v.values.replace('|', "\\|");
                format!("| `{}` | `{values}` | {} |", v.name, v.meaning)
            })
            .collect();
        assert_eq!(rows, expected, "docs/run.md should have exactly these rows");
    }
}
