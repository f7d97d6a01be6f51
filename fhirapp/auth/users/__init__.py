"""Users: their roles and records, how they prove who they are, where they are signed in."""
