"""How trials are carried out: in this process, in worker processes, on many machines."""
