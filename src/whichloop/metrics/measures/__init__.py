"""One file per measure, found by its name: it offers `MEASURE`. Of a share more is better, of a harm and of all else less."""
