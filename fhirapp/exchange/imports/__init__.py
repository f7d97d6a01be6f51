"""Records in: from inputs of every kind to versions of resources, with a report."""
