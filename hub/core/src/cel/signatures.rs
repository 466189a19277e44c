//! The functions that a Kubernetes API server declares for expressions, with their types.
//! Source: apiserver `cel/library` and `cel/environment` of the release that the type table is from; what it does not
//! declare (`math`, `base64`, `cel.bind`) is not here either, although the crate below has it.

use super::types::Type;
use std::collections::HashMap;
use std::sync::LazyLock;

/// One overload.
#[derive(Debug)]
pub(super) struct Overload {
    /// Type of what it is called on; none for a plain function.
    pub(super) receiver: Option<Type>,
    pub(super) arguments: Vec<Type>,
    pub(super) result: Type,
}

/// `NAME: RECEIVER.(ARGUMENTS) RESULT | (ARGUMENTS) RESULT`.
const TABLE: &str = "
!_: (bool) bool
-_: (int) int | (double) double
_+_: (int, int) int | (uint, uint) uint | (double, double) double | (string, string) string | (bytes, bytes) bytes | (list(A), list(A)) list(A) | (timestamp, duration) timestamp | (duration, timestamp) timestamp | (duration, duration) duration
_-_: (int, int) int | (uint, uint) uint | (double, double) double | (timestamp, timestamp) duration | (timestamp, duration) timestamp | (duration, duration) duration
_*_: (int, int) int | (uint, uint) uint | (double, double) double
_/_: (int, int) int | (uint, uint) uint | (double, double) double
_%_: (int, int) int | (uint, uint) uint
_==_: (A, A) bool
_!=_: (A, A) bool
_<_: #
_<=_: #
_>_: #
_>=_: #
@in: (A, list(A)) bool | (A, map(A, B)) bool
_[_]: (list(A), int) A | (map(A, B), A) B | (optional(list(A)), int) optional(A) | (optional(map(A, B)), A) optional(B)
_[?_]: (list(A), int) optional(A) | (map(A, B), A) optional(B) | (optional(list(A)), int) optional(A) | (optional(map(A, B)), A) optional(B)
size: (string) int | (bytes) int | (list(A)) int | (map(A, B)) int | string.() int | bytes.() int | list(A).() int | map(A, B).() int
type: (A) type
dyn: (A) dyn
bool: (bool) bool | (string) bool
bytes: (bytes) bytes | (string) bytes
double: (double) double | (int) double | (uint) double | (string) double
duration: (duration) duration | (string) duration
int: (int) int | (double) int | (uint) int | (string) int | (timestamp) int | (duration) int
uint: (uint) uint | (double) uint | (int) uint | (string) uint
string: (string) string | (bool) string | (bytes) string | (double) string | (int) string | (uint) string | (timestamp) string | (duration) string | (ip) string | (cidr) string | ip.() string | cidr.() string
timestamp: (timestamp) timestamp | (string) timestamp | (int) timestamp
matches: string.(string) bool | (string, string) bool
contains: string.(string) bool
startsWith: string.(string) bool
endsWith: string.(string) bool
getFullYear: timestamp.() int | timestamp.(string) int
getMonth: timestamp.() int | timestamp.(string) int
getDayOfYear: timestamp.() int | timestamp.(string) int
getDayOfMonth: timestamp.() int | timestamp.(string) int
getDate: timestamp.() int | timestamp.(string) int
getDayOfWeek: timestamp.() int | timestamp.(string) int
getHours: timestamp.() int | timestamp.(string) int | duration.() int
getMinutes: timestamp.() int | timestamp.(string) int | duration.() int
getSeconds: timestamp.() int | timestamp.(string) int | duration.() int
getMilliseconds: timestamp.() int | timestamp.(string) int | duration.() int
charAt: string.(int) string
indexOf: string.(string) int | string.(string, int) int | list(A).(A) int
lastIndexOf: string.(string) int | string.(string, int) int | list(A).(A) int
lowerAscii: string.() string
upperAscii: string.() string
replace: string.(string, string) string | string.(string, string, int) string
split: string.(string) list(string) | string.(string, int) list(string)
substring: string.(int) string | string.(int, int) string
trim: string.() string
join: list(string).() string | list(string).(string) string
strings.quote: (string) string
format: string.(list(dyn)) string
isSorted: list(A).() bool
sum: list(A).() A
min: list(A).() A
max: list(A).() A
distinct: list(A).() list(A)
flatten: list(list(A)).() list(A) | list(dyn).(int) list(dyn)
slice: list(A).(int, int) list(A)
sort: list(A).() list(A)
reverse: list(A).() list(A)
first: list(A).() optional(A)
last: list(A).() optional(A)
lists.range: (int) list(int)
sets.contains: (list(A), list(A)) bool
sets.equivalent: (list(A), list(A)) bool
sets.intersects: (list(A), list(A)) bool
find: string.(string) string
findAll: string.(string) list(string) | string.(string, int) list(string)
url: (string) url
isURL: (string) bool
getScheme: url.() string
getHost: url.() string
getHostname: url.() string
getPort: url.() string
getEscapedPath: url.() string
getQuery: url.() map(string, list(string))
ip: (string) ip | cidr.() ip
isIP: (string) bool
ip.isCanonical: (string) bool
family: ip.() int
isLoopback: ip.() bool
isUnspecified: ip.() bool
isLinkLocalMulticast: ip.() bool
isLinkLocalUnicast: ip.() bool
isGlobalUnicast: ip.() bool
cidr: (string) cidr
isCIDR: (string) bool
containsIP: cidr.(string) bool | cidr.(ip) bool
containsCIDR: cidr.(string) bool | cidr.(cidr) bool
masked: cidr.() cidr
prefixLength: cidr.() int
semver: (string) semver | (string, bool) semver
isSemver: (string) bool | (string, bool) bool
major: semver.() int
minor: semver.() int
patch: semver.() int
isGreaterThan: semver.(semver) bool | quantity.(quantity) bool
isLessThan: semver.(semver) bool | quantity.(quantity) bool
compareTo: semver.(semver) int | quantity.(quantity) int
quantity: (string) quantity
isQuantity: (string) bool
isInteger: quantity.() bool
asInteger: quantity.() int
asApproximateFloat: quantity.() double
sign: (quantity) int
add: quantity.(quantity) quantity | quantity.(int) quantity
sub: quantity.(quantity) quantity | quantity.(int) quantity
validate: format.(string) optional(list(string))
format.dns1123Label: () format
format.dns1123Subdomain: () format
format.dns1035Label: () format
format.dns1123LabelPrefix: () format
format.dns1123SubdomainPrefix: () format
format.dns1035LabelPrefix: () format
format.qualifiedName: () format
format.labelValue: () format
format.uri: () format
format.uuid: () format
format.byte: () format
format.date: () format
format.datetime: () format
format.named: (string) optional(format)
jsonpatch.escapeKey: (string) string
optional.of: (A) optional(A)
optional.ofNonZeroValue: (A) optional(A)
optional.none: () optional(A)
optional.unwrap: (list(optional(A))) list(A)
unwrapOpt: list(optional(A)).() list(A)
value: optional(A).() A
hasValue: optional(A).() bool
or: optional(A).(optional(A)) optional(A)
orValue: optional(A).(A) A
path: authorizer.(string) pathcheck
group: authorizer.(string) groupcheck
serviceAccount: authorizer.(string, string) authorizer
resource: groupcheck.(string) resourcecheck
subresource: resourcecheck.(string) resourcecheck
namespace: resourcecheck.(string) resourcecheck
name: resourcecheck.(string) resourcecheck
labelSelector: resourcecheck.(string) resourcecheck
fieldSelector: resourcecheck.(string) resourcecheck
check: pathcheck.(string) decision | resourcecheck.(string) decision
allowed: decision.() bool
reason: decision.() string
errored: decision.() bool
error: decision.() string
";

/// Types that have an order; numbers also among each other.
const ORDERED: [&str; 6] = ["bool", "string", "bytes", "timestamp", "duration", "null"];
const NUMBERS: [&str; 3] = ["int", "uint", "double"];

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut out = HashMap::new();
    for line in TABLE.lines() {
        let Some((name, texts)) = line.split_once(": ") else {
            continue;
        };
        let overloads = match texts {
            "#" => orders(),
            texts => texts.split(" | ").map(overload).collect(),
        };
        out.insert(name, overloads);
    }
    out
});

fn orders() -> Vec<Overload> {
    let of = |a: &str, b: &str| Overload {
        receiver: None,
        arguments: vec![Type::plain(a), Type::plain(b)],
        result: Type::plain("bool"),
    };
    let same = ORDERED[..5].iter().map(|t| of(t, t));
    let numbers = NUMBERS.iter().flat_map(|a| NUMBERS.iter().map(move |b| of(a, b)));
    same.chain(numbers).collect()
}

fn overload(text: &str) -> Overload {
    let (receiver, mut rest) = if text.starts_with('(') {
        (None, text)
    } else {
        let (receiver, rest) = Type::read(text);
        (Some(receiver), rest.trim_start_matches('.'))
    };
    rest = rest.trim_start_matches('(');
    let mut arguments = Vec::new();
    while !rest.starts_with(')') && !rest.is_empty() {
        let (argument, after) = Type::read(rest);
        arguments.push(argument);
        rest = after.trim_start_matches([',', ' ']);
    }
    let (result, _) = Type::read(rest.trim_start_matches(')'));
    Overload {
        receiver,
        arguments,
        result,
    }
}

/// The overloads of a function.
pub(super) fn of(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_as_it_is_written() {
        let split = of("split").expect("known");
        assert_eq!(split.len(), 2);
        assert_eq!(split[1].receiver, Some(Type::plain("string")));
        assert_eq!(split[1].arguments.len(), 2);
        assert_eq!(split[1].result.to_string(), "list(string)");
        let index = of("_[_]").expect("known");
        assert_eq!(index[3].result.to_string(), "optional_type(B)");
        assert_eq!(of("_<_").expect("known").len(), 5 + 9);
        assert_eq!(
            of("getQuery").expect("known")[0].result.to_string(),
            "map(string, list(string))"
        );
        assert!(of("math.abs").is_none());
    }
}
