use super::super::testing::{Incast, names};
use super::*;
use roce_sim::record::Limits;
use std::fs;

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_report_has_the_flows_ports_and_drops() {
    let mut incast = Incast::new(16);
    let recorder = incast.record();
    let temporary = folder();
    let folder = temporary.path().join("report");
    let events = [(Duration::from_millis(1500), "h1-s1 down".to_owned())];
    write(&folder, "Incast | 16", &recorder, &names(16), &events).expect("written");
    let counters = incast.fabric.counters();
    let page = read(&folder, "report.md");
    assert!(page.starts_with("# Incast \\| 16\n"), "{page}");
    for expected in [
        "17 hosts, 1 switch, 17 cables.".to_owned(),
        "| 1.500 s | h1-s1 down |".to_owned(),
        "| flows with data | 16 |".to_owned(),
        format!("| packets marked | {} |", counters.marked),
        format!("| packets dropped | {} |", counters.dropped),
        format!("| s1 to h17 | queue full | {} |", counters.dropped),
        "fairness of the flows' rates (Jain) | 0.".to_owned(),
        "| completion times p50, p90, p99, longest | ".to_owned(),
    ] {
        assert!(page.contains(&expected), "{expected}: {page}");
    }
    assert!(counters.dropped > 0 && counters.marked > 0);
    for file in ["flows.svg", "ports.svg", "queues.svg", "completion.svg"] {
        let link = format!("]({file})");
        assert!(page.contains(&link), "{file}");
        assert!(read(&folder, file).ends_with("</svg>\n"), "{file}");
    }
    let plot = read(&folder, "flows.svg");
    for sender in 1..=16 {
        assert!(plot.contains(&format!("h{sender}:")), "{sender}");
    }
    assert!(plot.contains("time, ") && plot.contains("Gb/s"));

    // The rows of the data add up to what arrived.
    let axis = recorder.axis();
    let step = axis.length(0).as_secs_f64();
    let data = read(&folder, "flows.csv");
    let rates = data
        .lines()
        .skip(1)
        .filter_map(|row| row.rsplit(',').next());
    let bits: f64 = rates.map(|rate| rate.parse::<f64>().expect(rate)).sum();
    let bytes: u64 = recorder.data_flows().map(|flow| flow.arrived_bytes).sum();
    let error = (bits * step / 8.0 - bytes as f64).abs() / bytes as f64;
    assert!(error < 0.01, "{error}");
    assert!(read(&folder, "ports.csv").contains(",\"s1 to h17\","));
}

#[test]
fn a_report_names_the_flows_on_links_between_switches() {
    let mut incast = Incast::with_two_switches(2);
    let recorder = incast.record();
    let folder = folder();
    write(folder.path(), "Two switches", &recorder, &names(2), &[]).expect("written");
    let page = read(folder.path(), "report.md");
    let row = |link: &str| {
        let begin = format!("| {link} | ");
        let (_, links) = page.split_once("## Links between switches").expect("links");
        let rows: Vec<&str> = links
            .lines()
            .filter(|row| row.starts_with(&begin))
            .collect();
        assert_eq!(rows.len(), 1, "{page}");
        rows[0].to_owned()
    };
    let there = row("s1 to s2");
    assert!(there.contains(" | 2 | "), "{there}");
    assert!(
        there.contains("h1:49443 to h3, QP ") && there.contains("; h"),
        "{there}"
    );
    // Acknowledgements are no flows with data.
    let back = row("s2 to s1");
    assert!(back.ends_with(" | 0 |  |"), "{back}");
}

#[test]
fn a_report_of_an_idle_network_says_so() {
    let mut incast = Incast::new(2);
    let mut recorder = Recorder::new(&mut incast.fabric, Limits::default());
    recorder.step(&mut incast.fabric);
    let temporary = folder();
    let path = temporary.path().join("new").join("report");
    write(&path, "Idle", &recorder, &Names::default(), &[]).expect("written");
    let page = read(&path, "report.md");
    assert!(page.contains("No flow carried data."), "{page}");
    assert!(page.contains("No packet was dropped."), "{page}");
    assert!(!page.contains("svg"), "{page}");
    assert!(!page.contains("## Events"), "{page}");
}

#[test]
fn an_unwritable_folder_is_named() {
    let mut incast = Incast::new(1);
    let recorder = Recorder::new(&mut incast.fabric, Limits::default());
    let temporary = folder();
    let path = temporary.path().join("file");
    fs::write(&path, "").expect("written");
    let error =
        write(&path, "", &recorder, &Names::default(), &[]).expect_err("a file is in the way");
    assert!(error.to_string().contains("file"), "{error}");
}

/// Another user of the machine may have put it there, in a folder that users share.
#[test]
fn a_report_does_not_overwrite_what_a_link_points_to() {
    let mut incast = Incast::new(1);
    let recorder = Recorder::new(&mut incast.fabric, Limits::default());
    let temporary = folder();
    let (precious, report) = (
        temporary.path().join("precious"),
        temporary.path().join("x"),
    );
    fs::write(&precious, "precious").expect("written");
    fs::create_dir(&report).expect("made");
    std::os::unix::fs::symlink(&precious, report.join("report.md")).expect("made");
    let error = write(&report, "", &recorder, &Names::default(), &[]).expect_err("a link");
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert_eq!(read(temporary.path(), "precious"), "precious");
}
