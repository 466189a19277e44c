//! What a request asks for: its path and its query, parsed by hand as Kubernetes lays them out.

use hub_core::discovery::Root;
use hub_core::status_error::StatusError;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// `/version`.
    Version,
    /// `/metrics`.
    Metrics,
    /// `/healthz`, `/livez`, `/readyz` and their checks.
    Health,
    /// `/api` or `/apis`.
    Groups(Root),
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    Resources(String, String),
    /// `/openapi/v3`.
    OpenApi,
    /// `/openapi/v3/...`: group and version.
    OpenApiOf(String, String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// Objects.
    Resource(Address),
    /// This product's own calls.
    Fleet,
    /// Nowhere.
    Unknown,
}

/// Path of objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Address {
    /// API group.
    pub(super) group: String,
    /// API version.
    pub(super) version: String,
    /// Namespace, if the path has one.
    pub(super) namespace: Option<String>,
    /// Plural resource.
    pub(super) plural: String,
    /// Object name.
    pub(super) name: Option<String>,
    /// Subresource.
    pub(super) subresource: Option<String>,
}

/// Group of this product's own calls.
const FLEET_GROUP: &str = "fleet.pinnace.dev";

/// Reads a path. Trailing slashes do not matter.
pub(super) fn place(path: &str) -> Place {
    let decoded: Option<Vec<String>> = path
        .split('/')
        .filter(|s| !s.is_empty())
        .map(percent_decoded)
        .collect();
    let Some(segments) = decoded else {
        return Place::Unknown;
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let own = str::to_owned;
    match segments.as_slice() {
        ["version"] => Place::Version,
        ["metrics"] => Place::Metrics,
        ["healthz" | "livez" | "readyz", ..] => Place::Health,
        ["api"] => Place::Groups(Root::Core),
        ["apis"] => Place::Groups(Root::Named),
        ["apis", group] => Place::Group(own(group)),
        ["api", version] => Place::Resources(String::new(), own(version)),
        ["apis", FLEET_GROUP, _, _, ..] => Place::Fleet,
        ["apis", group, version] => Place::Resources(own(group), own(version)),
        ["openapi", "v2"] => Place::OpenApiV2,
        ["openapi", "v3"] => Place::OpenApi,
        ["openapi", "v3", "api", version] => Place::OpenApiOf(String::new(), own(version)),
        ["openapi", "v3", "apis", group, version] => Place::OpenApiOf(own(group), own(version)),
        ["api", version, rest @ ..] => objects("", version, rest),
        ["apis", group, version, rest @ ..] => objects(group, version, rest),
        _ => Place::Unknown,
    }
}

fn objects(group: &str, version: &str, rest: &[&str]) -> Place {
    let own = |s: &&str| (*s).to_owned();
    let (namespace, plural, name, subresource) = match rest {
        // Subresources of a namespace look like resources in it.
        ["namespaces", name, sub @ ("status" | "finalize")] => (None, &"namespaces", Some(name), Some(sub)),
        ["namespaces", namespace, plural] => (Some(namespace), plural, None, None),
        ["namespaces", namespace, plural, name] => (Some(namespace), plural, Some(name), None),
        ["namespaces", namespace, plural, name, sub] => (Some(namespace), plural, Some(name), Some(sub)),
        [plural] => (None, plural, None, None),
        [plural, name] => (None, plural, Some(name), None),
        [plural, name, sub] => (None, plural, Some(name), Some(sub)),
        _ => return Place::Unknown,
    };
    Place::Resource(Address {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.map(own),
        plural: own(plural),
        name: name.map(own),
        subresource: subresource.map(own),
    })
}

/// Decodes `%41`; `None` if it is not valid.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

/// Whether Go reads a text as a duration: `0`, `1h30m`, `1.5s`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let is_empty = rest.is_empty();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let has_digit = number.bytes().any(|b| b.is_ascii_digit());
        if !has_digit || number.matches('.').count() > 1 || !UNITS.contains(&unit) {
            return false;
        }
        rest = after;
    }
    !is_empty
}

/// The query of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string; pairs that are not text are left out.
    pub(super) fn parse(text: &str) -> Query {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |t: &str| percent_decoded(&t.replace('+', " "));
            Some((decoded(key)?, decoded(value)?))
        };
        Query(
            text.split('&')
                .filter(|p| !p.is_empty())
                .filter_map(pair)
                .collect(),
        )
    }

    /// First value of a parameter; an empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// A boolean parameter: absent, `0` and `false` are false (`?watch` alone is true in Kubernetes as well).
    pub(super) fn flag(&self, name: &str) -> bool {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.is_some_and(|(_, value)| !matches!(value.as_str(), "0" | "false" | "False" | "f"))
    }

    /// Narrows the field selector to one name: a watch of a single object.
    pub(super) fn select_name(&mut self, name: &str) {
        let term = format!("metadata.name={name}");
        match self.0.iter_mut().find(|(key, _)| key == "fieldSelector") {
            Some((_, selector)) if !selector.is_empty() => *selector = format!("{selector},{term}"),
            Some((_, selector)) => *selector = term,
            None => self.0.push(("fieldSelector".to_owned(), term)),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// 400 if it is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, StatusError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        match text.parse::<i64>() {
            // Below zero is not given.
            Ok(number) => Ok(u64::try_from(number).ok()),
            Err(_) => Err(StatusError::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))),
        }
    }

    /// Checks `timeout`, which every request may carry. None takes as long as one can say there, so it has no effect.
    ///
    /// # Errors
    /// 400 if it is no duration.
    pub(super) fn check_timeout(&self) -> Result<(), StatusError> {
        match self.get("timeout") {
            Some(text) if !is_duration(text) => Err(StatusError::bad_request(format!(
                "invalid timeout specified in the request URL - time: invalid duration {text:?}"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the write is a dry run.
    ///
    /// # Errors
    /// 422 for a word that is not `All`.
    pub(super) fn dry_run(&self, options_kind: &str) -> Result<bool, StatusError> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(dry_run_error(other, options_kind)),
        }
    }
}

/// 422 for a `dryRun` that is not `All`.
pub(super) fn dry_run_error(given: &str, options_kind: &str) -> StatusError {
    use hub_core::status_error::Cause;
    let cause = Cause::not_supported("dryRun", &serde_json::json!([given]), &["All"]);
    StatusError::invalid("meta.k8s.io", options_kind, "", vec![cause])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_duration() {
        for text in ["0", "0s", "1h30m", "1.5s", "-3m", ".5ms", "10us"] {
            assert!(is_duration(text), "{text}");
        }
        for text in ["", "invalid", "1", "s", "1d", "1.2.3s", ".s", "-", "1s2"] {
            assert!(!is_duration(text), "{text}");
        }
        assert!(Query::parse("timeout=3m").check_timeout().is_ok());
        let error = Query::parse("timeout=invalid")
            .check_timeout()
            .expect_err("no duration");
        assert_eq!(error.code(), 400);
        assert!(
            error
                .message
                .starts_with("invalid timeout specified in the request URL")
        );
    }

    fn address(path: &str) -> (String, String, String, String, String, String) {
        match place(path) {
            Place::Resource(a) => {
                let text = |t: Option<String>| t.unwrap_or_else(|| "-".to_owned());
                (
                    a.group,
                    a.version,
                    text(a.namespace),
                    a.plural,
                    text(a.name),
                    text(a.subresource),
                )
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_of_objects() {
        let table = [
            ("/api/v1/pods", ("", "v1", "-", "pods", "-", "-")),
            ("/api/v1/namespaces", ("", "v1", "-", "namespaces", "-", "-")),
            ("/api/v1/namespaces/a/", ("", "v1", "-", "namespaces", "a", "-")),
            (
                "/api/v1/namespaces/a/status",
                ("", "v1", "-", "namespaces", "a", "status"),
            ),
            ("/api/v1/namespaces/a/pods", ("", "v1", "a", "pods", "-", "-")),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                ("apps", "v1", "a", "deployments", "b", "scale"),
            ),
            (
                "/apis/g/v1/clusterroles/system%3Aa",
                ("g", "v1", "-", "clusterroles", "system:a", "-"),
            ),
        ];
        for (path, (group, version, namespace, plural, name, sub)) in table {
            let expected = [group, version, namespace, plural, name, sub].map(str::to_owned);
            let (a, b, c, d, e, f) = address(path);
            assert_eq!([a, b, c, d, e, f], expected, "{path}");
        }
    }

    #[test]
    fn other_paths() {
        let table = [
            ("/version/", Place::Version),
            ("/readyz/ping", Place::Health),
            ("/api", Place::Groups(Root::Core)),
            ("/apis/", Place::Groups(Root::Named)),
            ("/apis/apps", Place::Group("apps".to_owned())),
            ("/api/v1", Place::Resources(String::new(), "v1".to_owned())),
            (
                "/openapi/v3/apis/apps/v1",
                Place::OpenApiOf("apps".to_owned(), "v1".to_owned()),
            ),
            ("/apis/fleet.pinnace.dev/v1alpha1/jointokens", Place::Fleet),
            ("/logs", Place::Unknown),
            ("/api/v1/a/b/c/d", Place::Unknown),
            ("/api/v1/%zz", Place::Unknown),
        ];
        for (path, expected) in table {
            assert_eq!(place(path), expected, "{path}");
        }
    }

    #[test]
    fn queries() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&limit=5&empty=&dryRun=Some");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch") && !query.flag("none"));
        assert_eq!(query.number("limit"), Ok(Some(5)));
        assert_eq!(query.get("empty"), None);
        assert_eq!(
            query.dry_run("CreateOptions").expect_err("unknown word").code(),
            422
        );
        assert!(Query::parse("limit=x").number("limit").is_err());
    }
}
