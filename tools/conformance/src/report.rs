//! Combines rules and citations, and finds what is missing.

use crate::book::{Book, Rule, Status};
use crate::cite::{Citation, Citations, Kind};
use std::collections::BTreeSet;
use std::path::Path;

/// The number of compliance statements of RoCEv2's annex, CA17-1 to CA17-46.
const ROCEV2_STATEMENTS: u32 = 46;

/// The rules with their citations.
#[derive(Debug)]
pub struct Report {
    /// The rules.
    pub book: Book,
    /// The citations of the rules.
    pub citations: Citations,
}

impl Report {
    /// Reads rules and sources below `root`.
    ///
    /// # Errors
    /// If a file can't be read or is invalid.
    pub fn load(root: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(Self {
            book: Book::load(root)?,
            citations: Citations::scan(root)?,
        })
    }

    /// All problems, one line each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.wrong_citations();
        problems.extend(self.missing_statements());
        for rule in self.book.rules() {
            self.check_rule(rule, &mut problems);
        }
        for trap in &self.book.traps {
            let shown = self.citations.of(Kind::Trap, &trap.id).next().is_some();
            match (trap.status, shown, &trap.why) {
                (Status::Implemented, false, _) => problems.push(format!(
                    "trap {}: no test cites it (// trap: {})",
                    trap.id, trap.id
                )),
                (Status::NotYet | Status::DoesNotApply, _, None) => {
                    problems.push(format!("trap {}: say why, in `why`", trap.id));
                }
                _ => {}
            }
        }
        problems
    }

    /// The compliance statements of RoCEv2's annex without a rule, one line each. The IDs of a
    /// statement's rules begin with its number: `CA17-7-dont-fragment`.
    fn missing_statements(&self) -> impl Iterator<Item = String> {
        (1..=ROCEV2_STATEMENTS)
            .map(|number| format!("CA17-{number}"))
            .filter(|statement| {
                let mut rules = self.book.rules();
                !rules.any(|rule| {
                    let word = rule.id.strip_prefix(statement.as_str());
                    word.is_some_and(|word| word.starts_with('-'))
                })
            })
            .map(|statement| format!("{statement}: no rule has this number"))
    }

    /// Duplicate names, and misplaced citations, one line each.
    pub fn wrong_citations(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut rules = BTreeSet::new();
        let mut traps = BTreeSet::new();
        for rule in self.book.rules() {
            if !rules.insert(rule.id.as_str()) {
                problems.push(format!("rule {}: there are two of this name", rule.id));
            }
        }
        for trap in &self.book.traps {
            if !traps.insert(trap.id.as_str()) {
                problems.push(format!("trap {}: there are two of this name", trap.id));
            }
        }
        for citation in &self.citations.0 {
            let Citation { kind, id, test, .. } = citation;
            let at = format!("{}:{}", citation.file, citation.line);
            let known = match kind {
                Kind::Rule | Kind::Shows => &rules,
                Kind::Trap => &traps,
            };
            if !known.contains(id.as_str()) {
                problems.push(format!("{at}: tools/conformance/rules has no {id:?}"));
            }
            let is_test = citation.file.contains("tests/") || citation.file.ends_with("tests.rs");
            if *kind == Kind::Rule && is_test {
                problems.push(format!("{at}: a test cites {id} as code: write \"shows:\""));
            }
            if *kind != Kind::Rule && test.is_none() {
                problems.push(format!("{at}: no #[test] follows the citation of {id}"));
            }
        }
        problems
    }

    fn check_rule(&self, rule: &Rule, problems: &mut Vec<String>) {
        let id = &rule.id;
        let code = self.citations.of(Kind::Rule, id).next().is_some();
        let test = self.citations.of(Kind::Shows, id).next().is_some();
        match rule.status {
            Status::Implemented => {
                if !code {
                    problems.push(format!("rule {id}: no code cites it (// rule: {id})"));
                }
                if !test {
                    problems.push(format!("rule {id}: no test cites it (// shows: {id})"));
                }
            }
            Status::NotYet | Status::DoesNotApply => {
                if rule.why.is_none() {
                    problems.push(format!("rule {id}: say why, in `why`"));
                }
                if code || test {
                    problems.push(format!(
                        "rule {id}: cited, although its status says that it is not implemented"
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Chapter;

    fn statements_missing_in(ids: impl Iterator<Item = String>) -> Vec<String> {
        let rule = |id| Rule {
            id,
            section: String::new(),
            text: String::new(),
            status: Status::Implemented,
            why: None,
        };
        let chapter = Chapter {
            title: String::new(),
            rules: ids.map(rule).collect(),
        };
        let book = Book {
            chapters: vec![chapter],
            traps: Vec::new(),
        };
        let citations = Citations::default();
        let report = Report { book, citations };
        report.missing_statements().collect()
    }

    #[test]
    fn each_statement_of_rocev2_needs_a_rule() {
        let id = |number| format!("CA17-{number}-word");
        assert_eq!(statements_missing_in((1..=46).map(id)).len(), 0);
        // CA17-40 does not stand for CA17-4.
        let without_4 = (1..=46).filter(|number| *number != 4).map(id);
        let missing = statements_missing_in(without_4);
        assert_eq!(missing, ["CA17-4: no rule has this number"]);
    }
}
