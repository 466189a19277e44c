//! What hub and agent must agree on: ids, limits, reasons, topics, wire, bundle, object.
