//! MQTT topics: `pinnace/1/<cluster>/u` from agent to hub, `pinnace/1/<cluster>/d` from hub to agent.

use crate::ids::ClusterName;

/// Which way a message travels. Its value is bound into every sealed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Agent to hub.
    Up,
    /// Hub to agent.
    Down,
}

impl Direction {
    /// The last topic level.
    #[must_use]
    pub const fn level(self) -> &'static str {
        match self {
            Self::Up => "u",
            Self::Down => "d",
        }
    }

    /// The other way.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// Filter by which the hub reads every cluster's `u`.
pub const ALL_UP: &str = "pinnace/1/+/u";
/// Filter by which the gateway reads every cluster's `d`.
pub const ALL_DOWN: &str = "pinnace/1/+/d";

/// The topic of a cluster and direction.
#[must_use]
pub fn topic(cluster: &ClusterName, direction: Direction) -> String {
    format!("pinnace/1/{cluster}/{}", direction.level())
}

/// Reads a topic; `None` for anything that [`topic`] does not print.
#[must_use]
pub fn parse(topic: &str) -> Option<(ClusterName, Direction)> {
    let (name, level) = topic.strip_prefix("pinnace/1/")?.split_once('/')?;
    let direction = match level {
        "u" => Direction::Up,
        "d" => Direction::Down,
        _ => return None,
    };
    Some((ClusterName::new(name).ok()?, direction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusals() {
        let cluster = ClusterName::new("shop-1").unwrap();
        for direction in [Direction::Up, Direction::Down] {
            assert_eq!(
                parse(&topic(&cluster, direction)),
                Some((cluster.clone(), direction))
            );
        }
        for bad in [
            "",
            "pinnace/1/a/x",
            "pinnace/1/a/u/b",
            "pinnace/2/a/u",
            "pinnace/1/+/u",
            "pinnace/1//u",
            "$pinnace/1/a/u",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
