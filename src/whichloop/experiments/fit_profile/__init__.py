"""A fault profile for the scripted model, estimated from the mistakes of a real model."""
