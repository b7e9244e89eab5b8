use super::*;
use clap::Parser;
use roce_sim::network::{Change, LinkChange};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    fabric: FabricArgs,
}

/// The network of a command line.
fn network(options: &[&str]) -> Result<Network, String> {
    let words = ["fabric"].iter().chain(options);
    let args = Line::try_parse_from(words).expect("well-formed").fabric;
    let network = args.network.network(1, args.mtu);
    network.map_err(|error| error.to_string())
}

/// The network of a command line and a description.
fn described(options: &[&str], description: &str) -> Result<Network, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("network.toml");
    fs::write(&path, description).expect("written");
    let path = path.display().to_string();
    network(&[&["--network", &path], options].concat())
}

#[test]
fn slower_divides_the_rates_of_events_too_but_not_twice_those_of_troubles() {
    let star = "topology = 'star'\nhosts = 2\ndefaults = { rate = '500M', faults = 'delay=2us' }\n\
                [[event]]\nat = '1s'\ndo = 'h1-s1 rate=50M'\n";
    let options = [
        "--slower",
        "10",
        "--event",
        "2s h1-s1 rate=20M",
        "--event",
        "3s h1-s1 delay=1us",
        "--troubles",
        "50",
    ];
    let network = described(&options, star).expect("well-formed");
    let usual = network.links[0].spec.bits_per_sec;
    assert_eq!(usual, 50_000_000);
    let faults = |text: &str| text.parse::<FaultSpec>().expect("well-formed");
    assert_eq!(network.links[0].faults, faults("delay=20us"));
    let changes = network
        .events
        .iter()
        .filter_map(|event| match event.change {
            Change::Link(_, change) => Some(change),
            _ => None,
        });
    let changes: Vec<LinkChange> = changes.collect();
    let expected = [
        LinkChange::Rate(5_000_000),
        LinkChange::Rate(2_000_000),
        LinkChange::Faults(faults("delay=10us")),
    ];
    assert_eq!(changes[..3], expected);
    let drawn = changes[3..].iter().filter_map(|change| match change {
        LinkChange::Rate(rate) => Some(*rate),
        _ => None,
    });
    let drawn: Vec<u64> = drawn.collect();
    assert!(!drawn.is_empty());
    let of_troubles = usual / 10..=usual;
    assert!(drawn.iter().all(|rate| of_troubles.contains(rate)));
}

#[test]
fn a_queue_that_holds_no_frame_of_the_mtu_is_refused() {
    let star = "topology = 'star'\nhosts = 2\n[[link]]\nbetween = ['h2', 's1']\nqueue = 1499\n\
                max_packet = 1480\n";
    let expected = "an MTU of 1500 needs queues of at least 1500 bytes, and that of h2-s1 has 1499";
    assert_eq!(described(&[], star), Err(expected.to_owned()));
    let at_limit = star.replace("1499", "1500");
    assert!(described(&[], &at_limit).is_ok());
    let expected = "an MTU of 9000 needs queues of at least 9000 bytes, and that of h1-s1 has 8192";
    let options = ["--mtu", "9000", "--queue", "8K"];
    assert_eq!(network(&options), Err(expected.to_owned()));
    assert!(network(&["--mtu", "9000", "--queue", "9000"]).is_ok());
}

#[test]
fn a_network_that_is_too_large_is_refused() {
    let leaf_spine = |leaves: &str, spines: &str, hosts: &str| {
        let options = [
            "--topology",
            "leaf-spine",
            "--leaves",
            leaves,
            "--spines",
            spines,
            "--hosts",
            hosts,
        ];
        network(&options)
    };
    for (leaves, spines, hosts, expected) in [
        ("2", "2", "250", "500 hosts should be 1 to 250"),
        ("50", "50", "5", "2750 links should be at most 2000"),
    ] {
        let error = leaf_spine(leaves, spines, hosts).expect_err("too large");
        assert_eq!(error, expected);
    }
    assert!(leaf_spine("2", "2", "125").is_ok());
    assert!(leaf_spine("50", "35", "5").is_ok());
    assert!(network(&["--hosts", "250"]).is_ok());
}
