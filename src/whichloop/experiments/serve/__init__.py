"""The scripted model served to any program over HTTP, trial by trial."""
