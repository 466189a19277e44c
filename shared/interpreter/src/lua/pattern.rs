//! Lua's string patterns, with a budget. Lua's own matcher runs inside one instruction, where no limit reaches it, and
//! takes exponential time on hostile patterns; this one pays for every step and stops.

use super::budget::Budget;
use super::limits::{PATTERN_BYTES_MAX, SUBJECT_BYTES_MAX};

/// Why a match was not found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatternError {
    /// The pattern is wrong, or something is too long.
    Bad(&'static str),
    /// The budget is used up.
    Exhausted,
}

type Step<T> = Result<T, PatternError>;

/// What a capture caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// Bytes from, length.
    Text(usize, usize),
    /// A place, counted from 1.
    Place(usize),
}

/// A match: where it begins and ends, and its captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

const CAPTURES_MAX: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Open(usize),
    Text(usize, usize),
    Place(usize),
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    slots: Vec<Slot>,
    budget: &'a Budget,
}

/// The first match at or after `init` (from 0). `anchors`: a leading `^` binds it to `init`.
pub(super) fn find(
    subject: &[u8],
    pattern: &[u8],
    init: usize,
    anchors: bool,
    budget: &Budget,
) -> Step<Option<Found>> {
    if subject.len() > SUBJECT_BYTES_MAX {
        return Err(PatternError::Bad("the text is too long to be matched"));
    }
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(PatternError::Bad("the pattern is too long"));
    }
    let (anchored, pattern) = match pattern.strip_prefix(b"^") {
        Some(rest) if anchors => (true, rest),
        _ => (false, pattern),
    };
    let mut matcher = Matcher {
        subject,
        pattern,
        slots: Vec::new(),
        budget,
    };
    let last = if anchored { init } else { subject.len() };
    for start in init..=last.min(subject.len()) {
        matcher.slots.clear();
        if let Some(end) = matcher.run(start, 0)? {
            let captures = matcher.captures()?;
            return Ok(Some(Found { start, end, captures }));
        }
    }
    Ok(None)
}

/// Where `needle` begins in `subject`, at or after `init`.
pub(super) fn find_plain(subject: &[u8], needle: &[u8], init: usize, budget: &Budget) -> Step<Option<usize>> {
    let Some(last) = subject.len().checked_sub(needle.len()) else {
        return Ok(None);
    };
    let mut compared = 0;
    for start in init..=last {
        let same = subject[start..]
            .iter()
            .zip(needle)
            .take_while(|(a, b)| a == b)
            .count();
        compared += 1 + same as u64;
        if same == needle.len() {
            return Ok(Some(start));
        }
        if compared > 4_096 {
            budget.charge(compared / 8).map_err(|_| PatternError::Exhausted)?;
            compared = 0;
        }
    }
    Ok(None)
}

/// Whether a pattern has characters with a meaning.
pub(super) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|c| b"^$*+?.([%-".contains(c))
}

impl Matcher<'_> {
    fn pay(&self) -> Step<()> {
        self.budget.charge(1).map_err(|_| PatternError::Exhausted)
    }

    /// Matches the pattern from `p` on at `s`; answers where the match ends.
    fn run(&mut self, mut s: usize, mut p: usize) -> Step<Option<usize>> {
        loop {
            self.pay()?;
            let Some(&c) = self.pattern.get(p) else {
                return Ok(Some(s));
            };
            match (c, self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.open(Slot::Place(s), s, p + 2),
                (b'(', _) => return self.open(Slot::Open(s), s, p + 1),
                (b')', _) => return self.close(s, p + 1),
                (b'%', Some(b'b')) => match self.balance(s, p + 2)? {
                    Some(end) => {
                        s = end;
                        p += 4;
                        continue;
                    }
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(PatternError::Bad("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.subject[s - 1] };
                    let here = self.subject.get(s).copied().unwrap_or(0);
                    if !self.in_set(before, p, end - 1) && self.in_set(here, p, end - 1) {
                        p = end;
                        continue;
                    }
                    return Ok(None);
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => {
                    let Some(end) = self.repeated(s, *digit)? else {
                        return Ok(None);
                    };
                    s = end;
                    p += 2;
                    continue;
                }
                (b'$', None) => return Ok((s == self.subject.len()).then_some(s)),
                _ => {}
            }
            let end = self.class_end(p)?;
            let here = self.single(s, p, end);
            match self.pattern.get(end) {
                Some(b'?') => {
                    if here && let Some(found) = self.run(s + 1, end + 1)? {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.longest(s, p, end),
                Some(b'+') => {
                    return if here {
                        self.longest(s + 1, p, end)
                    } else {
                        Ok(None)
                    };
                }
                Some(b'-') => return self.shortest(s, p, end),
                _ => {
                    if !here {
                        return Ok(None);
                    }
                    s += 1;
                    p = end;
                }
            }
        }
    }

    /// Behind the single character class that begins at `p`.
    fn class_end(&self, p: usize) -> Step<usize> {
        match self.pattern[p] {
            b'%' if p + 1 == self.pattern.len() => {
                Err(PatternError::Bad("malformed pattern (ends with '%')"))
            }
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A bracket right after the opening one is a member.
                loop {
                    let missing = PatternError::Bad("malformed pattern (missing ']')");
                    let c = *self.pattern.get(at).ok_or(missing.clone())?;
                    at += 1;
                    if c == b'%' {
                        if at >= self.pattern.len() {
                            return Err(missing);
                        }
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&c) = self.subject.get(s) else {
            return false;
        };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(c, self.pattern[p + 1]),
            b'[' => self.in_set(c, p, end - 1),
            literal => literal == c,
        }
    }

    /// Whether `c` is in the set from `p` (the opening bracket) to `end` (the closing one).
    fn in_set(&self, c: u8, p: usize, end: usize) -> bool {
        let mut at = p + 1;
        let inverted = self.pattern.get(at) == Some(&b'^');
        if inverted {
            at += 1;
        }
        while at < end {
            let hit = if self.pattern[at] == b'%' {
                at += 1;
                in_class(c, self.pattern[at])
            } else if self.pattern.get(at + 1) == Some(&b'-') && at + 2 < end {
                let (low, high) = (self.pattern[at], self.pattern[at + 2]);
                at += 2;
                (low..=high).contains(&c)
            } else {
                self.pattern[at] == c
            };
            if hit {
                return !inverted;
            }
            at += 1;
        }
        inverted
    }

    fn longest(&mut self, s: usize, p: usize, end: usize) -> Step<Option<usize>> {
        let mut many = 0;
        while self.single(s + many, p, end) {
            self.pay()?;
            many += 1;
        }
        loop {
            if let Some(found) = self.run(s + many, end + 1)? {
                return Ok(Some(found));
            }
            if many == 0 {
                return Ok(None);
            }
            many -= 1;
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Step<Option<usize>> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, slot: Slot, s: usize, p: usize) -> Step<Option<usize>> {
        if self.slots.len() >= CAPTURES_MAX {
            return Err(PatternError::Bad("too many captures"));
        }
        self.slots.push(slot);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.slots.pop();
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Step<Option<usize>> {
        let open = self.slots.iter().rposition(|slot| matches!(slot, Slot::Open(_)));
        let Some(position) = open else {
            return Err(PatternError::Bad("invalid pattern capture"));
        };
        let before = self.slots[position];
        if let Slot::Open(start) = before {
            self.slots[position] = Slot::Text(start, s - start);
        }
        let found = self.run(s, p)?;
        if found.is_none() {
            self.slots[position] = before;
        }
        Ok(found)
    }

    /// `%bxy`: from an x to the y that closes it.
    fn balance(&self, s: usize, p: usize) -> Step<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(PatternError::Bad("unbalanced pattern"));
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (offset, c) in self.subject[s + 1..].iter().enumerate() {
            self.pay()?;
            if *c == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(s + offset + 2));
                }
            } else if *c == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: the text of an earlier capture again.
    fn repeated(&self, s: usize, digit: u8) -> Step<Option<usize>> {
        let bad = PatternError::Bad("invalid capture index");
        let index = usize::from(digit - b'0').checked_sub(1).ok_or(bad.clone())?;
        let Some(Slot::Text(start, length)) = self.slots.get(index).copied() else {
            return Err(bad);
        };
        for _ in 0..length / 64 {
            self.pay()?;
        }
        let text = &self.subject[start..start + length];
        Ok(self.subject[s..].starts_with(text).then_some(s + length))
    }

    fn captures(&self) -> Step<Vec<Capture>> {
        self.slots
            .iter()
            .map(|slot| match *slot {
                Slot::Open(_) => Err(PatternError::Bad("unfinished capture")),
                Slot::Text(start, length) => Ok(Capture::Text(start, length)),
                Slot::Place(at) => Ok(Capture::Place(at + 1)),
            })
            .collect()
    }
}

/// `%a` and its like; a capital letter is the opposite, anything else stands for itself.
fn in_class(c: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => c.is_ascii_alphabetic(),
        b'c' => c.is_ascii_control(),
        b'd' => c.is_ascii_digit(),
        b'l' => c.is_ascii_lowercase(),
        b'p' => c.is_ascii_punctuation(),
        b's' => matches!(c, b' ' | b'\t'..=b'\r'),
        b'u' => c.is_ascii_uppercase(),
        b'w' => c.is_ascii_alphanumeric(),
        b'x' => c.is_ascii_hexdigit(),
        b'z' => c == 0,
        _ => return class == c,
    };
    if class.is_ascii_uppercase() { !is } else { is }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn first(subject: &str, pattern: &str) -> Option<Vec<String>> {
        let budget = Budget::new(Arc::default());
        let found =
            find(subject.as_bytes(), pattern.as_bytes(), 0, true, &budget).expect("a good pattern")?;
        let mut texts = vec![subject[found.start..found.end].to_owned()];
        texts.extend(found.captures.iter().map(|capture| match *capture {
            Capture::Text(from, length) => subject[from..from + length].to_owned(),
            Capture::Place(at) => at.to_string(),
        }));
        Some(texts)
    }

    #[test]
    fn matches_as_lua_does() {
        let cases: &[(&str, &str, Option<&[&str]>)] = &[
            ("key=12", "%d+", Some(&["12"])),
            ("key=12", "(%w+)=(%w+)", Some(&["key=12", "key", "12"])),
            ("  trim  ", "^%s*(.-)%s*$", Some(&["  trim  ", "trim"])),
            ("a.b.c", "^(.*)%.(.-)$", Some(&["a.b.c", "a.b", "c"])),
            ("f(a(b)c)d", "%b()", Some(&["(a(b)c)"])),
            ("THE (quick) fox", "%f[%a]%a+", Some(&["THE"])),
            ("say 'x' now", "(['\"])(.-)%1", Some(&["'x'", "'", "x"])),
            ("[]]", "[]]+", Some(&["]]"])),
            ("a-b", "[a%-]+", Some(&["a-"])),
            ("x^y", "[%^x]+", Some(&["x^"])),
            ("abc", "[^b]", Some(&["a"])),
            ("abc", "()b()", Some(&["b", "2", "3"])),
            ("abc", "^b", None),
            ("abc", "z?c$", Some(&["c"])),
            ("aaa", "a-", Some(&[""])),
            (
                "1024Mi",
                "^(%d+%.?%d*)([A-Za-z]*)$",
                Some(&["1024Mi", "1024", "Mi"]),
            ),
            ("", ".", None),
            ("v1.2", "v(%d)%.(%d)", Some(&["v1.2", "1", "2"])),
        ];
        for (subject, pattern, want) in cases {
            let want = want.map(|texts| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
            assert_eq!(first(subject, pattern), want, "{subject:?} with {pattern:?}");
        }
    }

    #[test]
    fn bad_patterns_are_errors() {
        for pattern in ["%", "[a", "[%", "(a", "a)", "%1", "%bx", "%fa", "[]"] {
            let budget = Budget::new(Arc::default());
            let got = find(b"aaa", pattern.as_bytes(), 0, true, &budget);
            assert!(matches!(got, Err(PatternError::Bad(_))), "{pattern}: {got:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_uses_up_its_budget_and_ends() {
        let budget = Budget::new(Arc::default());
        let subject = "a".repeat(10_000);
        let pattern = "a*".repeat(60) + "b";
        let got = find(subject.as_bytes(), pattern.as_bytes(), 0, true, &budget);
        assert_eq!(got, Err(PatternError::Exhausted));
        assert_eq!(
            find_plain(&[b'a'; 900_000], &[b'a'; 450_000], 0, &budget),
            Ok(Some(0))
        );
        let mut needle = vec![b'a'; 450_000];
        needle.push(b'b');
        let budget = Budget::new(Arc::default());
        assert_eq!(
            find_plain(&[b'a'; 900_000], &needle, 0, &budget),
            Err(PatternError::Exhausted)
        );
    }

    proptest! {
        #[test]
        fn any_pattern_answers(subject in "[ab().%\\[\\]1]{0,40}", pattern in "[ab().%*+?^$\\[\\]1f-]{0,20}") {
            let budget = Budget::new(Arc::default());
            if let Ok(Some(found)) = find(subject.as_bytes(), pattern.as_bytes(), 0, true, &budget) {
                prop_assert!(found.start <= found.end && found.end <= subject.len());
            }
        }
    }
}
