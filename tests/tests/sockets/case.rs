//! A program that has a server and a client, with its options.

use std::net::IpAddr;

/// The programs of both ends. They must agree on the options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) program: &'static str,
    pub(crate) options: &'static str,
}

/// An address as the programs take it, with the interface if it is link-local.
pub(crate) fn written(address: IpAddr, interface: &str) -> String {
    match address {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => format!("{ip}%{interface}"),
        _ => address.to_string(),
    }
}

impl Case {
    /// The server's command line, bound to an address.
    pub(crate) fn server(&self, at: &str) -> Vec<String> {
        self.words(&["-b", at])
    }

    /// The client's.
    pub(crate) fn client(&self, server: &str) -> Vec<String> {
        self.words(&["-s", server])
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let words = [self.program].into_iter().chain(self.options.split(' '));
        let words = words.chain(more.iter().copied());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Whether a program that has succeeded printed a result.
    pub(crate) fn has_result(&self, said: &str) -> bool {
        let is_result = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() == 8 && words[7].parse::<f64>().is_ok() && words[5].ends_with('s')
        };
        said.lines().any(is_result)
    }
}

#[test]
fn a_result_is_recognized() {
    let case = Case {
        program: "rstream",
        options: "",
    };
    let heading = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n";
    let line = "custom    1000    10      10      195k        0.09s      0.02     467.60\n";
    assert!(case.has_result(&format!("{heading}{line}")));
    assert!(!case.has_result(heading));
    assert!(!case.has_result("rrecv: Connection reset by peer"));
}
