//! The codes of causes.

use roce_verbs::why::{KINDS, Kind};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Meaning {
    why_code: u32,
    /// The completion statuses or the asynchronous event that report it, by their names in C.
    reported_by: &'static str,
    meaning: String,
    advice: Vec<&'static str>,
}

impl Meaning {
    pub(super) fn of(code: u32, kind: &Kind) -> Self {
        Self {
            why_code: code,
            reported_by: kind.event,
            meaning: match kind.way(code) {
                Some(way) => format!("{}: {way}", kind.meaning),
                None => kind.meaning.to_owned(),
            },
            advice: kind.advice_for(code).collect(),
        }
    }

    /// All codes, in order of kinds.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for kind in KINDS {
            let first = kind.number << 4;
            match kind.ways {
                [] => all.push(Self::of(first, kind)),
                ways => all.extend(ways.iter().map(|(way, _)| Self::of(first | way, kind))),
            }
        }
        all
    }

    /// A row of the list.
    pub(super) fn row(&self) -> String {
        format!(
            "{:#x}  {:<24}  {}\n",
            self.why_code, self.reported_by, self.meaning
        )
    }

    /// The whole, as text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{:#x}: {}\n", self.why_code, self.meaning);
        if !self.reported_by.is_empty() {
            text.push_str(&format!("  reported by {}\n", self.reported_by));
        }
        for (number, line) in self.advice.iter().enumerate() {
            let label = if number == 0 { "do" } else { "" };
            text.push_str(&format!("  {label:<11} {line}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::parse_number;
    use roce_verbs::why::kind_of_code;

    #[test]
    fn codes_are_hexadecimal_or_decimal() {
        assert_eq!(parse_number("0x211"), Some(0x211));
        assert_eq!(parse_number("529"), Some(0x211));
        assert_eq!(parse_number("./program"), None);
    }

    #[test]
    fn the_meaning_of_a_code_names_its_status_and_advice() {
        let kind = kind_of_code(0x211).expect("a kind");
        let text = Meaning::of(0x211, kind).text();
        let first = "0x211: the peer does not answer: the peer has never answered this QP\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("IBV_WC_RETRY_EXC_ERR"), "{text}");
        assert!(text.contains("4791"), "{text}");
    }

    #[test]
    fn each_row_of_the_list_has_a_code_that_is_explained() {
        for listed in Meaning::all() {
            let row = listed.row();
            let code = parse_number(row.split(' ').next().unwrap_or("")).expect("a code");
            let kind = kind_of_code(code).expect("a kind");
            let text = Meaning::of(code, kind).text();
            let first = text.lines().next().expect("a line");
            let (_, words) = first.split_once(": ").expect("a meaning");
            assert!(row.trim_end().ends_with(words), "{row}: {first}");
        }
    }

    #[test]
    fn only_codes_that_occur_are_explained() {
        for code in [0, 0x210, 0x213, 0x411 + 7, 0x430 + 1, u32::MAX] {
            assert!(kind_of_code(code).is_none(), "{code:#x}");
        }
    }
}
