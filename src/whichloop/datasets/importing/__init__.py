"""What importers of tasks are made of: files that are read once and checked line by line, rows, tools of the user's own."""
