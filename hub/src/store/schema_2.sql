-- Identities whose enrolment is over because their name was given on, or taken out of the fleet. Who shows such an
-- identity is told so; numbers of a name that returns go on above these.
CREATE TABLE former (
  cluster TEXT NOT NULL,
  identity BLOB NOT NULL,
  sequence INTEGER NOT NULL,
  session INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  PRIMARY KEY (cluster, identity)
) WITHOUT ROWID;

-- 1: the next token of the name enrols whoever shows it.
ALTER TABLE cluster ADD COLUMN open INTEGER NOT NULL DEFAULT 0;
CREATE INDEX cluster_member ON cluster (kube_system_uid);
