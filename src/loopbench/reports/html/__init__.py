"""The report of a run as one self-contained HTML page: nothing is loaded from anywhere, and every text that is not ours is data."""
