"""Progress of what is going on: trials and searches, in a terminal, in a notebook's cell, or as lines now and then."""
