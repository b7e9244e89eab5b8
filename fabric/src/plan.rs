//! What a cluster is made of, and what follows from it for its hosts.

use crate::frame;
use crate::host::{HOST_FILE, SHARED_MEMORY};
use roce_sim::network::Network;
use std::ffi::OsString;

/// What a cluster is made of.
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
    /// What every program is started by: `roce run --`, say.
    pub prefix: Vec<OsString>,
    /// Variables for all programs.
    pub variables: Vec<(OsString, OsString)>,
    /// What there is to say of a host beside its traffic. It is called in the namespaces of the host.
    pub look: fn() -> String,
}

impl ClusterPlan {
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
