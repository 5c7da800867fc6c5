"""Agent frameworks as arms: a table, and in `wiring` what a user would write; each runs in an environment of its own."""
