//! The parts of a cluster, and the addresses and files of its hosts that follow from them.

use crate::frame;
use crate::host::{HOST_FILE, SHARED_MEMORY};
use roce_sim::fabric::{HostId, NodeId};
use roce_sim::network::Network;
use std::ffi::OsString;

/// The parts of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// Hosts, switches, links, and what happens to them.
    pub network: Network,
    /// The seed of all that the network draws.
    pub seed: u64,
    /// The MTU of the hosts' interfaces.
    pub mtu: usize,
    /// Processes that MPI may start on each host.
    pub slots: usize,
    /// The command that starts every program, for example `roce run --`.
    pub prefix: Vec<OsString>,
    /// Variables for all programs.
    pub variables: Vec<(OsString, OsString)>,
    /// Whether `ROCE_CC` fits each host's link, if the network marks packets. Otherwise, hosts have
    /// the value of the calling process.
    pub fit_congestion_control: bool,
    /// Further facts about a host, beside its traffic. The function is called in the namespaces of the host.
    pub look: fn() -> String,
}

impl ClusterPlan {
    /// The variables of the programs of a host.
    pub(crate) fn variables_of(&self, host: HostId) -> Vec<(OsString, OsString)> {
        let mut variables = self.variables.clone();
        if self.fit_congestion_control {
            let settings = congestion_control(&self.network, host);
            variables.extend(settings.map(|text| ("ROCE_CC".into(), text.into())));
        }
        variables
    }

    /// The contents of `/etc/hosts`.
    pub(crate) fn hosts_file(&self) -> String {
        let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
        for (number, name) in (1..).zip(&self.network.hosts) {
            text += &format!("{} {name}\n", frame::ipv4(number));
        }
        text
    }

    /// The contents of the file of MPI's hosts.
    pub(crate) fn mpi_hosts(&self) -> String {
        let line = |name: &String| format!("{name} slots={}\n", self.slots);
        self.network.hosts.iter().map(line).collect()
    }
}

/// Settings of congestion control that fit a host's link; `None` if no switch marks packets. An
/// adapter knows its link's rate; the interface of a host does not.
fn congestion_control(network: &Network, host: HostId) -> Option<String> {
    if !network.marks() {
        return None;
    }
    let mut links = network.links.iter();
    let link = links.find(|link| link.ends.contains(&NodeId::Host(host)))?;
    let megabits = (link.spec.bits_per_sec / 1_000_000).max(1);
    Some(format!("dcqcn,link={megabits}"))
}

/// The variables that tell MPI of the hosts, and of the way to start programs on them: by `agent`.
pub fn mpi_variables(agent: &str) -> Vec<(OsString, OsString)> {
    [
        ("OMPI_MCA_orte_default_hostfile", HOST_FILE),
        ("OMPI_MCA_plm_rsh_agent", agent),
        // Its files have names that follow from the host's name and from process IDs, which are the
        // same in each cluster: in a folder that clusters share, they would take each other's.
        ("OMPI_MCA_orte_tmpdir_base", SHARED_MEMORY),
        ("PRTE_MCA_prte_tmpdir_base", SHARED_MEMORY),
        ("PRTE_MCA_prte_default_hostfile", HOST_FILE),
        ("PRTE_MCA_plm_ssh_agent", agent),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_control_fits_the_link_of_each_host_if_a_switch_marks() {
        let network = |ecn: &str| {
            let text = format!(
                "hosts = ['a', 'b']\n[defaults]\nrate = '25G'\n{ecn}\n[[switch]]\nname = 's'\n\
                 [[link]]\nbetween = ['a', 's']\n[[link]]\nbetween = ['b', 's']\nrate = '500K'\n"
            );
            Network::parse(&text).unwrap_or_else(|error| panic!("{error}"))
        };
        let marking = network("ecn = { kmin = '20K', kmax = '80K', pmax = '10%' }");
        let fits = |host| congestion_control(&marking, HostId(host));
        assert_eq!(fits(0).as_deref(), Some("dcqcn,link=25000"));
        assert_eq!(fits(1).as_deref(), Some("dcqcn,link=1"));
        assert_eq!(congestion_control(&network(""), HostId(0)), None);
    }
}
