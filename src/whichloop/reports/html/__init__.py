"""Documents and charts as self-contained HTML pages: nothing is loaded from anywhere, and every text that is not ours is data."""
