"""What follows from a comparison: its matrix, which loop to adopt, what is undecided, what is worse, and what costs say."""
