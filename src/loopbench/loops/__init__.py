"""The designs under test, one module each; every one is usable by itself."""
