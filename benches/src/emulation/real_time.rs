//! The incast in real time.

use super::incast::{ECN, Figures, Incast, MTU, PAYLOAD_OF_FRAME, QUEUE, SENDERS};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The seconds that programs may take to start and to connect.
const START: u32 = 4;

/// Runs it with `ib_send_bw`, whose ends sleep until something happens: programs that poll would
/// keep more processors busy than a small machine has. Returns the figures, and what the command
/// says about its lag.
///
/// # Errors
/// If a flow does not run all the time, or the command fails.
pub fn measure(roce: &Path, scenario: &Incast, seed: u64) -> Result<(Figures, String), String> {
    let folder = Folder::new()?;
    let rate = format!("{}M", scenario.megabits_per_sec);
    let delay = format!("{}us", scenario.delay_us);
    let mut command = Command::new(roce);
    command.args(["fabric", "--verbose", "--hosts", &(SENDERS + 1).to_string()]);
    command.args(["--rate", &rate, "--delay", &delay, "--queue", QUEUE]);
    command.args(["--ecn", &ECN.join(":"), "--mtu", &MTU.to_string()]);
    command.args(["--seed", &seed.to_string(), "--report"]);
    command.arg(&folder.0).args(["--", "sh", "-c"]);
    command.arg(script(roce, START + scenario.seconds));
    command.env("ROCE_CC", congestion_control(scenario));
    let done = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        return Err(format!("{command:?}: {said}"));
    }
    let lag = said.lines().rfind(|line| line.contains("events:"));
    let lag = lag.and_then(|line| line.split_once("roce fabric: "));
    let lag = lag.map_or("", |(_, text)| text).to_owned();
    Ok((figures(&folder.0, scenario)?, lag))
}

/// A pair of programs for each sender. All end when the script does.
fn script(roce: &Path, seconds: u32) -> String {
    let roce = roce.display();
    let mut script = String::new();
    for sender in 1..=SENDERS {
        let program = format!(
            "ib_send_bw -F -e -n 100000000 -t 16 -r 64 -s 65536 -q 1 -m 1024 -p {}",
            18600 + sender
        );
        let quiet = ">/dev/null 2>&1";
        script += &format!("{roce} fabric ssh h9 '{program}' {quiet} &\n");
        // The server may not listen yet.
        script +=
            &format!("{roce} fabric ssh h{sender} 'until {program} h9; do :; done' {quiet} &\n");
    }
    format!("{script}sleep {seconds}\n")
}

fn congestion_control(scenario: &Incast) -> String {
    let (rate, period) = (scenario.megabits_per_sec, Incast::PERIOD_US);
    let [ai, hai, min] = Incast::STEPS;
    format!(
        "dcqcn,dce_tcp_rtt={period},rpg_time_reset={period},rpg_ai_rate={ai},rpg_hai_rate={hai},\
         rpg_min_rate={min},rpg_max_rate={rate},start_rate={rate},min_time_between_cnps={}",
        Incast::CNP_US
    )
}

/// A folder for a report.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("roce-incast-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The figures of a report, of the last part of its time.
fn figures(folder: &Path, scenario: &Incast) -> Result<Figures, String> {
    let ports = rows(folder, "ports.csv", "s1 to h9")?;
    let end = ports.last().ok_or("the report has no port to h9")?.seconds;
    let length = f64::from(scenario.seconds - scenario.seconds / 2);
    let is_late = |row: &&Row| row.seconds > end - length;
    let ports: Vec<&Row> = ports.iter().filter(is_late).collect();
    let column = |number: usize| ports.iter().map(move |row| row.values[number]);
    let marked = column(3).sum::<f64>() / length;
    let (cnps, all_marked) = cnps_and_marks(folder)?;
    let mut flows: BTreeMap<String, f64> = BTreeMap::new();
    let all = rows(folder, "flows.csv", " to h9, QP")?;
    for row in all.iter().filter(is_late) {
        *flows.entry(row.name.clone()).or_default() += row.values[0];
    }
    if flows.len() != SENDERS {
        return Err(format!("{} flows ran, not {SENDERS}", flows.len()));
    }
    let (payload, frame) = PAYLOAD_OF_FRAME;
    let scale = payload / frame / 1e6 / ports.len() as f64;
    Ok(Figures {
        goodput: flows.values().map(|sum| sum * scale).collect(),
        marked,
        cnps: marked * cnps / all_marked,
        dropped: column(4).sum::<f64>() / length,
        queue_means: column(1).collect(),
        queue_peaks: column(2).collect(),
    })
}

/// A row of a table in CSV: a time, a quoted name, and numbers.
struct Row {
    seconds: f64,
    name: String,
    values: Vec<f64>,
}

/// The rows whose name contains `name`.
fn rows(folder: &Path, file: &str, name: &str) -> Result<Vec<Row>, String> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let wanted = text.lines().skip(1).filter(|line| line.contains(name));
    let row = |line: &str| {
        let (seconds, rest) = line.split_once(",\"")?;
        let (name, values) = rest.split_once("\",")?;
        let values = values.split(',').map(|value| value.parse().ok());
        Some(Row {
            seconds: seconds.parse().ok()?,
            name: name.to_owned(),
            values: values.collect::<Option<_>>()?,
        })
    };
    wanted
        .map(|line| row(line).ok_or_else(|| format!("{file} has the line {line:?}")))
        .collect()
}

/// The CNPs of all flows and the packets of them that were marked, in all, of the page.
fn cnps_and_marks(folder: &Path) -> Result<(f64, f64), String> {
    let path = folder.join("report.md");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut sums = (0.0, 0.0);
    for line in text.lines().filter(|line| line.contains(" to h9, QP")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // | flow | MB | packets | Gb/s | time | marked | dropped | CNPs |
        let cell = |number: usize| cells.get(number).and_then(|cell| cell.parse::<f64>().ok());
        if let (Some(marked), Some(cnps), 10) = (cell(6), cell(8), cells.len()) {
            sums.0 += cnps;
            sums.1 += marked;
        }
    }
    match sums {
        (cnps, marked) if marked > 0.0 => Ok((cnps, marked)),
        _ => Err("the report has no marked flow".to_owned()),
    }
}
