//! Shell of the hub: HTTP, SQLite, MQTT and time around the decisions of hub-core.
