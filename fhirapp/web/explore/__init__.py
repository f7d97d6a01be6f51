"""The explorer: build a search, send it, look at request and answer."""
