//! Parses call stacks from the output of `perf script -F comm,ip,sym,dso`.

/// A function in a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// Its name; `[unknown]` if it has none.
    pub function: String,
    /// Where it belongs.
    pub side: Side,
}

/// The side of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The program itself.
    Program,
    /// A library.
    Library,
    /// The kernel.
    Kernel,
}

/// The functions that were running at a sample, outermost first.
pub type Stack = Vec<Frame>;

/// Parses the stacks of a profile. Samples without a stack are left out.
///
/// `program` is the name of the program's file.
pub fn parse(script: &str, program: &str) -> Vec<Stack> {
    script
        .split("\n\n")
        .map(|sample| {
            // The first line names the process; each following line a function, innermost first.
            let mut stack: Stack = sample
                .trim_matches('\n')
                .lines()
                .skip(1)
                .filter_map(|line| frame(line, program))
                .collect();
            stack.reverse();
            stack
        })
        .filter(|stack| !stack.is_empty())
        .collect()
}

/// `    ffffffff81a0 tcp_sendmsg ([kernel.kallsyms])`
fn frame(line: &str, program: &str) -> Option<Frame> {
    let (_address, rest) = line.trim().split_once(' ')?;
    let (function, object) = rest.rsplit_once(" (")?;
    let object = object.trim_end_matches(')');
    let side = if object.contains("kernel") {
        Side::Kernel
    } else if object.rsplit('/').next() == Some(program) {
        Side::Program
    } else {
        Side::Library
    };
    Some(Frame {
        function: strip_hash(function),
        side,
    })
}

/// A Rust function's name without what the compiler adds to make it unique.
fn strip_hash(function: &str) -> String {
    match function.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            name.to_owned()
        }
        _ => function.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_its_outermost_function_first() {
        let script = "roce 4242 \n\tffffffff8 _copy_from_iter ([kernel.kallsyms])\n\t  7f12 __libc_sendmsg (/usr/lib/libc.so.6)\n\t  55aa roce::main::h0123456789abcdef (/x/roce)\n\nroce 4242 \n\n";
        let stacks = parse(script, "roce");
        let sides: Vec<_> = stacks.iter().flatten().map(|f| f.side).collect();
        let names: Vec<_> = stacks
            .iter()
            .flatten()
            .map(|f| f.function.as_str())
            .collect();
        assert_eq!(sides, [Side::Program, Side::Library, Side::Kernel]);
        assert_eq!(names, ["roce::main", "__libc_sendmsg", "_copy_from_iter"]);
        assert_eq!(stacks.len(), 1, "a sample without a stack is left out");
    }
}
