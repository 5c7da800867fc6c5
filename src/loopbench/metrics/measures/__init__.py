"""One file per measure, found by its name: it offers `MEASURE`. Of a share more is better; of every other measure, less."""
