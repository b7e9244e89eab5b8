//! Descriptions that are refused, and that must not panic.

use super::*;
use crate::dice::Dice;
use crate::network::options::DEFAULT_LINK;

#[test]
fn a_wrong_description_is_refused_with_its_line() {
    let defaults = "hosts = 2\ntopology = 'star'\n[defaults]\n";
    let of_defaults = |line: &str| format!("{defaults}{line}");
    for (text, expected) in [
        (
            "",
            "line 1: a network needs hosts, such as hosts = 8, or a topology",
        ),
        ("\n= 3", "line 2: "),
        ("hosts = 0", "line 1: 0 hosts should be 1 to 250"),
        ("\nhosts = 251", "line 2: 251 hosts should be 1 to 250"),
        (
            "hosts = -1",
            "line 1: invalid value: a negative number, expected a number of hosts such as 8",
        ),
        (
            "hosts = 'many'",
            "line 1: invalid type: string \"many\", expected a number of hosts",
        ),
        ("hosts = []", "line 1: 0 hosts should be 1 to 250"),
        (
            "hosts = ['a', 'a']",
            "line 1: \"a\" is the name of two nodes",
        ),
        (
            "hosts = [\n'a', '*']",
            "line 2: \"*\" should be a name: a letter, then",
        ),
        ("hosts = ['']", "line 1: \"\" should be a name"),
        ("hosts = ['a-b']", "line 1: \"a-b\" should be a name"),
        (
            "hosts = ['abcdefghijklmnop']",
            "line 1: \"abcdefghijklmnop\" should be a name",
        ),
        ("hosts = ['é']", "line 1: \"é\" should be a name"),
        (
            "hosts = 2\nhots = 3",
            "line 2: unknown field `hots`, expected one of `hosts`, ",
        ),
        ("hosts = 2\nhosts = 3", "line 2: duplicate key"),
        (
            "hosts = 2",
            "line 1: the host h1 should have a link, such as between = [\"*\", \"s1\"], or",
        ),
        (
            "topology = 'ring'",
            "line 1: unknown variant `ring`, expected one of `star`, `leaf-spine`",
        ),
        (
            "topology = 'star'",
            "line 1: a star needs its number of hosts",
        ),
        (
            "topology = 'star'\nhosts = 2\nleaves = 3",
            "line 3: leaves, spines and hosts_per_leaf",
        ),
        (
            "hosts = 2\nspines = 3",
            "line 2: leaves, spines and hosts_per_leaf",
        ),
        (
            "topology = 'parking-lot'\nhosts = 4",
            "line 2: hosts should be 5, as the topology says",
        ),
        (
            "topology = 'leaf-spine'\nleaves = 2\nspines = 2",
            "line 1: a leaf-spine needs hosts_per_leaf",
        ),
        (
            "topology = 'leaf-spine'\nleaves = 2\nspines = 0\nhosts_per_leaf = 1",
            "line 3: spines = 0 should be 1 to 50",
        ),
        (
            "topology = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts_per_leaf = 126",
            "line 4: hosts_per_leaf = 126 should be 1 to 125",
        ),
        (
            "topology = 'leaf-spine'\nleaves = 50\nspines = 50\nhosts_per_leaf = 1",
            "line 1: 50 leaves and 50 spines need too many links: at most 2000",
        ),
        (
            &of_defaults("rate = '0'"),
            "line 4: \"0\" should be a rate such as 200M",
        ),
        (
            &of_defaults("rate = '200X'"),
            "line 4: \"200X\" should be a rate such as 200M",
        ),
        (
            &of_defaults("rate = true"),
            "line 4: invalid type: boolean `true`, expected a string or",
        ),
        (
            &of_defaults("delay = '10'"),
            "line 4: \"10\" should be a time such as 10us",
        ),
        (
            &of_defaults("queue = '2G'"),
            "line 4: \"2G\" should be a number of bytes such as 256K",
        ),
        (
            &of_defaults("queue = -5"),
            "line 4: \"-5\" should be a number of bytes",
        ),
        (
            &of_defaults("faults = 'loss=2'"),
            "line 4: \"loss=2\" should be a chance from 0% to 100%",
        ),
        (
            &of_defaults("loss = '2%'"),
            "line 4: unknown field `loss`, expected one of `rate`",
        ),
        (
            &of_defaults("ecn = { kmin = 1, kmax = 2, pmax = '101%' }"),
            "line 4: \"101%\" should be a whole percentage",
        ),
        (
            &of_defaults("ecn = { kmin = 1, kmax = 2 }"),
            "line 4: missing field `pmax`",
        ),
        (
            "hosts = 1\n[[link]]\nrate = 1",
            "line 2: missing field `between`",
        ),
        (
            "hosts = 1\n[[link]]\nbetween = ['h1']",
            "line 3: invalid length 1, expected an array of length 2",
        ),
        (
            "topology = 'star'\nhosts = 2\n[[switch]]\nname = 's2'",
            "line 4: \"s2\" should be one of the topology's switches",
        ),
        (
            "topology = 'star'\nhosts = 2\n[[link]]\nbetween = ['h1', 'h2']",
            "line 4: the topology has no link between h1 and h2",
        ),
        (
            "topology = 'star'\nhosts = 2\n[[event]]\nat = '1s'\ndo = 'h3 kill'",
            "line 5: \"h3\" should be a host or switch (h1, h2, s1), or a link such as h1-s1",
        ),
        (
            "topology = 'star'\nhosts = 2\n[[event]]\nat = '1h'\ndo = 'h2 kill'",
            "line 4: \"1h\" should be a time",
        ),
    ] {
        let message = refused(text);
        assert!(
            message.starts_with(expected),
            "{text}\n{message}\n{expected}"
        );
    }
}

#[test]
fn wrong_thresholds_and_sizes_are_refused() {
    for (text, expected) in [
        (
            "ecn = { kmin = 3, kmax = 2, pmax = '1%' }",
            "ecn: kmin, 3 bytes, should not exceed kmax",
        ),
        (
            "pfc = { pause = 2, resume = 3 }",
            "pfc: resume, 3 bytes, should not exceed pause",
        ),
        (
            "buffer = { bytes = 10, headroom = 10, hysteresis = 0 }",
            "buffer: headroom, 10 bytes, should be less than bytes, 10",
        ),
        (
            "queue = 4199",
            "a queue of 4199 bytes should hold the largest packet, of 4200 bytes",
        ),
        (
            "max_packet = 511",
            "max_packet, 511 bytes, should be at least 512",
        ),
        (
            "urgent_dscp = 64",
            "urgent_dscp = 64 should be a DSCP from 0 to 63",
        ),
    ] {
        let text = format!("topology = 'parking-lot'\n[defaults]\n{text}");
        let message = refused(&text);
        assert!(
            message.starts_with(&format!("line 2: {expected}")),
            "{message}"
        );
    }
}

#[test]
fn wrong_links_are_refused() {
    let nodes = "hosts = 3\n[[switch]]\nname = 's1'\n[[switch]]\nname = 's2'\n";
    for (links, expected) in [
        ("h1 h1", "line 7: h1 should not be linked to itself"),
        ("h1 s1,s1 h1", "line 9: the link s1-h1 should be given once"),
        (
            "h1 s1,h1 s2",
            "line 9: the host h1 should have one link: it has h1-s1 and h1-s2",
        ),
        (
            "h1 s1,* h1",
            "line 9: the host h1 should have one link: it has h1-s1 and h2-h1",
        ),
        (
            "* s1,* s2",
            "line 9: the host h1 should have one link: it has h1-s1 and h1-s2",
        ),
        (
            "h1 s3",
            "line 7: \"s3\" should be a host or switch: h1, h2, h3, s1, s2",
        ),
        ("* s3", "line 7: \"s3\" should be a host or switch"),
        (
            "* *",
            "line 7: [\"*\", \"*\"] should have a switch instead of one *",
        ),
        (
            "h1 s1,h2 s1,h3 s1,* s2",
            "line 13: \"*\" should stand for some hosts: other links name all",
        ),
        (
            "h1 s1,h3 s1",
            "line 1: the host h2 should have a link, such as between = [\"*\", \"s1\"]",
        ),
        (
            "h1 s1,* s2",
            "line 1: h1 should be able to reach h2: links between their switches",
        ),
    ] {
        let tables = links.split(',').map(|link| {
            let (a, b) = link.split_once(' ').expect("two ends");
            format!("[[link]]\nbetween = ['{a}', '{b}']\n")
        });
        let message = refused(&format!("{nodes}{}", tables.collect::<String>()));
        assert!(
            message.starts_with(expected),
            "{links}\n{message}\n{expected}"
        );
    }
    let twice = "hosts = 1\n[[switch]]\nname = 'h1'";
    assert!(refused(twice).starts_with("line 3: \"h1\" is the name of two nodes"));
}

#[test]
fn there_are_limits_on_everything() {
    let switches = |count: usize| -> String {
        let table = |number| format!("[[switch]]\nname = 's{number}'\n");
        (0..count).map(table).collect()
    };
    let star = "[[link]]\nbetween = ['*', 's0']\n";
    let at_limit = format!("hosts = {MAX_HOSTS}\n{}{star}", switches(MAX_SWITCHES));
    assert!(Network::parse(&at_limit).is_ok());
    let message = refused(&format!("hosts = 1\n{}{star}", switches(MAX_SWITCHES + 1)));
    assert!(
        message.contains("there should be at most 100 switches"),
        "{message}"
    );
    let pairs = (0..MAX_SWITCHES).flat_map(|a| (0..a).map(move |b| (a, b)));
    let link = |(a, b)| format!("[[link]]\nbetween = ['s{a}', 's{b}']\n");
    let links: String = pairs.take(MAX_LINKS).map(link).collect();
    let message = refused(&format!(
        "hosts = 1\n{}{links}{star}",
        switches(MAX_SWITCHES)
    ));
    assert!(
        message.contains("there should be at most 2000 links"),
        "{message}"
    );
    let event = "[[event]]\nat = 0s\ndo = 'h1 kill'\n".replace("0s", "'0s'");
    let events = format!("topology = 'star'\nhosts = 1\n{}", event.repeat(MAX_EVENTS));
    assert!(Network::parse(&events).is_ok());
    let message = refused(&format!("{events}{event}"));
    assert!(
        message.contains("there should be at most 10000 events"),
        "{message}"
    );
}

#[test]
fn shapes_in_code_have_the_limits_of_descriptions() {
    let (link, spec) = (DEFAULT_LINK, SwitchSpec::default());
    let leaf_spine = |counts, hosts| Network::leaf_spine(counts, hosts, link, spec);
    for (network, expected) in [
        (Network::star(250, link, spec), Ok(())),
        (
            Network::star(251, link, spec),
            Err("251 hosts should be 1 to 250"),
        ),
        (
            Network::star(0, link, spec),
            Err("0 hosts should be 1 to 250"),
        ),
        (Network::parking_lot(link, spec), Ok(())),
        (leaf_spine((2, 2), 125), Ok(())),
        (leaf_spine((2, 98), 1), Ok(())),
        (
            leaf_spine((2, 99), 1),
            Err("101 switches should be at most 100"),
        ),
        (leaf_spine((50, 39), 1), Ok(())),
        (
            leaf_spine((50, 40), 1),
            Err("2050 links should be at most 2000"),
        ),
    ] {
        let checked = network.check_size().map_err(|error| error.to_string());
        assert_eq!(checked, expected.map_err(str::to_owned));
    }
}

#[test]
fn deeply_nested_values_are_refused() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let nested = format!("hosts = {}{}", open.repeat(100_000), close.repeat(100_000));
        refused(&nested);
    }
}

/// Damaged descriptions are read or refused, and those that are read can be built.
#[test]
fn damaged_descriptions_do_not_panic() {
    let mut dice = Dice::new(1);
    let mut read = 0;
    for _ in 0..3000 {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.index(bytes.len());
            match dice.below(3) {
                0 => bytes[at] = dice.below(128) as u8,
                1 => drop(bytes.remove(at)),
                _ => {
                    let from = dice.index(bytes.len());
                    let piece = bytes[from..(from + dice.index(30)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        if let Ok(network) = Network::parse(&String::from_utf8_lossy(&bytes)) {
            read += 1;
            let mut fabric = network.build(1, HostSpec::default());
            for event in &network.events {
                let _ = network.apply(&mut fabric, &event.change);
            }
        }
    }
    assert!((50..2950).contains(&read), "{read}");
}
