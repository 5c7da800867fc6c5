"""A fault profile for the scripted model, estimated from how a real model stumbled."""
