"""Which options of a loop matter: runs over all cells of a design, and the effects."""
