"""What attackers try: each case is refused, and harms nobody else."""
