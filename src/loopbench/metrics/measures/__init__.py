"""One file per measure, found by its name: it offers `MEASURE`. More accuracy is better; of every other measure, less."""
