//! Image overrider: changes of the registry, repository or tag of image references.
//!
//! The parts are those of the reference: the first segment is a registry if it has a dot or colon or is `localhost`;
//! Docker Hub's implicit registry is not spelled out; with tag and digest together the tag wins.

use serde_json::Value;

use super::Failed;
use super::containers::containers_path;
use crate::policy::{ImageComponent, ImageOverrider, OverrideOperator};

/// Longest repository name an image reference may have.
const NAME_MAX: usize = 255;
/// Longest tag.
const TAG_MAX: usize = 128;
/// Fewest hex digits of a digest.
const DIGEST_HEX_MIN: usize = 32;

/// An image reference in its parts; a part that is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Host, with port.
    pub registry: String,
    /// Path.
    pub repository: String,
    /// Tag.
    pub tag: String,
    /// Digest, with its algorithm.
    pub digest: String,
}

/// A text that is not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an image reference")]
pub struct NotAnImage(pub String);

impl Image {
    /// Splits a reference.
    ///
    /// # Errors
    /// The text does not follow the grammar of image references.
    pub fn parse(text: &str) -> Result<Self, NotAnImage> {
        let refuse = || NotAnImage(text.to_owned());
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, digest),
            Some(_) => return Err(refuse()),
            None => (text, ""),
        };
        let last_segment = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match rest[last_segment..].rfind(':') {
            Some(colon) => (&rest[..last_segment + colon], &rest[last_segment + colon + 1..]),
            None => (rest, ""),
        };
        if rest.len() != name.len() && !is_tag(tag) {
            return Err(refuse());
        }
        let (registry, repository) = match name.split_once('/') {
            Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => (first, path),
            _ => ("", name),
        };
        // A first segment that cannot be part of a path may still be a host, although it is not taken for a registry.
        let path_is_valid = repository.split('/').all(is_path_component)
            || repository.split_once('/').is_some_and(|(first, path)| {
                registry.is_empty() && is_host(first) && path.split('/').all(is_path_component)
            });
        if !path_is_valid || !(registry.is_empty() || is_host(registry)) || name.len() > NAME_MAX {
            return Err(refuse());
        }
        let digest = if tag.is_empty() { digest } else { "" };
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            digest: digest.to_owned(),
        })
    }

    /// Changes one part.
    pub fn change(&mut self, component: ImageComponent, operator: OverrideOperator, value: &str) {
        match component {
            ImageComponent::Registry => edit(&mut self.registry, operator, value),
            ImageComponent::Repository => edit(&mut self.repository, operator, value),
            ImageComponent::Tag if operator == OverrideOperator::Remove => {
                if self.tag.is_empty() {
                    self.digest.clear();
                } else {
                    self.tag.clear();
                }
            }
            ImageComponent::Tag => {
                let mut wanted = if self.tag.is_empty() {
                    self.digest.clone()
                } else {
                    self.tag.clone()
                };
                edit(&mut wanted, operator, value);
                self.set_tag(wanted);
            }
        }
    }

    /// Takes a tag or digest; anything else changes nothing.
    fn set_tag(&mut self, wanted: String) {
        if is_tag(&wanted) {
            self.tag = wanted;
            self.digest.clear();
        } else if is_digest(&wanted) {
            self.digest = wanted;
            self.tag.clear();
        }
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.registry.is_empty() {
            write!(f, "{}/", self.registry)?;
        }
        f.write_str(&self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)
        } else if !self.digest.is_empty() {
            write!(f, "@{}", self.digest)
        } else {
            Ok(())
        }
    }
}

fn edit(part: &mut String, operator: OverrideOperator, value: &str) {
    match operator {
        OverrideOperator::Add => part.push_str(value),
        OverrideOperator::Replace => value.clone_into(part),
        OverrideOperator::Remove => part.clear(),
        OverrideOperator::None => {}
    }
}

fn is_tag(text: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= TAG_MAX
        && bytes.first().is_some_and(word)
        && bytes.iter().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    let algorithm_part = |part: &str| {
        part.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
            && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(algorithm_part)
        && hex.len() >= DIGEST_HEX_MIN
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Lower-case letters and digits, joined by one dot, one or two underscores, or any number of dashes.
fn is_path_component(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    if !(bytes.first().copied().is_some_and(plain) && bytes.last().copied().is_some_and(plain)) {
        return false;
    }
    text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let label = |part: &str| {
        let bytes = part.as_bytes();
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host_is_valid = match bracketed {
        Some(address) => address
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b':'),
        None => host.split('.').all(label),
    };
    host_is_valid
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

const OVERRIDER: &str = "imageOverrider";

/// Applies the list, one after another.
///
/// # Errors
/// A path does not lead to a text, or a text is not an image reference.
pub(super) fn apply(object: &mut Value, overriders: &[ImageOverrider]) -> Result<(), Failed> {
    for (index, overrider) in overriders.iter().enumerate() {
        let paths = match &overrider.predicate {
            Some(predicate) => vec![predicate.path.clone()],
            None => image_paths(object),
        };
        for path in paths {
            let failed = |problem: String| Failed::new(OVERRIDER, index, &path, problem);
            let slot = follow(object, &path).map_err(failed)?;
            let Value::String(text) = slot else {
                return Err(failed("is not a text".to_owned()));
            };
            let mut image = Image::parse(text).map_err(|error| failed(error.to_string()))?;
            image.change(overrider.component, overrider.operator, &overrider.value);
            *text = image.to_string();
        }
    }
    Ok(())
}

/// Where the containers of the known workload kinds name their images.
fn image_paths(object: &Value) -> Vec<String> {
    let Some(containers) = containers_path(object) else {
        return Vec::new();
    };
    let count = object
        .pointer(containers)
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    (0..count)
        .map(|index| format!("{containers}/{index}/image"))
        .collect()
}

/// Follows a path whose segments are taken literally: an index after a list, a key after an object.
fn follow<'a>(object: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    let Some(path) = path.strip_prefix('/') else {
        return Err("must begin with a slash".to_owned());
    };
    path.split('/').try_fold(object, |here, segment| {
        match here {
            Value::Object(map) => map.get_mut(segment),
            Value::Array(list) => segment
                .parse::<usize>()
                .ok()
                .and_then(|index| list.get_mut(index)),
            _ => None,
        }
        .ok_or_else(|| format!("there is no {segment:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_that_are_none() {
        for text in [
            "",
            "App:1",
            "a//b",
            "a:",
            "a@sha256:12",
            "a b",
            "-a",
            "a..b",
            "r.example/",
            "a:t:g/",
        ] {
            assert!(Image::parse(text).is_err(), "{text:?}");
        }
        for text in [
            "a",
            "a_b/c__d",
            "a--b.c",
            "r.example:5000/a/b:v1",
            "localhost/a",
            "[2001:db8::1]:5000/a",
        ] {
            assert!(Image::parse(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn the_tag_wins_over_a_digest() {
        let digest = "4f".repeat(16);
        let image = Image::parse(&format!("r.example/a:v1@sha256:{digest}")).unwrap();
        assert_eq!(image.to_string(), "r.example/a:v1");
    }

    proptest! {
        #[test]
        fn a_reference_is_printed_as_it_was(
            registry in prop::option::of("[a-z]{1,5}\\.[a-z]{2,3}(:[0-9]{2,4})?"),
            path in "[a-z0-9]{1,6}(/[a-z0-9]{1,6}){0,2}",
            tag in prop::option::of("[a-z0-9][a-z0-9.-]{0,8}"),
        ) {
            let text = format!(
                "{}{path}{}",
                registry.map(|r| format!("{r}/")).unwrap_or_default(),
                tag.map(|t| format!(":{t}")).unwrap_or_default(),
            );
            prop_assert_eq!(Image::parse(&text).unwrap().to_string(), text);
        }

        #[test]
        fn replacing_twice_is_replacing_once(text in "[a-z]{1,5}(/[a-z]{1,5})?(:[a-z0-9]{1,4})?", value in "[a-z]{1,6}\\.[a-z]{2}") {
            for component in [ImageComponent::Registry, ImageComponent::Repository, ImageComponent::Tag] {
                let mut once = Image::parse(&text).unwrap();
                once.change(component, OverrideOperator::Replace, &value);
                let mut twice = once.clone();
                twice.change(component, OverrideOperator::Replace, &value);
                prop_assert_eq!(once, twice);
            }
        }
    }
}
