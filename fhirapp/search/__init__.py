"""From a query string to one SELECT: what a search parameter means, and how it is indexed."""
