CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE resource (id INTEGER PRIMARY KEY, grp TEXT NOT NULL, plural TEXT NOT NULL, UNIQUE (grp, plural));

CREATE TABLE object (
  id INTEGER PRIMARY KEY,
  resource INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  revision INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (resource, namespace, name)
);

-- Undo log: each row holds the state before, so that a state lies on disk once.
CREATE TABLE change (
  revision INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  removed INTEGER NOT NULL,
  resource INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  before_revision INTEGER,
  before BLOB
);
