"""What a token lets through, worked out at each request; and why it did not."""
