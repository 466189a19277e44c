-- When a join token was made; 0: before this was kept.
ALTER TABLE token ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
