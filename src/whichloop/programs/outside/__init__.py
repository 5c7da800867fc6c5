"""What runs in the interpreter of a framework or of a user's agent: standard library only, Python 3.9 or later, no whichloop."""
