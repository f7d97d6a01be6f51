"""Files and folders: written whole or not at all, held while they are in use, private."""
