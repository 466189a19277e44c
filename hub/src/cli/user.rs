//! `pinnace user`: certificates of people.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Hub;
use super::parse_duration;

/// What can be done about people.
#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Make a certificate for a person and print the kubeconfig. What they may do, roles and bindings say.
    Create(CreateArgs),
    /// List people and their certificates.
    List,
    /// Take all certificates of a person back, at once.
    Revoke {
        /// Name of the user.
        name: String,
    },
}

/// Flags of `user create`.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Name of the user.
    name: String,
    /// Group of the user; may be repeated.
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// How long the certificate is good: `12h`, `30d`.
    #[arg(long, default_value = "365d", value_parser = parse_duration)]
    ttl: Duration,
}

/// Runs one command.
pub(super) async fn run(hub: &Hub, command: &UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::Create(args) => {
            let body = json!({"apiVersion": "fleet.pinnace.dev/v1alpha1", "kind": "User",
                "metadata": {"name": args.name},
                "spec": {"groups": args.groups, "ttlSeconds": args.ttl.as_secs()}});
            let made: Value = hub.post("users", &body).await?;
            print!("{}", made["status"]["kubeconfig"].as_str().unwrap_or_default());
        }
        UserCommand::List => {
            let list: Value = hub.get("users").await?;
            print!("{}", table(&list));
        }
        UserCommand::Revoke { name } => {
            let path = format!("users/{}/revoke", escaped(name));
            let done: Value = hub.post(&path, &json!({})).await?;
            println!("{}", done["message"].as_str().unwrap_or("done"));
        }
    }
    Ok(())
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
    name.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"-._~@".contains(&b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

fn table(list: &Value) -> String {
    let mut out = format!(
        "{:<24} {:<12} {:<22} {}\n",
        "NAME", "CERTIFICATES", "EXPIRES", "GROUPS"
    );
    for user in list["items"].as_array().into_iter().flatten() {
        let certificates = user["status"]["certificates"].as_array();
        let newest = certificates.and_then(|c| c.last());
        let groups: Vec<&str> = newest
            .and_then(|c| c["groups"].as_array())
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let expires = newest.and_then(|c| c["expires"].as_str()).unwrap_or("revoked");
        out.push_str(&format!(
            "{:<24} {:<12} {:<22} {}\n",
            user["metadata"]["name"].as_str().unwrap_or_default(),
            certificates.map_or(0, Vec::len),
            expires,
            groups.join(",")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_listed_with_what_they_have() {
        let list = json!({"items": [
            {"metadata": {"name": "ann"}, "status": {"certificates": [{"expires": "2030-01-01T00:00:00Z", "groups": ["a", "b"]}]}},
            {"metadata": {"name": "bob"}, "status": {"certificates": []}}]});
        let text = table(&list);
        let words: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["ann", "1", "2030-01-01T00:00:00Z", "a,b"]);
        assert_eq!(words[2], ["bob", "0", "revoked"]);
        assert_eq!(escaped("ann/b%"), "ann%2Fb%25");
    }
}
