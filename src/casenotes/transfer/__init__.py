"""Move conversations in and out: the JSONL format, import and export."""
