"""Notes: the words of all of them, one note, its versions and what differs between two."""
