//! Arguments that several subcommands have.

use super::Outcome;
use super::disk::Disk;
use crate::Address;
use crate::host::{Host, HostOptions, NamespaceInfo};
use crate::wire::Nqn;
use clap::Args;
use std::time::Duration;

/// How a host connects.
#[derive(Args, Clone, Debug)]
pub(super) struct ConnectArgs {
    /// This host's name, as the target knows it [default: made at random]
    #[arg(long, value_name = "NQN")]
    host: Option<Nqn>,

    /// Time until a command that is not answered makes its queue fail, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    timeout: u64,
}

impl ConnectArgs {
    pub(super) fn options(&self) -> HostOptions {
        let mut options = HostOptions {
            timeout: Duration::from_secs(self.timeout.max(1)),
            ..HostOptions::default()
        };
        if let Some(name) = &self.host {
            options.name = name.clone();
        }
        options
    }
}

/// Which namespace is read or written, and by how much at a time.
#[derive(Args, Clone, Debug)]
pub(super) struct DiskArgs {
    /// The subsystem: nvme://ADDRESS[:PORT]/NQN
    #[arg(value_name = "ADDRESS")]
    pub(super) address: Address,

    /// The namespace [default: the first one]
    #[arg(long, value_name = "NUMBER")]
    namespace: Option<u32>,

    /// Bytes of each command, for example 4K
    #[arg(long, default_value = "128K", value_parser = super::size::parse, value_name = "BYTES")]
    pub(super) block: u64,

    /// I/O queues, each with a thread
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: u16,

    /// Commands outstanding in each queue
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1023))]
    pub(super) depth: u16,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl DiskArgs {
    /// Connects, and finds the namespace.
    pub(super) fn connect(&self) -> Outcome<(Host, Disk)> {
        let options = HostOptions {
            queues: self.queues,
            depth: self.depth + 1,
            ..self.connect.options()
        };
        let connect = || Host::connect(&self.address, &options);
        let mut host = super::say::while_waiting_for(self.address.at, connect)?;
        let namespace = self.find(host.namespaces())?;
        let (block, len) = (self.block, u64::from(namespace.block_len));
        if block == 0 || block % len != 0 {
            return Err(format!(
                "--block {block}: the blocks of namespace {} have {len} bytes, so use a multiple of that",
                namespace.number
            )
            .into());
        }
        let queues = host.queues();
        let most = queues.first().map_or(0, |queue| queue.max_transfer());
        if block > most {
            return Err(format!(
                "--block {block}: a command of this controller transfers at most {most} bytes"
            )
            .into());
        }
        if queues.len() < usize::from(self.queues) {
            super::say::say(format_args!(
                "the controller grants {} of {} queues",
                queues.len(),
                self.queues
            ));
        }
        let disk = Disk {
            namespace,
            block: block as usize,
            depth: usize::from(self.depth),
        };
        Ok((host, disk))
    }

    fn find(&self, namespaces: &[NamespaceInfo]) -> Outcome<NamespaceInfo> {
        let wanted = |n: &&NamespaceInfo| self.namespace.is_none_or(|number| n.number == number);
        namespaces.iter().find(wanted).copied().ok_or_else(|| {
            let known: Vec<_> = namespaces.iter().map(|n| n.number.to_string()).collect();
            match (self.namespace, known.is_empty()) {
                (Some(number), false) => {
                    format!("no namespace {number}: there are {}", known.join(", "))
                }
                _ => "the controller has no namespace that this host can use".to_owned(),
            }
            .into()
        })
    }
}
