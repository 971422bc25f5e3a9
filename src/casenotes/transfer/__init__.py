"""Move conversations in and out: our own JSONL, the formats of others, import and export."""
