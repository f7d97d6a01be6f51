"""The one writer: versions are published, rendered and indexed here and nowhere else."""
