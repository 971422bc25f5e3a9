-- Whether the vectors of a space were made of texts with the names of their speakers: `Ana: …`.
-- Where no message names anybody the texts, and so the vectors, are the same.

-- The table is made anew because both kinds of one model may stand side by side while `reembed` runs.
-- Rows of `vectors` point to it: the check waits until the rows are back.
PRAGMA defer_foreign_keys = ON;

CREATE TABLE spaces_7 AS SELECT * FROM spaces;
DROP TABLE spaces;

CREATE TABLE spaces (
    space_id   INTEGER PRIMARY KEY AUTOINCREMENT, -- never one that was used before
    model      TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    normalised INTEGER NOT NULL,
    active     INTEGER NOT NULL,
    speakers   INTEGER NOT NULL,
    UNIQUE (model, dimensions, normalised, speakers)
) STRICT;

INSERT INTO spaces (space_id, model, dimensions, normalised, active, speakers)
SELECT space_id, model, dimensions, normalised, active,
       NOT EXISTS (SELECT 1 FROM messages
                    WHERE metadata LIKE '%"speaker"%' OR metadata LIKE '%"name"%' OR metadata LIKE '%"role"%')
  FROM spaces_7;
DROP TABLE spaces_7;

CREATE UNIQUE INDEX one_active_space ON spaces (active) WHERE active = 1;
