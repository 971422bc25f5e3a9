-- What an erasure has yet to prove, so that a repeated one can look for it. No text and no id: see curate/residue.py.

CREATE TABLE casenotes.unproven_erasures (
    owner        bytea PRIMARY KEY,              -- hash of agent and resource
    fingerprints bytea NOT NULL                  -- 8 bytes for each 32 bytes, or shorter text, of what was stored
);
ALTER TABLE casenotes.unproven_erasures ALTER COLUMN owner SET STATISTICS 0, ALTER COLUMN fingerprints SET STATISTICS 0;
