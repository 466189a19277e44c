//! Shell of the agent: the member API, SQLite, MQTT and time around the decisions of agent-core.
