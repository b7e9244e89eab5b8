//! The figures of `nvme-rdma bench` and of fio.

use serde_json::Value;

/// The results of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Operations per second.
    pub operations_per_second: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
}

impl Figures {
    /// From the output of `nvme-rdma bench --json`.
    ///
    /// # Errors
    /// If it lacks a figure.
    pub fn of_bench(text: &str) -> Result<Self, String> {
        let json = parse(text)?;
        Ok(Self {
            operations_per_second: number(&json, "/operations_per_second", text)?,
            bytes_per_second: number(&json, "/bytes_per_second", text)?,
        })
    }

    /// From the output of `fio --output-format=json` with one job that reads or writes.
    ///
    /// # Errors
    /// If it lacks a figure.
    pub fn of_fio(text: &str) -> Result<Self, String> {
        // Warnings may precede it.
        let text = text.find('{').map_or(text, |at| &text[at..]);
        let json = parse(text)?;
        let reads = number(&json, "/jobs/0/read/total_ios", text)? > 0.0;
        let side = if reads { "read" } else { "write" };
        let figure = |name: &str| number(&json, &format!("/jobs/0/{side}/{name}"), text);
        Ok(Self {
            operations_per_second: figure("iops")?,
            bytes_per_second: figure("bw_bytes")?,
        })
    }
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("{e}:\n{text}"))
}

fn number(json: &Value, pointer: &str, text: &str) -> Result<f64, String> {
    let number = json.pointer(pointer).and_then(Value::as_f64);
    number.ok_or_else(|| format!("no {pointer} in:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_fio_are_those_of_the_side_that_worked() {
        let side = |ios: u32| {
            serde_json::json!({
                "total_ios": ios, "iops": f64::from(ios) * 2.0, "bw_bytes": 7,
            })
        };
        for (reads, writes) in [(0, 5), (5, 0)] {
            let json =
                serde_json::json!({ "jobs": [{ "read": side(reads), "write": side(writes) }] });
            let figures = Figures::of_fio(&format!("a warning\n{json}")).expect("figures");
            let expected = Figures {
                operations_per_second: 10.0,
                bytes_per_second: 7.0,
            };
            assert_eq!(figures, expected);
        }
        assert!(Figures::of_fio("{}").is_err());
    }
}
