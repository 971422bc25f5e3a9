-- Whether the vectors of a space were made of texts with the names of their speakers: `Ana: …`.
-- Where no message names anybody the texts, and so the vectors, are the same. Who sees one scope only cannot tell.

ALTER TABLE casenotes.spaces ADD COLUMN speakers boolean;

UPDATE casenotes.spaces SET speakers = NOT row_security_active('casenotes.messages') AND NOT EXISTS (
    SELECT 1 FROM casenotes.messages
     WHERE metadata LIKE '%"speaker"%' OR metadata LIKE '%"name"%' OR metadata LIKE '%"role"%');

ALTER TABLE casenotes.spaces ALTER COLUMN speakers SET NOT NULL;
ALTER TABLE casenotes.spaces DROP CONSTRAINT spaces_model_dimensions_normalised_key;
ALTER TABLE casenotes.spaces ADD UNIQUE (model, dimensions, normalised, speakers);
