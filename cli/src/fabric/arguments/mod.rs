//! The command line.

use super::ask::{DoArgs, SshArgs, TopArgs};
use crate::error::Error;
use clap::{Args, Subcommand, ValueEnum};
use roce_sim::fabric::{CableId, EcnSpec, LinkSpec, PfcSpec, SwitchSpec};
use roce_sim::network::{Event, FaultSpec, Network, NetworkError, units};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Make a cluster of hosts on this machine, joined by an emulated network, and run a program on it
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "roce fabric [OPTIONS] [--] [PROGRAM [ARGUMENT]...]\n       \
                      roce fabric ssh HOST [COMMAND]...\n       \
                      roce fabric do CHANGE...\n       \
                      roce fabric top",
    after_help = "\
Examples:
  roce fabric                                        a shell on h1 of two hosts, h1 and h2
  roce fabric --hosts 8 --rate 200M -- mpirun -np 8 ./all_to_all
  roce fabric --hosts 9 --ecn 20K:80K:10% --report incast -- ./incast.sh
  roce fabric --topology leaf-spine --leaves 2 --spines 4 -- sh
  roce fabric --network rack.toml -- sh              the format: docs/clusters.md
  roce fabric --hosts 4 --event '2s h3 cut' --event '5s h3 join' -- mpirun ./job
  roce fabric --hosts 4 --troubles 5 --over 30s --seed 7 -- ./test
  roce fabric ssh h2 ibv_devinfo                     in a program of the fabric, or beside it
  roce fabric do h1-s1 loss=5%

Each host has its own address, 10.0.0.1 for h1, which all hosts know by name; its own /sys, /dev/shm
and RDMA device; all other files are those of this machine. Every program on a host runs as by `roce
run`. When the first program ends, however it ends, all others do, and nothing remains. The exit code
is that of the program, or 125 if there is no cluster, 2 for wrong usage."
)]
pub struct FabricArgs {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    #[command(flatten)]
    pub(super) network: NetworkArgs,

    #[command(flatten)]
    pub(super) watch: WatchArgs,

    /// Processes that MPI may start on each host
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slots: usize,

    /// MTU of the hosts' interfaces, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(1280..=9000))]
    pub mtu: u16,

    /// The seed of everything random in the network [default: drawn, and printed where it matters]
    #[arg(long, value_name = "X")]
    pub seed: Option<u64>,

    /// Say at the end how late the emulation was, even if that distorts nothing
    #[arg(long, short)]
    pub verbose: bool,

    /// The program, which starts on the first host; by default a shell
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Command {
    Ssh(SshArgs),
    Do(DoArgs),
    Top(TopArgs),
}

/// The files that are kept of a run.
#[derive(Args, Clone, Debug)]
pub(super) struct WatchArgs {
    /// Write a report to a folder at the end: report.md, its plots and their data
    #[arg(long, value_name = "FOLDER")]
    pub(super) report: Option<PathBuf>,

    /// Capture frames to a file, with a comment on each that was marked or dropped; ,limit=SIZE and
    /// ,files=N may follow its name
    #[arg(long, value_name = "FILE")]
    pub(super) capture: Option<PathBuf>,

    /// With --capture, only the frames of this link, h1-s1 for example; h1->s1 for one direction;
    /// may be repeated
    #[arg(long, value_name = "LINK", requires = "capture")]
    pub(super) capture_link: Vec<String>,
}

/// A shape of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topology {
    /// All hosts at the switch s1.
    Star,
    /// Hosts at leaves, each of which has a link to each spine.
    LeafSpine,
    /// h1 and h2 at s1, h3 to h5 at s2, and a link between the two.
    ParkingLot,
}

#[derive(Args, Clone, Debug)]
pub(super) struct NetworkArgs {
    /// A description of the network, in TOML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["topology", "hosts", "leaves", "spines",
        "rate", "delay", "queue", "ecn", "pfc", "faults"])]
    network: Option<PathBuf>,

    /// The shape of the network
    #[arg(long, value_name = "SHAPE", default_value = "star")]
    topology: Topology,

    /// Number of hosts: h1, h2 and so on; of each leaf with leaf-spine
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=250))]
    hosts: u16,

    /// Number of leaves with leaf-spine
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=50))]
    leaves: u16,

    /// Number of spines with leaf-spine
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=50))]
    spines: u16,

    /// Bits per second of each link
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = units::rate)]
    rate: u64,

    /// The time from one end of a link to the other
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = units::time)]
    delay: Duration,

    /// The queue of each port, in bytes; at least the MTU
    #[arg(long, value_name = "BYTES", default_value = "256K", value_parser = units::bytes)]
    queue: usize,

    /// Switches mark packets: none up to KMIN bytes in the queue, all from KMAX, and in between up
    /// to PMAX of them. Hosts then have DCQCN for their link, ROCE_CC=dcqcn,link=RATE, unless
    /// ROCE_CC is set
    #[arg(long, value_name = "KMIN:KMAX:PMAX", value_parser = ecn)]
    ecn: Option<EcnSpec>,

    /// Switches pause the sender on a link from which PAUSE bytes wait, until RESUME bytes are left
    #[arg(long, value_name = "PAUSE:RESUME", value_parser = pfc)]
    pfc: Option<PfcSpec>,

    /// The faults of every link, as in ROCE_FAULTS: loss=1%,dup=0.1%
    #[arg(long, value_name = "SPEC", value_parser = units::faults)]
    faults: Option<FaultSpec>,

    /// Something that happens while the program runs, such as '2s h1-s1 down'; may be repeated
    #[arg(long, value_name = "WHEN WHAT")]
    event: Vec<String>,

    /// Number of troubles that are drawn: cut, slow or lossy links, frozen hosts, lost routes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) troubles: usize,

    /// The time within which troubles come and go
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::time)]
    over: Duration,

    /// Divide all rates by N and multiply all delays by N, those of faults and events too, so that
    /// this machine keeps up
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    slower: u32,
}

impl NetworkArgs {
    /// The network, with all that happens to it.
    pub(super) fn network(&self, seed: u64, mtu: u16) -> Result<Network, Error> {
        let usage = |text: String| Error::usage(text);
        let network = match &self.network {
            Some(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| usage(format!("{}: {error}", path.display())))?;
                Network::parse(&text)
                    .map_err(|error| usage(format!("{}: {error}", path.display())))?
            }
            None => self.shape(mtu),
        };
        let too_large = |error: NetworkError| usage(error.to_string());
        network.check_size().map_err(too_large)?;
        check_links(&network, mtu.into()).map_err(usage)?;
        let mut network = network.slower(self.slower);
        for text in &self.event {
            let event = event(&network, text).map_err(usage)?;
            network.events.push(event);
        }
        network
            .events
            .extend(network.events_from(seed, self.troubles, self.over));
        Ok(network)
    }

    fn shape(&self, mtu: u16) -> Network {
        let link = LinkSpec {
            bits_per_sec: self.rate,
            delay: self.delay,
            max_packet_bytes: usize::from(mtu),
            queue_bytes: self.queue,
            urgent_dscp: None,
        };
        let switch = SwitchSpec {
            ecn: self.ecn,
            pfc: self.pfc,
            ..SwitchSpec::default()
        };
        let hosts = usize::from(self.hosts);
        let mut network = match self.topology {
            Topology::Star => Network::star(hosts, link, switch),
            Topology::ParkingLot => Network::parking_lot(link, switch),
            Topology::LeafSpine => {
                let counts = (usize::from(self.leaves), usize::from(self.spines));
                Network::leaf_spine(counts, hosts, link, switch)
            }
        };
        for link in &mut network.links {
            link.faults = self.faults.unwrap_or_default();
        }
        network
    }
}

/// Headers of IPv4 and UDP.
const BELOW_TRANSPORT: usize = 28;

/// Checks that all links carry the frames of hosts with this MTU.
fn check_links(network: &Network, mtu: usize) -> Result<(), String> {
    let longest = mtu - BELOW_TRANSPORT;
    for (number, link) in network.links.iter().enumerate() {
        let (packet, queue) = (link.spec.max_packet_bytes, link.spec.queue_bytes);
        let name = network.link_name(CableId(number));
        if packet < longest {
            return Err(format!(
                "an MTU of {mtu} needs links whose max_packet is at least {longest}, and that of \
                 {name} is {packet}"
            ));
        }
        // A host's port asks for space for the longest frame before it reads any.
        if queue < mtu {
            return Err(format!(
                "an MTU of {mtu} needs queues of at least {mtu} bytes, and that of {name} has {queue}"
            ));
        }
    }
    Ok(())
}

fn event(network: &Network, text: &str) -> Result<Event, String> {
    let (at, change) = text.trim().split_once(' ').ok_or_else(|| {
        format!("{text:?} should be a time and what happens, such as '2s h1 cut'")
    })?;
    Ok(Event {
        at: units::time(at)?,
        change: network.change(change).map_err(|error| error.to_string())?,
    })
}

fn ecn(text: &str) -> Result<EcnSpec, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let &[kmin, kmax, pmax] = &parts[..] else {
        return Err("it should be KMIN:KMAX:PMAX, such as 20K:80K:10%".to_owned());
    };
    let spec = EcnSpec {
        kmin_bytes: units::bytes(kmin)?,
        kmax_bytes: units::bytes(kmax)?,
        pmax_percent: units::percent(pmax)?,
    };
    match spec.kmin_bytes <= spec.kmax_bytes {
        true => Ok(spec),
        false => Err("KMIN should not be more than KMAX".to_owned()),
    }
}

fn pfc(text: &str) -> Result<PfcSpec, String> {
    let (pause, resume) = text
        .split_once(':')
        .ok_or("it should be PAUSE:RESUME, such as 40K:20K")?;
    let spec = PfcSpec {
        pause_bytes: units::bytes(pause)?,
        resume_bytes: units::bytes(resume)?,
    };
    match spec.resume_bytes <= spec.pause_bytes {
        true => Ok(spec),
        false => Err("RESUME should not be more than PAUSE".to_owned()),
    }
}

#[cfg(test)]
mod tests;
