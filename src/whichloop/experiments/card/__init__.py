"""The harness card: what a loop or a program is made of and what it does, on one page."""
