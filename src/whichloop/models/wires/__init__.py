"""The APIs that the server speaks, a module each: it reads a request into ours, and writes a reply, a stream of it, or an error."""
