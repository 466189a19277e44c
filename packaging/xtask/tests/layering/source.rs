//! Rust sources without comments and without what only tests see: enough of the language to find names and strings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One file.
pub(crate) struct Source {
    /// Path from the workspace's top.
    pub(crate) file: String,
    /// Contents of string literals with their lines.
    pub(crate) strings: Vec<(usize, String)>,
    tokens: Vec<Token>,
}

/// A word, or a single other character, with its line.
#[derive(Clone, PartialEq, Debug)]
struct Token {
    line: usize,
    text: String,
    string: bool,
}

/// Reads files, leaving out those that are modules for tests only.
pub(crate) fn read(root: &Path, files: &[PathBuf]) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut only_tests = BTreeSet::new();
    for path in files {
        let text = std::fs::read_to_string(path).unwrap();
        let mut tokens = lex(&text);
        for module in cut_tests(&mut tokens) {
            only_tests.extend(module_files(path, &module));
        }
        let file = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let strings = tokens
            .iter()
            .filter(|t| t.string)
            .map(|t| (t.line, t.text.clone()))
            .collect();
        tokens.retain(|token| !token.string);
        sources.push((
            path.clone(),
            Source {
                file,
                strings,
                tokens,
            },
        ));
    }
    // A module for tests may be a directory.
    sources.retain(|(path, _)| {
        !only_tests
            .iter()
            .any(|test| path == test || path.starts_with(test))
    });
    sources.into_iter().map(|(_, source)| source).collect()
}

/// Where `mod NAME;` in the file `path` leads: a file and a directory of its own.
fn module_files(path: &Path, name: &str) -> [PathBuf; 2] {
    let parent = path.parent().unwrap();
    let stem = path.file_stem().unwrap().to_string_lossy();
    let base = match stem.as_ref() {
        "mod" | "lib" | "main" => parent.to_path_buf(),
        _ => parent.join(stem.as_ref()),
    };
    [base.join(format!("{name}.rs")), base.join(name)]
}

impl Source {
    /// Which of `wanted` (paths like `std::env`, words, or macros like `println!`) are named, with lines. Names that
    /// a `use` with braces spreads over lines are put together first.
    pub(crate) fn names<'w>(&self, wanted: &[&'w str]) -> Vec<(usize, &'w str)> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            at = match self.tokens[at].text.as_str() {
                // Not the `use<'a>` of a captured lifetime.
                "use" if self.text(at + 1) != "<" => self.imports(at + 1, "", &mut paths),
                _ => self.path(at, &mut paths),
            };
        }
        let mut found = Vec::new();
        for (line, path) in paths {
            for name in wanted {
                let inside = format!("::{path}::").contains(&format!("::{name}::"));
                if inside && !found.contains(&(line, *name)) {
                    found.push((line, *name));
                }
            }
        }
        found
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    /// A path in an expression or a type: words joined by `::`, with a final `!` of a macro.
    fn path(&self, start: usize, paths: &mut Vec<(usize, String)>) -> usize {
        if !is_word(self.text(start)) {
            return start + 1;
        }
        let mut path = self.text(start).to_owned();
        let mut at = start + 1;
        while self.text(at) == ":" && self.text(at + 1) == ":" && is_word(self.text(at + 2)) {
            path = format!("{path}::{}", self.text(at + 2));
            at += 3;
        }
        if self.text(at) == "!" {
            path.push('!');
        }
        paths.push((self.tokens[start].line, path));
        at
    }

    /// A tree of `use`, from `at` on; gives back where it ends.
    fn imports(&self, mut at: usize, before: &str, paths: &mut Vec<(usize, String)>) -> usize {
        let mut path = before.to_owned();
        while at < self.tokens.len() {
            match self.text(at) {
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | ";" | "") {
                        at = self.imports(at, &path, paths);
                        if self.text(at) == "," {
                            at += 1;
                        }
                    }
                    return at + 1;
                }
                ":" => at += 1,
                "as" => at += 2,
                "," | "}" | ";" => break,
                word => {
                    path = if path.is_empty() {
                        word.to_owned()
                    } else {
                        format!("{path}::{word}")
                    };
                    at += 1;
                }
            }
        }
        let line = self
            .tokens
            .get(at.saturating_sub(1))
            .map_or(0, |token| token.line);
        paths.push((line, path));
        at
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Cuts out items behind an attribute `#[cfg(test)]` (or with `test` among more conditions that all must hold) and
/// behind `#[test]`; gives back the names of modules in other files among them.
fn cut_tests(tokens: &mut Vec<Token>) -> Vec<String> {
    let mut modules = Vec::new();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(after) = test_attribute(tokens, at) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let mut depth = 0;
        let mut end = after;
        while end < tokens.len() {
            let token = &tokens[end];
            match token.text.as_str() {
                _ if token.string => {}
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 && !token.string && matches!(token.text.as_str(), "}" | ";" | ",");
            end += 1;
            if ends {
                break;
            }
        }
        let named = tokens[after..end]
            .iter()
            .position(|token| token.text == "mod")
            .map(|place| after + place);
        if let Some(place) = named
            && tokens.get(place + 2).is_some_and(|token| token.text == ";")
        {
            modules.push(tokens[place + 1].text.clone());
        }
        at = end;
    }
    *tokens = kept;
    modules
}

/// The place behind a test attribute that begins at `at`.
fn test_attribute(tokens: &[Token], at: usize) -> Option<usize> {
    let text = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text.as_str());
    if text(0) != "#" || text(1) != "[" {
        return None;
    }
    let length = tokens[at..].iter().position(|token| token.text == "]")? + 1;
    let inside: Vec<&str> = tokens[at + 2..at + length - 1]
        .iter()
        .map(|token| token.text.as_str())
        .collect();
    let is_test = match inside.as_slice() {
        ["test"] => true,
        ["cfg", "(", "test", ")"] => true,
        ["cfg", "(", "all", "(", rest @ ..] => rest.contains(&"test") && !rest.contains(&"not"),
        _ => false,
    };
    is_test.then_some(at + length)
}

/// Splits a source into words, other characters and string literals; comments go.
fn lex(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let rest = &chars[at..];
        let begin = line;
        let (length, token) = match rest {
            ['/', '/', ..] => (rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()), None),
            ['/', '*', ..] => (block_comment(rest), None),
            ['"', ..] => string(rest, 1),
            ['b' | 'c', '"', ..] => string(rest, 2),
            ['r', '"' | '#', ..] => raw_string(rest, 1),
            ['b' | 'c', 'r', '"' | '#', ..] => raw_string(rest, 2),
            ['\'', '\\', ..] => (
                3 + rest[3..].iter().position(|c| *c == '\'').unwrap_or(0) + 1,
                None,
            ),
            ['\'', _, '\'', ..] => (3, None),
            [c, ..] if c.is_alphanumeric() || *c == '_' => {
                let length = rest
                    .iter()
                    .position(|c| !(c.is_alphanumeric() || *c == '_'))
                    .unwrap_or(rest.len());
                (length, Some((rest[..length].iter().collect(), false)))
            }
            [c, ..] if c.is_whitespace() => (1, None),
            [c, ..] => (1, Some((c.to_string(), false))),
            [] => break,
        };
        line += rest[..length.min(rest.len())]
            .iter()
            .filter(|c| **c == '\n')
            .count();
        if let Some((text, string)) = token {
            tokens.push(Token {
                line: begin,
                text,
                string,
            });
        }
        at += length;
    }
    tokens
}

type Literal = (usize, Option<(String, bool)>);

fn string(rest: &[char], open: usize) -> Literal {
    let mut end = open;
    while end < rest.len() && rest[end] != '"' {
        end += if rest[end] == '\\' { 2 } else { 1 };
    }
    let end = end.min(rest.len());
    (end + 1, Some((rest[open..end].iter().collect(), true)))
}

fn raw_string(rest: &[char], prefix: usize) -> Literal {
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    let open = prefix + hashes + 1;
    if rest.get(open - 1) != Some(&'"') {
        // A raw identifier such as r#type.
        return (prefix + hashes, None);
    }
    let close: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let length = rest[open..]
        .windows(close.len())
        .position(|window| window == close)
        .unwrap_or(rest.len() - open);
    (
        open + length + close.len(),
        Some((rest[open..open + length].iter().collect(), true)),
    )
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> (Source, Vec<String>) {
        let mut tokens = lex(text);
        let modules = cut_tests(&mut tokens);
        let strings = tokens
            .iter()
            .filter(|t| t.string)
            .map(|t| (t.line, t.text.clone()))
            .collect();
        tokens.retain(|token| !token.string);
        (
            Source {
                file: "x.rs".into(),
                strings,
                tokens,
            },
            modules,
        )
    }

    #[test]
    fn names_are_found_in_paths_and_imports_but_not_in_comments_strings_and_tests() {
        let wanted = &[
            "std::env",
            "std::fs",
            "std::thread",
            "Instant::now",
            "println!",
            "rand",
        ];
        for (text, expected) in [
            ("let x = std::env::var(y);", vec![(1, "std::env")]),
            (
                "use std::{io, fs::{self, File},\n thread};",
                vec![(1, "std::fs"), (2, "std::thread")],
            ),
            ("std::time::Instant::now()", vec![(1, "Instant::now")]),
            (
                "// std::env\n/* std::fs /* nested */ std::fs */ \"std::env\" r#\"std::env\"# 'a' '\\'' b\"std::fs\"",
                vec![],
            ),
            ("println!(\"x\")", vec![(1, "println!")]),
            ("let rand = brand::rand_x;", vec![(1, "rand")]),
            ("fn f<'a>(x: &'a str) { std::fs::read(x) }", vec![(1, "std::fs")]),
            (
                "#[cfg(test)]\nmod tests { fn f() { std::env::var(\"}\"); } }\nstd::fs::x",
                vec![(3, "std::fs")],
            ),
            ("#[test]\nfn f() { std::env::x() }", vec![]),
            (
                "#[cfg(not(test))]\nfn f() { std::env::x() }",
                vec![(2, "std::env")],
            ),
            ("#[cfg(test)]\nuse std::fs;\nuse std::env;", vec![(3, "std::env")]),
        ] {
            assert_eq!(source(text).0.names(wanted), expected, "{text}");
        }
    }

    #[test]
    fn modules_for_tests_in_other_files_are_named() {
        let (_, modules) = source("#[cfg(test)]\nmod tests;\nmod real;\n#[cfg(test)]\npub(crate) mod made;");
        assert_eq!(modules, ["tests", "made"]);
        assert_eq!(
            module_files(Path::new("a/b.rs"), "tests")[0],
            Path::new("a/b/tests.rs")
        );
        assert_eq!(
            module_files(Path::new("a/mod.rs"), "tests")[0],
            Path::new("a/tests.rs")
        );
    }

    #[test]
    fn strings_keep_their_line() {
        let (source, _) = source("\n\nlet x = \"SELECT 1\";");
        assert_eq!(source.strings, [(3, "SELECT 1".to_owned())]);
    }
}
