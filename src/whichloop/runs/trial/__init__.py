"""One trial: what it is given, how it runs, and the record and trace that it leaves."""
