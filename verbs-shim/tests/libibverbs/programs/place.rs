//! The test setups in which a server and its client run.

use std::process::Command;

use roce_tests::lab::Release;
use roce_tests::veth::{End, Pair};
use tempfile::TempDir;

use super::process::Process;
use crate::library;

/// Where a server and its client run, and how their packets travel.
pub(crate) struct Place<'a> {
    server: &'a End,
    client: &'a End,
    /// The server's address, to which the client connects.
    host: String,
    /// The device and the GID index of the server and of the client.
    devices: [(String, u8); 2],
    /// The value of `ROCE_DATAPATH`.
    datapath: &'static str,
    /// Bytes of payload in a packet.
    pub(crate) mtu: u64,
    library: TempDir,
}

/// A command to run at a [`Place`]. In it, `DEVICE` and `GID` stand for their values at each end,
/// and `HOST` for the server's address.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLine {
    pub(crate) words: String,
    /// Further arguments of the server, and of the client.
    pub(crate) role_args: [String; 2],
    /// The Debian release of the program; `None` for this machine's.
    pub(crate) release: Option<Release>,
    /// Variables of the environment.
    pub(crate) variables: Vec<(&'static str, &'static str)>,
}

impl<'a> Place<'a> {
    /// The two ends of a cable of MTU 1500. The GID of the IPv4 address has index 1, after the
    /// link-local GID.
    pub(crate) fn cable(pair: &'a Pair, datapath: &'static str) -> Self {
        let device = |end: &End| (format!("roce_{}", end.interface), 1);
        Self {
            server: &pair.far,
            client: &pair.near,
            host: pair.far.ip4.to_string(),
            devices: [device(&pair.far), device(&pair.near)],
            datapath,
            mtu: 1024,
            library: library::folder(),
        }
    }

    /// One host with one address for both ends. AF_XDP is not available: `lo` has one queue, to
    /// which only one socket can be bound.
    pub(crate) fn loopback(end: &'a End) -> Self {
        Self {
            server: end,
            client: end,
            host: "127.0.0.1".to_owned(),
            devices: [(); 2].map(|()| ("roce_lo".to_owned(), 0)),
            datapath: "udp",
            mtu: 4096,
            library: library::folder(),
        }
    }

    /// The server's device, and the datapath.
    pub(crate) fn name(&self) -> String {
        format!("{} over {}", self.devices[0].0, self.datapath)
    }

    /// Runs `words` as a server that listens at this TCP port, and as its client. Returns the
    /// client's output.
    pub(crate) fn run(&self, words: &str, port: u16) -> String {
        let words = CommandLine {
            words: words.to_owned(),
            ..CommandLine::default()
        };
        self.run_command_line(&words, port)
    }

    /// As [`Place::run`], with separate arguments for the server and the client.
    pub(crate) fn run_command_line(&self, words: &CommandLine, port: u16) -> String {
        let mut server = Process::spawn(self.command(words, 0));
        server.wait_until_it_listens(port);
        let mut client = self.command(words, 1);
        client.arg(&self.host);
        let output = Process::spawn(client).finish(&format!("client of {words:?}"));
        server.finish(&format!("server of {words:?}"));
        output
    }

    /// As [`Place::run_command_line`], for programs that listen for a service of the connection
    /// manager.
    pub(crate) fn run_served(&self, words: &CommandLine, service: u32) -> String {
        let mut server = Process::spawn(self.command(words, 0));
        match self.datapath {
            "xdp" => server.wait_until_it_has(service),
            _ => server.wait_until_it_serves(service),
        }
        let client = Process::spawn(self.command(words, 1));
        let output = client.finish(&format!("client of {words:?}"));
        server.finish(&format!("server of {words:?}"));
        output
    }

    /// Starts `words` as a server that listens for a service of the connection manager, and as
    /// its client.
    pub(crate) fn start_served(&self, words: &CommandLine, service: u32) -> [Process; 2] {
        let mut server = Process::spawn(self.command(words, 0));
        server.wait_until_it_serves(service);
        [server, Process::spawn(self.command(words, 1))]
    }

    /// Starts the client of `words` again.
    pub(crate) fn client(&self, words: &CommandLine) -> Process {
        Process::spawn(self.command(words, 1))
    }

    /// The command of the server (`role` is 0) or the client (1).
    fn command(&self, words: &CommandLine, role: usize) -> Command {
        let (device, gid) = &self.devices[role];
        let text = format!("{} {}", words.words, words.role_args[role])
            .replace("DEVICE", device)
            .replace("GID", &gid.to_string())
            .replace("HOST", &self.host);
        let mut text = text.split_whitespace();
        let end = [self.server, self.client][role];
        let program = text.next().unwrap_or_default();
        let mut command = match &words.release {
            None => end.command(program),
            Some(release) => {
                let program = release.path("usr/bin").join(program);
                let line = release.command_line(self.library.path(), &program);
                let mut command = end.command(&line[0]);
                command.args(&line[1..]);
                command
            }
        };
        command
            .args(text)
            .envs(words.variables.iter().copied())
            .env("LD_LIBRARY_PATH", self.library.path())
            .env("ROCE_DATAPATH", self.datapath);
        command
    }

    /// Starts a program without a peer, at the client's end.
    pub(crate) fn start_alone(&self, words: &str) -> Process {
        let words = CommandLine {
            words: words.to_owned(),
            ..CommandLine::default()
        };
        Process::spawn(self.command(&words, 1))
    }
}
