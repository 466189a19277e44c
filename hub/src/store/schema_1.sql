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

-- Join tokens, by the SHA-256 of their text.
CREATE TABLE token (
  digest BLOB PRIMARY KEY,
  cluster TEXT NOT NULL,
  expires INTEGER NOT NULL,
  used_by BLOB,
  terms TEXT NOT NULL
) WITHOUT ROWID;

-- Enrolled clusters. No column can hold a credential of a member.
CREATE TABLE cluster (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  incarnation BLOB NOT NULL,
  identity BLOB NOT NULL,
  kube_system_uid TEXT NOT NULL,
  terms TEXT NOT NULL,
  enrolled INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0,
  session INTEGER NOT NULL DEFAULT 0,
  report_seq INTEGER NOT NULL DEFAULT 0,
  boots TEXT NOT NULL DEFAULT '[]',
  sequence INTEGER NOT NULL DEFAULT 0,
  digest BLOB,
  published INTEGER NOT NULL DEFAULT 0,
  acked INTEGER NOT NULL DEFAULT 0,
  facts TEXT,
  last_seen INTEGER,
  held BLOB,
  revision INTEGER NOT NULL DEFAULT 0
);

-- What many rows share is stored once: object keys, bookkeeping, contents, texts of reports.
CREATE TABLE okey (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL UNIQUE);
CREATE TABLE facet (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL UNIQUE);
CREATE TABLE content (
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  length INTEGER NOT NULL,
  record BLOB NOT NULL
);
CREATE TABLE text (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, record BLOB NOT NULL);

CREATE TABLE binding (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  revision INTEGER NOT NULL,
  UNIQUE (namespace, name)
);

-- One work of one cluster. Its id never returns: the uid of the Work view comes from it.
CREATE TABLE target (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  cluster INTEGER NOT NULL,
  okey INTEGER NOT NULL,
  binding INTEGER NOT NULL,
  facet INTEGER NOT NULL,
  content INTEGER NOT NULL,
  since INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  created INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  UNIQUE (cluster, okey)
);
CREATE INDEX target_binding ON target (binding);

CREATE TABLE tombstone (
  cluster INTEGER NOT NULL,
  okey INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  template_uid TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  PRIMARY KEY (cluster, okey)
) WITHOUT ROWID;

CREATE TABLE head (
  cluster INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (cluster, sequence)
) WITHOUT ROWID;

-- What the agent last said of a target.
CREATE TABLE report (
  target INTEGER PRIMARY KEY,
  flags INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  content BLOB NOT NULL,
  reason INTEGER,
  message INTEGER,
  status INTEGER,
  uid TEXT NOT NULL,
  observed INTEGER NOT NULL,
  revision INTEGER NOT NULL
);

-- Contents of the last adoptions of a binding, newest ten kept.
CREATE TABLE history (
  binding INTEGER NOT NULL,
  adoption INTEGER NOT NULL,
  content INTEGER NOT NULL,
  PRIMARY KEY (binding, adoption, content)
) WITHOUT ROWID;
