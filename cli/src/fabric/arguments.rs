//! The command line.

use super::ssh::SshArgs;
use clap::{Args, Subcommand};
use roce_sim::fabric::{Fabric, FabricBuilder, HostSpec, LinkSpec, SwitchSpec};
use std::ffi::OsString;

/// Make a cluster of hosts on this machine, joined by an emulated network, and run a program on it
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "roce fabric [OPTIONS] [--] [PROGRAM [ARGUMENT]...]\n       roce fabric ssh HOST [COMMAND]..."
)]
pub struct FabricArgs {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    /// Number of hosts, h1, h2 and so on, at one switch
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=250))]
    pub hosts: u16,

    /// Processes that MPI may start on each host
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slots: usize,

    #[command(flatten)]
    pub(super) network: NetworkArgs,

    /// Report at the end how late the emulation was
    #[arg(long, short)]
    pub verbose: bool,

    /// The program, which starts on h1; by default a shell
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Command {
    Ssh(SshArgs),
}

/// The network.
#[derive(Args, Clone, Debug)]
pub(super) struct NetworkArgs {
    /// Bits per second of each link
    #[arg(long, value_name = "BITS", default_value_t = 1_000_000_000)]
    rate: u64,

    /// MTU of the hosts' interfaces, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    pub(super) mtu: usize,
}

impl NetworkArgs {
    pub(super) fn star(&self, hosts: u16) -> Fabric {
        let mut builder = FabricBuilder::new();
        let switch = builder.switch(SwitchSpec::default());
        let link = LinkSpec {
            bits_per_sec: self.rate,
            max_packet_bytes: self.mtu,
            ..LinkSpec::default()
        };
        for _ in 0..hosts {
            let host = builder.host(HostSpec {
                outside: true,
                ..HostSpec::default()
            });
            builder.cable(host, switch, link);
        }
        builder.build(1)
    }
}
