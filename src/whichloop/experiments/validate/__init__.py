"""How well the tunnel predicts a run: a profile fitted to half of its tasks, held against the other half."""
