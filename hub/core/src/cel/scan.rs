//! The words of an expression, before anything recursive touches it: how deep it is, and where in the text something
//! stands. The parser below is recursive and has no bound for chains, so what is too deep is refused here.

use crate::limits::{MAX_CEL_BRACKETS, MAX_CEL_CHAIN, MAX_CEL_TOKENS};

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Number,
    Text,
    Sign,
}

/// One word of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    /// Byte offset.
    pub(super) at: usize,
    pub(super) text: &'s str,
}

/// Signs of two characters.
const PAIRS: [&str; 8] = ["&&", "||", "==", "!=", "<=", ">=", "?.", "[?"];

/// The words of a source. What is no word of the language comes as single signs; the parser tells about it.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let (kind, len) = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if let Some(len) = text_len(rest) {
            (Kind::Text, len)
        } else if c == '_' || c.is_ascii_alphabetic() {
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            (Kind::Name, end.unwrap_or(rest.len()))
        } else if c.is_ascii_digit() {
            let end = rest.find(|c: char| c != '.' && !c.is_ascii_alphanumeric());
            (Kind::Number, end.unwrap_or(rest.len()))
        } else if let Some(pair) = PAIRS.iter().find(|pair| rest.starts_with(**pair)) {
            (Kind::Sign, pair.len())
        } else {
            (Kind::Sign, c.len_utf8())
        };
        let text = &rest[..len];
        out.push(Token { kind, at, text });
        at += len;
    }
    out
}

/// Length of the literal that the text begins with, quotes and prefix included.
fn text_len(rest: &str) -> Option<usize> {
    let prefix = rest
        .find(|c: char| !matches!(c, 'r' | 'R' | 'b' | 'B'))
        .filter(|len| *len <= 2)?;
    let is_raw = rest[..prefix].contains(['r', 'R']);
    let body = &rest[prefix..];
    let quote = ["\"\"\"", "'''", "\"", "'", "`"]
        .into_iter()
        .find(|quote| body.starts_with(quote))?;
    let mut at = quote.len();
    while at < body.len() {
        let left = &body[at..];
        if left.starts_with(quote) {
            return Some(prefix + at + quote.len());
        }
        let c = left.chars().next()?;
        at += c.len_utf8();
        if c == '\\' && !is_raw {
            at += body[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    // It never ends: the parser says so.
    Some(rest.len())
}

/// Whether recursion over the expression stays within the stack: brackets, ternaries and chains of operators are counted
/// as they nest.
pub(super) fn is_shallow(tokens: &[Token<'_>]) -> bool {
    // Per open bracket: ternaries, and the chain of the current term.
    let mut open: Vec<(usize, usize)> = vec![(0, 0)];
    if tokens.len() > MAX_CEL_TOKENS {
        return false;
    }
    for token in tokens {
        let is_inner = open.len() > 1;
        let Some(top) = open.last_mut() else {
            return true;
        };
        match token.text {
            _ if matches!(token.kind, Kind::Number | Kind::Text) => {}
            "(" | "[" | "{" | "[?" => {
                top.1 += 1;
                open.push((0, 0));
            }
            // An unmatched one ends the expression for the parser.
            ")" | "]" | "}" if is_inner => drop(open.pop()),
            ")" | "]" | "}" => {}
            "," => *top = (0, 0),
            "&&" | "||" | ":" => top.1 = 0,
            "?" => *top = (top.0 + 1, 0),
            "in" => top.1 += 1,
            _ if token.kind == Kind::Sign => top.1 += 1,
            _ => {}
        }
        let depth: usize = open.iter().map(|(ternaries, chain)| ternaries * 4 + chain).sum();
        if open.len() > MAX_CEL_BRACKETS || depth > MAX_CEL_CHAIN {
            return false;
        }
    }
    true
}

/// Line and column, from 1, as compilers tell them.
pub(super) fn line_and_column(source: &str, at: usize) -> (usize, usize) {
    let before = source.get(..at).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|t| t.text).collect()
    }

    #[test]
    fn words_of_expressions() {
        assert_eq!(words("a.b+1 // c\n&& x"), ["a", ".", "b", "+", "1", "&&", "x"]);
        assert_eq!(words(r#"r'a\' + b"c\"d" "#), [r"r'a\'", "+", r#"b"c\"d""#]);
        assert_eq!(words("a.?b[?c]"), ["a", ".", "?", "b", "[?", "c", "]"]);
        assert_eq!(words("'''it's''' 'open"), ["'''it's'''", "'open"]);
        assert_eq!(words("rb.br"), ["rb", ".", "br"]);
        assert_eq!(line_and_column("a\nbc", 3), (2, 2));
    }

    #[test]
    fn depth_is_bounded_and_width_is_not() {
        let wide = vec!["self.a.b == 1"; 200].join(" && ");
        assert!(is_shallow(&tokens(&wide)));
        for deep in [
            "(".repeat(500),
            "!".repeat(5_000),
            vec!["a"; 5_000].join("+"),
            vec!["a"; 5_000].join("."),
            "a?b:".repeat(5_000),
            "[".repeat(500),
            "a.b(".repeat(500),
            "-".repeat(5_000),
        ] {
            assert!(!is_shallow(&tokens(&deep)), "{}", &deep[..20]);
        }
    }
}
