"""What several kinds of checks use."""
