//! An expression that was parsed within bounds.

use super::scan;
use crate::limits::MAX_CEL_EXPRESSION_BYTES;
use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::{ParseErrors, Parser};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An expression, ready to be checked and evaluated.
#[derive(Debug)]
pub struct Program {
    pub(super) source: String,
    pub(super) expression: IdedExpr,
}

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Longer than [`MAX_CEL_EXPRESSION_BYTES`].
    #[error("expression of {0} bytes: no more than {MAX_CEL_EXPRESSION_BYTES} are allowed")]
    TooLong(usize),
    /// Nested too deeply.
    #[error("expression recursion limit exceeded")]
    TooDeep,
    /// Not of the language, or of wrong types; the text is that of a compiler.
    #[error("compilation failed: {0}")]
    Wrong(String),
    /// The parser broke on it.
    #[error("the expression could not be read")]
    Unreadable,
}

impl Program {
    /// Parses an expression.
    ///
    /// # Errors
    /// It is too long, too deep or not of the language.
    pub fn parse(source: &str) -> Result<Program, CompileError> {
        if source.len() > MAX_CEL_EXPRESSION_BYTES {
            return Err(CompileError::TooLong(source.len()));
        }
        if !scan::is_shallow(&scan::tokens(source)) {
            return Err(CompileError::TooDeep);
        }
        // The generated parser is not ours: whatever it does with a text, the hub goes on.
        let parsed = catch_unwind(AssertUnwindSafe(|| {
            Parser::new().enable_optional_syntax(true).parse(source)
        }));
        match parsed {
            Ok(Ok(expression)) => Ok(Program {
                source: source.to_owned(),
                expression,
            }),
            Ok(Err(errors)) => Err(CompileError::Wrong(syntax(source, &errors))),
            Err(_panic) => Err(CompileError::Unreadable),
        }
    }

    /// The text.
    pub fn source(&self) -> &str {
        &self.source
    }
}

fn syntax(source: &str, errors: &ParseErrors) -> String {
    let texts = errors.errors.iter().map(|error| {
        let (line, column) = (error.pos.0.max(1), error.pos.1.max(1));
        let (line, column) = (line.unsigned_abs(), column.unsigned_abs());
        told(source, line, column, &error.msg)
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// An error at a place, with the line and a mark under it, as the reference compiler prints it.
pub(super) fn told(source: &str, line: usize, column: usize, message: &str) -> String {
    let text = source.lines().nth(line - 1).unwrap_or_default();
    let dots = ".".repeat(column.saturating_sub(1));
    format!("ERROR: <input>:{line}:{column}: {message}\n | {text}\n | {dots}^")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_with_their_place() {
        let Err(CompileError::Wrong(text)) = Program::parse("a ==") else {
            panic!("compiles");
        };
        assert!(
            text.starts_with("ERROR: <input>:1:5: Syntax error: mismatched input '<EOF>'"),
            "{text}"
        );
        assert!(text.ends_with("\n | a ==\n | ....^"), "{text}");
        assert_eq!(
            Program::parse(&"(".repeat(1_000)).expect_err("deep"),
            CompileError::TooDeep
        );
        assert!(matches!(
            Program::parse(&" ".repeat(1 << 20)),
            Err(CompileError::TooLong(_))
        ));
    }
}
