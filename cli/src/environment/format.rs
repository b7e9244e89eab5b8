//! Variables in the syntax of each language that can set them.

use super::Format;
use crate::error::Error;
use crate::run::prepend;
use serde::Serialize;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The variables to print.
pub(super) struct Environment {
    pub(super) variables: Vec<Variable>,
    pub(super) library: PathBuf,
    pub(super) devices: Vec<String>,
    /// Comments for a Dockerfile.
    pub(super) notes: Vec<String>,
}

/// A variable to set.
pub(super) struct Variable {
    name: &'static str,
    value: OsString,
    /// Whether the previous value is kept, after the new one and a colon.
    prepended: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    variables: BTreeMap<&'static str, String>,
    library: String,
    devices: &'a [String],
}

impl Variable {
    pub(super) fn new(name: &'static str, value: OsString) -> Self {
        Self {
            name,
            value,
            prepended: false,
        }
    }

    pub(super) fn prepended(name: &'static str, value: OsString) -> Self {
        Self {
            name,
            value,
            prepended: true,
        }
    }

    /// The value. It must be text without line breaks, which some languages can't express.
    fn text(&self) -> Result<&str, Error> {
        let text = self.value.to_str();
        let text = text.filter(|text| !text.contains(['\n', '\r', '\0']));
        text.ok_or_else(|| {
            Error::usage(format_args!(
                "{} would be {:?}, which can't be printed as a variable: use names of one line",
                self.name, self.value
            ))
        })
    }

    /// The value, followed by the variable's value in this process's environment.
    fn merged(&self) -> Result<String, Error> {
        let before = env::var_os(self.name).filter(|_| self.prepended);
        let folder = PathBuf::from(self.text()?);
        Ok(match before {
            None => self.text()?.to_owned(),
            before => prepend(&folder, before.as_deref())
                .to_string_lossy()
                .into_owned(),
        })
    }
}

impl Environment {
    /// The text to print.
    ///
    /// # Errors
    /// If the language can't express a value.
    pub(super) fn text(&self, format: Format) -> Result<String, Error> {
        if format == Format::Json {
            return self.json();
        }
        let mut text = String::new();
        for note in &self.notes {
            // Writing to a string does not fail.
            let _ = writeln!(text, "# {note}");
        }
        for variable in &self.variables {
            let Variable {
                name, prepended, ..
            } = variable;
            let value = variable.text()?;
            let line = match (format, prepended) {
                // The shell inserts the variable's previous value when it reads this line.
                (Format::Shell, true) => {
                    format!("export {name}={}\"${{{name}:+:${name}}}\"", shell(value))
                }
                (Format::Shell, false) => format!("export {name}={}", shell(value)),
                // The build inserts the variable's previous value in the image, not this machine's.
                (Format::Dockerfile, true) => {
                    format!("ENV {name}=\"{}${{{name}:+:${name}}}\"", docker(value))
                }
                (Format::Dockerfile, false) => format!("ENV {name}=\"{}\"", docker(value)),
                _ => format!("{name}={}", variable.merged()?),
            };
            let _ = writeln!(text, "{line}");
        }
        Ok(text)
    }

    fn json(&self) -> Result<String, Error> {
        let mut variables = BTreeMap::new();
        for variable in &self.variables {
            variables.insert(variable.name, variable.merged()?);
        }
        let json = Json {
            variables,
            library: self.library.to_string_lossy().into_owned(),
            devices: &self.devices,
        };
        Ok(serde_json::to_string_pretty(&json)? + "\n")
    }
}

/// Quotes for a POSIX shell.
fn shell(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Escapes for the double quotes of a Dockerfile.
fn docker(value: &str) -> String {
    let mut quoted = String::new();
    for sign in value.chars() {
        if matches!(sign, '"' | '\\' | '$') {
            quoted.push('\\');
        }
        quoted.push(sign);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(value: &str) -> Environment {
        Environment {
            variables: vec![
                Variable::prepended("ROCE_TEST_UNSET_PATH", "/a b/lib".into()),
                Variable::new("ROCE_FAULTS", value.into()),
            ],
            library: "/a b/lib/libibverbs.so.1".into(),
            devices: vec!["roce_lo".into()],
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_shell_gets_the_original_value() {
        let text = environment("it's $HOME `x`")
            .text(Format::Shell)
            .expect("text");
        let script =
            format!("ROCE_TEST_UNSET_PATH=/y\n{text}\necho \"$ROCE_TEST_UNSET_PATH|$ROCE_FAULTS\"");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("a shell");
        let said = String::from_utf8(output.stdout).expect("text");
        assert_eq!(said, "/a b/lib:/y|it's $HOME `x`\n");
    }

    #[test]
    fn each_format_escapes_its_special_characters() {
        let environment = environment("a\"$b\\c");
        let docker = environment.text(Format::Dockerfile).expect("text");
        assert_eq!(
            docker,
            "ENV ROCE_TEST_UNSET_PATH=\"/a b/lib${ROCE_TEST_UNSET_PATH:+:$ROCE_TEST_UNSET_PATH}\"\n\
             ENV ROCE_FAULTS=\"a\\\"\\$b\\\\c\"\n"
        );
        let github = environment.text(Format::Github).expect("text");
        assert_eq!(
            github,
            "ROCE_TEST_UNSET_PATH=/a b/lib\nROCE_FAULTS=a\"$b\\c\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&environment.text(Format::Json).expect("text")).expect("JSON");
        assert_eq!(json["variables"]["ROCE_FAULTS"], "a\"$b\\c");
        assert_eq!(json["devices"][0], "roce_lo");
    }

    /// A file for GitHub, or JSON, can't say "and what was there before".
    #[test]
    fn a_format_without_expansion_has_the_original_value() {
        let before = env::var("PATH").expect("tests are run with one");
        let mut environment = environment("x");
        environment.variables = vec![
            Variable::prepended("PATH", "/a b/lib".into()),
            Variable::new("PATH", "/a b/lib".into()),
        ];
        let github = environment.text(Format::Github).expect("text");
        assert_eq!(github, format!("PATH=/a b/lib:{before}\nPATH=/a b/lib\n"));
        environment.variables.pop();
        let json: serde_json::Value =
            serde_json::from_str(&environment.text(Format::Json).expect("text")).expect("JSON");
        assert_eq!(json["variables"]["PATH"], format!("/a b/lib:{before}"));
    }

    #[test]
    fn values_that_a_format_can_not_express_are_refused() {
        for value in ["a\nexport EVIL=1", "a\r", "a\0b"] {
            for format in [
                Format::Shell,
                Format::Json,
                Format::Dockerfile,
                Format::Github,
            ] {
                let error = environment(value).text(format).expect_err("refused");
                assert!(error.to_string().contains("ROCE_FAULTS"), "{error}");
            }
        }
    }
}
