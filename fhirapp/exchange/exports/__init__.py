"""Records out: NDJSON as the source said it, with its history where that is wanted."""
