"""One file per measure, found by its name: it offers `MEASURE`. Of a share more is better unless it is a harm; of every other measure, less."""
