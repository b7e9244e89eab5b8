//! Arbitrary bytes as a capture file: read, decoded, assigned to flows, and printed as text and as
//! JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_cli::decode::{DecodeArgs, decode};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let mut args = DecodeArgs {
        files: vec!["-".into()],
        json: false,
        summary: false,
        other: true,
        port: vec![8000],
        qpn: Vec::new(),
        count: None,
        flows: 4,
        ignore_icrc: true,
    };
    let (text, broken) = print(data, &args);
    args.json = true;
    let (json, broken_too) = print(data, &args);
    assert_eq!(broken, broken_too);

    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    let (summary, packets) = lines.split_last().expect("there is a summary");
    assert_eq!(summary["error"].as_str(), broken.as_deref());
    let of_type = |kind: &str| packets.iter().filter(|line| line["type"] == kind).count();
    assert_eq!(summary["packets"], of_type("packet"));
    assert_eq!(summary["other"]["records"], of_type("other"));
    // A line for each record, one for the heading, and those of the summary.
    assert!(text.lines().count() > packets.len());
});

/// The output, and the error in the file.
fn print(data: &[u8], args: &DecodeArgs) -> (String, Option<String>) {
    let mut out = Vec::new();
    let broken = decode(data, args, &mut out, |_| {}).expect("memory can be written");
    let text = String::from_utf8(out).expect("what is printed is UTF-8");
    (text, broken.map(|error| error.to_string()))
}
