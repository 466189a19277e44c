//! What one call of a function costs at most, and how large what it makes is.

use super::size::{Size, scaled};
use super::{Estimate, ITEMS, LIST, Node, longer};
use crate::cel::signatures::Overload;
use crate::cel::types::Type;
use kube_cel::cel::common::ast::{Expr, LiteralValue, operators};

/// Looking through a text, per character.
const TEXT: f64 = 0.1;
/// A pattern, per character of it, for a text of unit cost.
const PATTERN: f64 = 0.25;
/// One question about rights.
const RIGHTS: u64 = 350_000;

/// A cost and the size of the result, if it is told.
type Called = (u64, Option<Size>);

fn plain(of: Option<&Type>) -> &str {
    match of {
        Some(Type::Plain(name)) => name,
        _ => "",
    }
}

/// A whole number as an argument.
fn number(node: &Node<'_>, otherwise: u64) -> u64 {
    match &node.expression.expr {
        Expr::Literal(LiteralValue::Int(n)) => u64::try_from(*n.inner()).unwrap_or(0),
        _ => otherwise,
    }
}

/// A list of that size that is made: its cost with what making it costs.
fn allocated(factor: f64, size: Size) -> Called {
    (size.cost(factor).saturating_add(1 + LIST), Some(size))
}

/// Sorting a list by keys of a type.
pub(super) fn sorted(size: Size, key: &Type) -> (u64, Size) {
    let has_text = matches!(key, Type::Plain("string" | "bytes") | Type::Dyn);
    let squared = size.times(size);
    let factor = if has_text { 2.0 + TEXT } else { 2.0 };
    (squared.cost(factor).saturating_add(1 + LIST), squared)
}

fn ceil_div(a: u64, b: u64) -> u64 {
    if a == u64::MAX { a } else { a.div_ceil(b.max(1)) }
}

fn replaced(text: Size, from: Size, to: Size) -> Size {
    let (mut count, mut kept) = (Size::fixed(0), Size::fixed(0));
    if from.min == 0 {
        // An empty text is found around every character.
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = ceil_div(text.max, from.min);
    }
    if from.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = ceil_div(text.min, from.max);
    }
    count.times(to).plus(kept)
}

/// A selector that is parsed into requirements.
fn selector(size: Size) -> u64 {
    let requirements = scaled(size.cost(0.5), 50.0);
    LIST.saturating_add(size.cost(TEXT)).saturating_add(requirements)
}

impl<'e> Estimate<'e> {
    /// What an item of a list (upstream: whatever the first parameter of the type is) is and how large.
    fn items(&self, list: &Node<'e>) -> Option<(Type, Size)> {
        let of = match &list.of {
            Type::List(inner) | Type::Optional(inner) => (**inner).clone(),
            Type::Map(key, _) => (**key).clone(),
            _ => return None,
        };
        let known = match list.path.is_empty() {
            true => None,
            false => self.schema_size(&longer(&list.path, ITEMS)),
        };
        Some((of, known.unwrap_or(Size::UNKNOWN)))
    }

    /// One overload of a function.
    pub(super) fn overload(
        &self,
        name: &str,
        overload: &Overload,
        target: Option<&Node<'e>>,
        arguments: &[Node<'e>],
    ) -> Called {
        let first = arguments.first();
        if let Some(called) = self.of_lists(name, overload, target, arguments) {
            return called;
        }
        if let Some(called) = self.of_the_api(name, overload, target, arguments) {
            return called;
        }
        let first_type = plain(overload.arguments.first());
        match (name, target, first) {
            ("format", Some(target), _) => (target.size().cost(TEXT), None),
            ("bytes", None, Some(one)) if first_type == "string" => {
                let size = one.size();
                let made = Size {
                    min: size.min,
                    max: size.max.wrapping_mul(4),
                };
                (size.cost(TEXT), Some(made))
            }
            ("string", None, Some(one)) if first_type == "bytes" => {
                let size = one.size();
                let made = Size {
                    min: size.min / 4,
                    max: size.max,
                };
                (size.cost(TEXT), Some(made))
            }
            ("strings.quote", None, Some(one)) => {
                let size = one.size();
                let made = Size {
                    min: size.min.wrapping_add(2),
                    max: size.max.wrapping_mul(2).wrapping_add(2),
                };
                (size.cost(TEXT), Some(made))
            }
            ("startsWith" | "endsWith", _, Some(one)) => (one.size().cost(TEXT), None),
            (operators::IN, ..) if matches!(overload.arguments.get(1), Some(Type::List(_))) => {
                let size = arguments.get(1).map_or(Size::UNKNOWN, Node::size);
                (size.cost(1.0), None)
            }
            ("matches", Some(target), Some(pattern)) => (matched(target.size(), pattern.size()), None),
            ("contains", Some(target), Some(part)) => {
                let cost = target.size().cost(TEXT).saturating_mul(part.size().cost(TEXT));
                (cost, None)
            }
            (operators::ADD, ..) => self.added(overload, arguments),
            (operators::EQUALS | operators::NOT_EQUALS, ..) => (compared(arguments), None),
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                ..,
            ) if matches!(first_type, "string" | "bytes") => (compared(arguments), None),
            _ => (1, None),
        }
    }

    fn added(&self, overload: &Overload, arguments: &[Node<'e>]) -> Called {
        let [left, right] = arguments else {
            return (1, None);
        };
        let size = left.size().plus(right.size());
        match overload.arguments.first() {
            Some(Type::List(_)) => (1, Some(size)),
            Some(Type::Plain("string" | "bytes")) => (size.cost(TEXT), Some(size)),
            _ => (1, None),
        }
    }

    /// Functions of lists and sets.
    fn of_lists(
        &self,
        name: &str,
        overload: &Overload,
        target: Option<&Node<'e>>,
        arguments: &[Node<'e>],
    ) -> Option<Called> {
        let size = target.map(Node::size);
        Some(match (name, size, arguments) {
            ("sets.contains" | "sets.intersects" | "sets.equivalent", None, [one, other]) => {
                let factor = if name == "sets.equivalent" { 2.0 } else { 1.0 };
                let cost = one.size().times(other.size()).cost(factor);
                (cost.saturating_add(1), None)
            }
            ("slice", Some(size), [start, end]) => {
                let length = number(end, size.max).wrapping_sub(number(start, 0));
                allocated(1.0, Size::fixed(length))
            }
            ("lists.range", None, [one]) => allocated(1.0, Size::fixed(number(one, u64::MAX))),
            ("reverse", Some(size), []) => allocated(1.0, size),
            ("flatten", Some(size), []) => allocated(1.0, size),
            #[expect(clippy::cast_precision_loss, reason = "as the reference does it")]
            ("flatten", Some(size), [depth]) => allocated(number(depth, u64::MAX) as f64, size),
            ("distinct", Some(size), []) => allocated(2.0, size.times(size)),
            ("sort", Some(size), []) if matches!(overload.receiver, Some(Type::List(_))) => {
                let key = target.and_then(|target| self.items(target)).map(|(of, _)| of);
                let (cost, size) = sorted(size, &key.unwrap_or(Type::Dyn));
                (cost, Some(size))
            }
            _ => return None,
        })
    }

    /// Functions that the API server adds or prices itself.
    fn of_the_api(
        &self,
        name: &str,
        overload: &Overload,
        target: Option<&Node<'e>>,
        arguments: &[Node<'e>],
    ) -> Option<Called> {
        let size = target.map(Node::size);
        let first = arguments.first().map(Node::size);
        Some(match (name, size, first) {
            ("check", ..) => (RIGHTS, None),
            (
                "serviceAccount"
                | "path"
                | "group"
                | "resource"
                | "subresource"
                | "namespace"
                | "name"
                | "allowed"
                | "reason"
                | "error"
                | "errored"
                | "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => (1, None),
            ("fieldSelector" | "labelSelector", _, Some(one)) => (selector(one), None),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(size), _) => {
                let items = target.and_then(|target| self.items(target));
                let cost = match items {
                    Some((Type::Plain("string" | "bytes"), item)) => {
                        size.max.saturating_mul(item.cost(TEXT).saturating_add(1))
                    }
                    Some(_) => size.max,
                    // A text.
                    None => size.cost(TEXT),
                };
                (cost, None)
            }
            ("url" | "jsonpatch.escapeKey", None, Some(one)) => (one.cost(TEXT), Some(one)),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(size), _) => {
                (size.cost(TEXT), Some(size))
            }
            ("replace", Some(size), Some(from)) => {
                let to = arguments.get(1)?.size();
                (size.cost(2.0 * TEXT), Some(replaced(size, from, to)))
            }
            ("split", Some(size), _) => {
                let most = match arguments.get(1).map(|node| &node.expression.expr) {
                    #[expect(clippy::cast_sign_loss, reason = "as the reference does it")]
                    Some(Expr::Literal(LiteralValue::Int(n))) => *n.inner() as u64,
                    _ => size.max,
                };
                (size.cost(2.0 * TEXT), Some(Size { min: 0, max: most }))
            }
            ("join", Some(size), _) => {
                let items = target.and_then(|target| self.items(target));
                let mut made = items.map_or(Size::fixed(0), |(_, item)| size.times(item));
                if let Some(between) = first {
                    let gaps = Size {
                        min: size.min.saturating_sub(1),
                        max: size.max.saturating_sub(1),
                    };
                    made = made.plus(between.times(gaps));
                }
                (made.cost(TEXT), Some(made))
            }
            ("find" | "findAll", Some(size), Some(pattern)) => {
                let made = Size {
                    min: 0,
                    max: size.max,
                };
                (matched(size, pattern), Some(made))
            }
            ("ip", ..) if plain(overload.receiver.as_ref()) == "net.CIDR" => (1, None),
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                Some(one),
            ) => (one.cost(TEXT), None),
            ("ip.isCanonical", _, Some(one)) => (one.cost(2.0 * TEXT), None),
            ("containsIP" | "containsCIDR", _, Some(one)) => {
                // Two addresses of up to 16 bytes are compared; a network is masked before.
                let mut cost = scaled(32, TEXT);
                if name == "containsCIDR" {
                    cost += scaled(16, TEXT) + 1;
                }
                if plain(overload.arguments.first()) == "string" {
                    cost = cost.saturating_add(one.cost(TEXT));
                }
                (cost, None)
            }
            ("validate", _, Some(one)) => (scaled(one.cost(TEXT), 128.0 * PATTERN), None),
            (operators::EQUALS, ..) => {
                let [left, right] = arguments else { return None };
                if left.of != right.of {
                    return None;
                }
                match &left.of {
                    Type::Plain(
                        "net.IP"
                        | "net.CIDR"
                        | "kubernetes.Quantity"
                        | "kubernetes.Semver"
                        | "kubernetes.authorization.Authorizer"
                        | "kubernetes.authorization.PathCheck"
                        | "kubernetes.authorization.GroupCheck"
                        | "kubernetes.authorization.ResourceCheck"
                        | "kubernetes.authorization.Decision",
                    ) => (1, None),
                    Type::Plain("kubernetes.NamedFormat") => (scaled(64, TEXT), None),
                    Type::Plain("kubernetes.URL") => {
                        let size = right.size.unwrap_or(Size::fixed(1));
                        (size.cost(TEXT), None)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
}

/// A text against a pattern. An empty text counts as one character: the pattern is dear without it.
fn matched(text: Size, pattern: Size) -> u64 {
    let text = text.plus(Size::fixed(1)).cost(TEXT);
    text.saturating_mul(pattern.cost(PATTERN))
}

/// Two values that are compared as far as the shorter one goes.
fn compared(arguments: &[Node<'_>]) -> u64 {
    let sizes = arguments.iter().map(|node| node.size().max);
    scaled(sizes.min().unwrap_or(u64::MAX), TEXT)
}
