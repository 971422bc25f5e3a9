-- What an erasure has yet to prove, so that a repeated one can look for it. No text and no id: see curate/residue.py.

CREATE TABLE unproven_erasures (
    owner        BLOB NOT NULL PRIMARY KEY,      -- hash of agent and resource
    fingerprints BLOB NOT NULL                   -- 8 bytes for each 32 bytes, or shorter text, of what was stored
) STRICT, WITHOUT ROWID;
