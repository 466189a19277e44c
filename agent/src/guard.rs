//! Reads the site's guard: from a file that only root can change, or from a ConfigMap that the agent can only get.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agent_core::guard::{Guard, Verb};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use shared::ids::ObjectKey;

use crate::limits::GUARD_BYTES_MAX;
use crate::member::api::Api;

/// Key of the guard in its ConfigMap.
const KEY: &str = "guard.yaml";
/// Where a pod finds its own namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Where the guard is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// The built-in default.
    #[default]
    Default,
    /// A file of root's.
    File(PathBuf),
    /// A ConfigMap, by namespace and name.
    ConfigMap(String, String),
}

/// The guard in force; none until a ConfigMap was read for the first time.
#[derive(Debug)]
pub struct Keeper {
    source: Source,
    guard: RefCell<Option<Guard>>,
}

impl Keeper {
    /// Reads a file at once; a ConfigMap waits for the member ([`Self::refresh`]).
    ///
    /// # Errors
    /// When the file cannot be read, is not root's alone, or is no guard.
    pub fn start(source: Source) -> Result<Self> {
        let guard = match &source {
            Source::Default => Some(bind(Guard::default())?),
            Source::File(path) => Some(read(path)?),
            Source::ConfigMap(..) => None,
        };
        Ok(Self {
            source,
            guard: RefCell::new(guard),
        })
    }

    /// Reads a ConfigMap again; what is in force stays when it cannot be read.
    ///
    /// # Errors
    /// When it cannot be read or is no guard.
    pub async fn refresh(&self, api: &Api) -> Result<()> {
        let Source::ConfigMap(namespace, name) = &self.source else {
            return Ok(());
        };
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        let what = || format!("the guard in ConfigMap {namespace}/{name}");
        let object: Value = api.document(&path).await.with_context(what)?;
        let text = object
            .pointer(&format!("/data/{KEY}"))
            .and_then(Value::as_str)
            .with_context(|| format!("{} has no {KEY}", what()))?;
        *self.guard.borrow_mut() = Some(parse(text).with_context(what)?);
        Ok(())
    }

    /// Whether something may be done to an object; if not, why.
    ///
    /// # Errors
    /// The reason for the report.
    pub fn check(&self, verb: Verb, key: &ObjectKey) -> Result<(), String> {
        match &*self.guard.borrow() {
            Some(guard) => guard.check(verb, key),
            None => Err("the guard of this site could not be read yet; nothing is touched before".to_owned()),
        }
    }
}

/// The guard of a source that needs no member.
///
/// # Errors
/// As [`Keeper::start`].
pub fn read(path: &Path) -> Result<Guard> {
    let what = || format!("the guard {}", path.display());
    let metadata = std::fs::metadata(path).with_context(what)?;
    if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
        bail!("{} must belong to root and be writable by nobody else", what());
    }
    if metadata.len() > GUARD_BYTES_MAX {
        bail!("{} has more than {GUARD_BYTES_MAX} bytes", what());
    }
    parse(&std::fs::read_to_string(path).with_context(what)?).with_context(what)
}

fn parse(text: &str) -> Result<Guard> {
    bind(serde_saphyr::from_str(text).context("it is no guard")?)
}

fn bind(guard: Guard) -> Result<Guard> {
    Ok(guard.bound(pod_namespace().as_deref())?)
}

/// The namespace of the pod that this process runs in, if it runs in one.
#[must_use]
pub fn pod_namespace() -> Option<String> {
    let text = std::fs::read_to_string(POD_NAMESPACE).ok()?;
    Some(text.trim().to_owned()).filter(|n| !n.is_empty())
}

/// `NAMESPACE/NAME` of a ConfigMap.
///
/// # Errors
/// When it has another form.
pub fn config_map(text: &str) -> Result<Source, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Source::ConfigMap(namespace.to_owned(), name.to_owned()))
        }
        _ => Err(format!("{text:?} is not NAMESPACE/NAME")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const GUARD: &str = "allow:\n- kinds: [Deployment.apps]\n  namespaces: [\"shop-*\"]\n  verbs: [apply]\n";

    #[test]
    fn a_guard_is_read_and_a_misspelt_one_refused() {
        let guard = parse(GUARD).expect("a guard");
        let web = ObjectKey::new("apps", "Deployment", "shop-1", "web");
        assert!(guard.check(Verb::Apply, &web).is_ok());
        assert!(guard.check(Verb::Delete, &web).is_err());
        assert!(
            parse(&GUARD.replace("verbs", "verb")).is_err(),
            "an unknown field"
        );
        assert!(parse(&GUARD.replace("apply", "all")).is_err(), "an unknown verb");
        assert!(parse("allow: []").is_ok(), "nothing at all is a guard too");
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.yaml");
        std::fs::write(&path, GUARD).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let refused = read(&path).expect_err("writable by others");
        assert!(refused.to_string().contains("must belong to root"), "{refused}");
    }

    #[test]
    fn nothing_passes_before_the_config_map_was_read() {
        let keeper = Keeper::start(config_map("edge/guard").unwrap()).unwrap();
        let web = ObjectKey::new("apps", "Deployment", "shop", "web");
        assert!(
            keeper
                .check(Verb::Apply, &web)
                .unwrap_err()
                .contains("could not be read")
        );
        assert!(config_map("edge").is_err());
    }
}
