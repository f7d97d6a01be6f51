"""Records out: NDJSON as its sources sent it, with the history where that is wanted."""
