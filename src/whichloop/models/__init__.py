"""What answers a request: scripted and real models, and the metering round them."""
